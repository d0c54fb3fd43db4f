"""Job of text classification: predicts one label, several labels or a number for each text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.errors import InputError, closest
from keras_bert.finetuning.examples import Columns, Examples, TextExamples
from keras_bert.finetuning.jobs.job import Job, PerRow, Targets, measured_loss
from keras_bert.finetuning.readers.glue import GLUE, read_glue
from keras_bert.finetuning.readers.tables import FORMATS
from keras_bert.finetuning.readers.texts import read_examples
from keras_bert.finetuning.recipe import Recipe
from keras_bert.finetuning.targets import label_names, problem_type_of, targets_of
from keras_bert.metrics import measure as measure_by_name
from keras_bert.text.rows import Rows

METRICS = {
    "single_label": ("accuracy", "macro_f1"),
    "two_labels": ("accuracy", "f1", "macro_f1", "matthews"),
    "multi_label": ("micro_f1", "macro_f1", "accuracy"),
    "regression": ("pearson", "spearman"),
}
"""Metrics by type of problem. "two_labels" is the type "single_label" with two labels.

"f1" is the F1 of the second label.
"""


def read(
    path: str,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: Sequence[str] = (),
    header: bool = True,
    format: str | None = None,
    separator: str | None = None,
    glue: str | None = None,
    labeled: bool = True,
    on_error: Any = "fail",
) -> TextExamples:
    """Reads texts or pairs; see `read_examples`. If the file is from GLUE, `glue` names the task.

    Raises:
        InputError: if the file cannot be read, or the GLUE task has no file with this name.
    """
    if glue is None:
        return read_examples(
            path,
            Columns(text_column, pair_column, tuple(label_column)),
            format=format,
            header=header,
            separator=separator,
            labeled=labeled,
            on_error=on_error,
        )
    splits = {file: split for split, file in GLUE[glue].files.items()}
    if Path(path).name not in splits:
        raise InputError(f"{path} is not a file of GLUE's task {glue}; give {', '.join(splits)}.")
    return read_glue(glue, splits[Path(path).name], Path(path).parent, on_error=on_error)


def arguments(
    train: TextExamples,
    *others: Examples,
    problem_type: str | None = None,
    pooling: str | None = None,
    windows: str | None = None,
    max_windows: int | None = None,
) -> dict[str, Any]:
    """Returns labels, problem type, pooling and windows. By default, labels decide the type.

    Raises:
        InputError: if examples are pairs, which cannot be read in windows.
    """
    if windows is not None and train.pairs is not None:
        raise InputError(
            f"windows is {windows!r}, but {train.path} has pairs, and only single texts can be "
            "read in windows; leave windows out."
        )
    problem_type = problem_type or problem_type_of(train)
    labels = label_names(train, problem_type)
    return {
        "labels": labels,
        "problem_type": problem_type,
        "pooling": pooling,
        "windows": windows,
        "max_windows": max_windows,
    }


def targets(model: Any, examples: TextExamples, rows: Rows) -> PerRow:
    """Returns the targets of `targets_of`."""
    return PerRow(targets_of(examples, model.labels, model.problem_type))


def measure(
    model: Any, examples: TextExamples, rows: Rows | None, outputs: list[np.ndarray]
) -> dict[str, float]:
    """Returns the loss and the metrics."""
    logits = np.stack(outputs)
    right = targets_of(examples, model.labels, model.problem_type)
    loss = measured_loss(model, right, logits)
    answers = {
        "single_label": lambda: logits.argmax(axis=1),
        "multi_label": lambda: logits >= 0,
        "regression": lambda: logits[:, 0],
    }[model.problem_type]()
    right = right[:, 0] if model.problem_type == "regression" else right
    return {"loss": loss, **measure_by_name(metrics(model), right, answers)}


def metrics(model: Any) -> tuple[str, ...]:
    """Returns the metrics of the model's type of problem.

    Raises:
        InputError: if the model predicts several numbers.
    """
    if model.problem_type == "regression" and model.num_labels != 1:
        raise InputError(
            f"The model predicts {model.num_labels} numbers for each text, but only a model that "
            "predicts one number can be fine-tuned and measured."
        )
    two = model.problem_type == "single_label" and model.num_labels == 2
    return METRICS["two_labels" if two else model.problem_type]


@keras.saving.register_keras_serializable(package="keras_bert")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy that spreads a part of each target evenly over all labels.

    Szegedy et al. 2015 (https://arxiv.org/abs/1512.00567), section 7.

    Args:
        smoothing: ratio of the target that is spread.
    """

    def __init__(self, smoothing: float, **kwargs: Any):
        super().__init__(**kwargs)
        self.smoothing = smoothing

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "smoothing": self.smoothing}

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns losses `[B]` of label ids `[B]` and logits `[B, L]`."""
        log_probabilities = keras.ops.log_softmax(y_pred)
        right = keras.ops.one_hot(y_true, y_pred.shape[-1], dtype=y_pred.dtype)
        spread = (1 - self.smoothing) * right + self.smoothing / y_pred.shape[-1]
        return -keras.ops.sum(spread * log_probabilities, axis=-1)


def loss(model: Any, recipe: Recipe) -> keras.losses.Loss:
    """Returns the model's loss, with smoothed labels if the recipe says so.

    Raises:
        InputError: if the recipe smooths labels and the model is a regression.
    """
    smoothing = recipe.label_smoothing
    if not smoothing:
        return model.default_loss()
    if model.problem_type == "regression":
        raise InputError("A regression has no labels to smooth; leave label_smoothing at 0.")
    if model.problem_type == "multi_label":
        return keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=smoothing)
    return SmoothedCrossentropy(smoothing)


def weights(
    model: Any, examples: TextExamples, targets: Targets, recipe: Recipe
) -> np.ndarray | None:
    """Returns the weight of each example's label, or None without class weights.

    Raises:
        InputError: if each example has one label and all labels are the same, or the weights do
            not fit the labels.
    """
    values, given = targets.values, recipe.class_weights
    if model.problem_type == "single_label" and (values == values[0]).all():
        raise InputError(
            f"{examples.path}: all training examples have the label "
            f"{model.labels[values[0]]!r}; a classifier needs at least two labels to tell apart."
        )
    if given is None:
        return None
    if model.problem_type != "single_label":
        raise InputError(
            f"class_weights are for one label per text; this model's problem_type is "
            f"{model.problem_type!r}. Leave them out."
        )
    counts = np.bincount(values, minlength=model.num_labels)
    if isinstance(given, str):  # "balanced"
        by_label = len(values) / (model.num_labels * np.maximum(counts, 1))
    else:
        for label in given:
            if label not in model.labels:
                raise InputError(
                    f"class_weights has {label!r}, which is not a label of the model."
                    f"{closest(label, model.labels)} Its labels are "
                    f"{', '.join(map(repr, model.labels))}."
                )
        by_label = np.array([given.get(label, 1.0) for label in model.labels])
    return by_label[values].astype(np.float32)


def predict(
    model: Any,
    examples: TextExamples,
    rows: Rows,
    outputs: list[np.ndarray],
    top_k: int | None = 1,
) -> list[dict[str, Any]]:
    """Returns the dictionaries of `SequenceClassifier.predict_text`."""
    return model.predictions(outputs, top_k)


JOB = Job(
    examples=TextExamples,
    formats=FORMATS,
    read=read,
    arguments=arguments,
    rows=lambda model, examples: model.rows(examples.inputs),
    targets=targets,
    predict=predict,
    measure=measure,
    metrics=metrics,
    loss=loss,
    weights=weights,
)
