"""Converts labels of a file to arguments of a model, and to targets of losses and metrics."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError, closest
from keras_bert.finetuning.examples import TextExamples


def problem_type_of(examples: TextExamples) -> str:
    """Returns the type of problem: "multi_label", "regression" or "single_label".

    The type is "multi_label" if each label is a list of labels. It is "regression" if all labels
    are numbers and at least one is not a whole number.
    """
    labels = examples.labels or ()
    if labels and isinstance(labels[0], tuple):
        return "multi_label"
    numbers = [_number(label) for label in labels]
    if None not in numbers and any(number != round(number) for number in numbers if number):
        return "regression"
    return "single_label"


_SWAPPED = 20  # so many labels are probably texts if all differ and most have spaces


def label_names(examples: TextExamples, problem_type: str) -> tuple[str, ...]:
    """Returns the names of a model's labels, in the order of their ids.

    The order is numerical if all names are whole numbers, else alphabetical. If each label has a
    column of its own, the names have the order of the columns. A regression has only the name
    "score".

    Raises:
        InputError: if there are fewer than two labels, or the labels are probably texts, or lists
            although there is one label for each example, or the reverse.
    """
    labels = _labels(examples)
    if problem_type == "regression":
        return ("score",)
    _check_lists(examples, labels, problem_type)
    if problem_type == "multi_label":
        if len(examples.columns.labels) > 1:
            return examples.columns.labels
        names = {name for label in labels for name in label}
        if not names:
            raise InputError(f"{examples.path}: no example has a label.")
    else:
        names = set(labels)
        if len(names) < 2:
            raise InputError(
                f"{examples.path}: all examples have the label {labels[0]!r}; a classifier needs "
                "at least two labels to tell apart."
            )
        if len(names) == len(labels) >= _SWAPPED and sum(" " in n for n in names) > _SWAPPED / 2:
            raise InputError(
                f"{examples.path}: each of the {len(labels)} examples has another label, such as "
                f"{labels[0]!r}; the columns of texts and labels are probably swapped."
            )
    if all(name.isdecimal() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def targets_of(examples: TextExamples, names: tuple[str, ...], problem_type: str) -> np.ndarray:
    """Returns the targets of `SequenceClassifier.default_loss`.

    Args:
        examples: N labeled examples.
        names: L labels of the model, by id.
        problem_type: type of problem of the model.

    Returns:
        Label ids, int32 `[N]`. For "multi_label": 0 or 1 for each label, float32 `[N, L]`. For
        "regression": the numbers, float32 `[N, 1]`.

    Raises:
        InputError: if a label is unknown or not a number; the message names file and line.
    """
    labels = _labels(examples)
    if problem_type == "regression":
        return np.array(
            [[_checked_number(examples, index)] for index in range(len(labels))], "float32"
        )
    _check_lists(examples, labels, problem_type)
    ids = {name: index for index, name in enumerate(names)}
    if problem_type == "single_label":
        return np.array([_id(examples, i, label, ids) for i, label in enumerate(labels)], "int32")
    indicators = np.zeros((len(labels), len(names)), "float32")
    for index, several in enumerate(labels):
        indicators[index, [_id(examples, index, label, ids) for label in several]] = 1
    return indicators


def _check_lists(examples: TextExamples, labels: Sequence[Any], problem_type: str) -> None:
    if isinstance(labels[0], tuple) != (problem_type == "multi_label"):
        expected = "a list of labels" if problem_type == "multi_label" else "one label"
        raise InputError(
            f"{examples.place(0)}: the label is {labels[0]!r}, but this model wants {expected} "
            "for each example."
        )


def embedder_arguments(*examples: TextExamples, objective: str | None = None) -> dict[str, Any]:
    """Returns arguments of `TextEmbedder` that suit examples: objective, labels and score range.

    Args:
        *examples: all splits, the training examples first.
        objective: the objective. By default, it is "contrastive" if there are no labels, "cosine"
            if all labels are numbers and one is not whole, else "softmax".

    Raises:
        InputError: if the labels do not suit the objective.
    """
    train = examples[0]
    if objective is None:
        scores = train.labels is not None and problem_type_of(train) == "regression"
        objective = "contrastive" if train.labels is None else "cosine" if scores else "softmax"
    arguments: dict[str, Any] = {"objective": objective, "labels": None}
    if objective == "softmax":
        arguments["labels"] = label_names(train, "single_label")
        arguments["normalize"] = False  # as in the paper, the softmax gets unscaled vectors
    if objective == "cosine":
        values = np.concatenate([targets_of(part, (), "regression") for part in examples])
        low, high = math.floor(min(values.min(), 0)), math.ceil(max(values.max(), 1))
        if values.min() >= 1 and high > 2:  # grades such as 1 to 5
            low = 1
        arguments["score_range"] = (float(low), float(high))
    return arguments


def _labels(examples: TextExamples) -> tuple:
    if not examples.labels:
        raise InputError(f"{examples.path} has no labels; name their column.")
    return examples.labels


def _id(examples: TextExamples, index: int, label: str, ids: dict[str, int]) -> int:
    if label not in ids:
        raise InputError(
            f"{examples.place(index)}: the label {label!r} is unknown.{closest(label, ids)} "
            f"The model knows {', '.join(map(repr, ids))}."
        )
    return ids[label]


def _checked_number(examples: TextExamples, index: int) -> float:
    label = _labels(examples)[index]
    number = _number(label)
    if number is None:
        raise InputError(
            f"{examples.place(index)}: the label is {label!r}, but this model needs a number."
        )
    return number


def _number(label: str | tuple[str, ...]) -> float | None:
    try:
        number = float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
