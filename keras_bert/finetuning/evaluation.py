"""Predictions of a model for examples, and metrics of the predictions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import Examples, labels_of
from keras_bert.finetuning.jobs import Job, job_of
from keras_bert.finetuning.jobs.token_classifier import finds_entities
from keras_bert.metrics.entities import Span, entity_averages, entity_report
from keras_bert.metrics.report import Report, confused_pairs
from keras_bert.tasks.entities import spans_of
from keras_bert.tasks.registry import task_of
from keras_bert.text.rows import Rows


def evaluate(
    model: Any,
    examples: Examples,
    *,
    batch_size: int = 32,
    run: Callable[..., Any] | None = None,
) -> dict[str, float]:
    """Returns the metrics of a model on labeled examples.

    Args:
        model: a task with a preprocessor.
        examples: examples of the task's kind, with labels that the model knows.
        batch_size: rows per step.
        run: function that replaces the model; see `predict_rows`.

    Returns:
        Metrics by name, and `loss` unless the model is a contrastive embedder.

    Raises:
        InputError: if labels are missing or unknown; the message names file and line.

    Example:
        >>> evaluate(model, read("classifier", "test.csv"))["accuracy"]
        0.93
    """
    job, rows, outputs = outputs_of(model, examples, batch_size, labeled=True, run=run)
    model.warn_of_cut_texts(rows)
    return job.measure(model, examples, rows, outputs)


def predict(
    model: Any, examples: Examples, *, batch_size: int = 32, top_k: int | None = 1
) -> list[dict[str, Any]]:
    """Returns a model's predictions for examples, with labels or without.

    Args:
        model: a task with a preprocessor.
        examples: examples of the task's kind.
        batch_size: rows per step.
        top_k: number of labels with scores; only for a `SequenceClassifier`, see its
            `predict_text`.

    Returns:
        One dictionary per example, ready for JSON. It has the same keys as the result
        of the model's `predict_text` or, for a `TokenClassifier`, `predict_words`.

    Raises:
        InputError: if the model cannot take texts, or `top_k` is unsuitable.

    Example:
        >>> predict(model, TextExamples.from_lines(["a fine film"]))
        [{'label': 'good', 'score': 0.98}]
    """
    predictions, rows = predictions_of(model, examples, batch_size=batch_size, top_k=top_k)
    model.warn_of_cut_texts(rows)
    return predictions


def predictions_of(
    model: Any, examples: Examples, *, batch_size: int = 32, top_k: int | None = 1
) -> tuple[list[dict[str, Any]], Rows]:
    """Returns the result of `predict`, and the rows that the examples became."""
    check_top_k(model, top_k)
    job, rows, outputs = outputs_of(model, examples, batch_size)
    options = {} if top_k == 1 else {"top_k": top_k}
    return job.predict(model, examples, rows, outputs, **options), rows


def check_top_k(model: Any, top_k: int | None) -> None:
    """Checks that a model can give the scores of several labels.

    Raises:
        InputError: if the model is not a classifier, or `top_k` is unsuitable for it.
    """
    if task_of(model) == "classifier":
        model.check_top_k(top_k)
    elif top_k != 1:
        raise InputError(
            f"top_k is {top_k}, but a {type(model).__name__} does not rank labels; leave top_k at "
            "1, or give a SequenceClassifier."
        )


def outputs_of(
    model: Any,
    examples: Examples,
    batch_size: int,
    *,
    labeled: bool = False,
    run: Callable[..., Any] | None = None,
) -> tuple[Job, Rows, Any]:
    """Returns a model's job, the rows of the examples, and the outputs for the rows.

    Args:
        model: a task with a preprocessor.
        examples: examples of the task's kind.
        batch_size: rows per step.
        labeled: whether the labels are checked before the model runs.
        run: function that replaces the model; see `predict_rows`.

    Raises:
        InputError: if the model cannot take texts, or a label is wrong.
    """
    job = job_of(model)
    check_model(model)
    rows = job.rows(model, examples)
    if labeled:
        job.targets(model, examples, rows)
    return job, rows, model.predict_rows(rows, batch_size, run)


def check_model(model: Any) -> None:
    """Checks that a model has enough positions; `Task.rows` checks that it takes texts.

    Raises:
        InputError: if its preprocessor makes longer rows.
    """
    positions = model.config.max_positions
    if model.preprocessor is not None and model.preprocessor.sequence_length > positions:
        raise InputError(
            f"The preprocessor's sequence_length is {model.preprocessor.sequence_length}, but the "
            f"model has {positions} positions; shorten it."
        )


def labels_given(model: Any) -> str:
    """Returns "single" if a model gives each text or word one label, "multi" if several, else "".

    Only models with such labels have a `label_report`.
    """
    if task_of(model) not in ("classifier", "token_classifier"):
        return ""
    kinds = {"multi_label": "multi", "regression": ""}
    return kinds.get(getattr(model, "problem_type", ""), "single")


def report(
    model: Any, examples: Examples, *, batch_size: int = 32, most_confused: int = 10
) -> Report:
    """Measures a model that gives labels, and reports the scores of every label.

    Args:
        model: a `SequenceClassifier` or `TokenClassifier` with a preprocessor.
        examples: examples with labels.
        batch_size: rows per step.
        most_confused: largest number of confused pairs of labels in the report.

    Returns:
        The scores. `print` shows them as a table.

    Raises:
        InputError: if the model predicts no labels, or labels are missing or unknown.

    Example:
        >>> print(report(model, read("classifier", "test.csv")))
        100 examples: loss 0.2104, accuracy 0.9300, macro_f1 0.9299
        <BLANKLINE>
        label             precision     recall         F1    support
        bad                   0.920      0.939      0.929         49
        ...
    """
    check_labels_given(model)
    job, rows, outputs = outputs_of(model, examples, batch_size, labeled=True)
    model.warn_of_cut_texts(rows)
    metrics = job.measure(model, examples, rows, outputs)
    predictions = job.predict(model, examples, rows, outputs)
    return report_of(model, examples, metrics, predictions, most_confused)


def report_of(
    model: Any,
    examples: Examples,
    metrics: dict[str, float],
    predictions: Sequence[dict[str, Any]],
    most_confused: int = 10,
) -> Report:
    """Returns the report of a model's predictions for examples; see `report`.

    Args:
        model: a `SequenceClassifier` or `TokenClassifier`.
        examples: examples with labels.
        metrics: metrics of the predictions; see `evaluate`.
        predictions: predictions for the examples; see `predict`.
        most_confused: largest number of confused pairs of labels.
    """
    items = _items(model, examples, predictions)
    confused = None
    if labels_given(model) == "single":
        confused = confused_pairs(*confusion(model, examples, predictions)[:2], most_confused)
    return Report(len(examples), metrics, entity_report(*items), entity_averages(*items), confused)


def check_labels_given(model: Any) -> None:
    """Checks that a model gives labels to texts or words.

    Raises:
        InputError: if the model predicts something else.
    """
    if not labels_given(model):
        raise InputError(
            "A report is for models that give labels to texts or words, but this "
            f"{type(model).__name__} predicts something else; leave the report out."
        )


def label_report(
    model: Any, examples: Examples, predictions: Sequence[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns precision, recall, F1 and support of every label.

    If the labels mark entities, the report counts entities, else the labels of words or texts.

    Args:
        model: a `SequenceClassifier` or `TokenClassifier`.
        examples: examples with labels.
        predictions: predictions for the examples; see `predict`.

    Example:
        >>> examples = read("classifier", "test.csv")
        >>> label_report(model, examples, predict(model, examples))["good"]
        {'precision': 0.94, 'recall': 0.92, 'f1': 0.93, 'support': 50}
    """
    return entity_report(*_items(model, examples, predictions))


def right_examples(
    model: Any, examples: Examples, predictions: Sequence[dict[str, Any]]
) -> np.ndarray:
    """Returns for each example whether all of its labels or entities are right: bool `[N]`.

    The arguments are the same as for `label_report`.
    """
    pairs = zip(*_items(model, examples, predictions), strict=True)
    return np.array([sorted(right) == sorted(predicted) for right, predicted in pairs], bool)


def _items(
    model: Any, examples: Examples, predictions: Sequence[dict[str, Any]]
) -> tuple[list[list[Span]], list[list[Span]]]:
    """Returns the right and the predicted entities or labels of each example, as spans."""

    def items(labels: Sequence[str]) -> list[Span]:
        if _marks_entities(model):
            return spans_of(labels)
        # The labels of words must agree word by word. The labels of a text have no order.
        places = range(len(labels)) if hasattr(model, "scheme") else [0] * len(labels)
        return [(label, place, place) for label, place in zip(labels, places, strict=True)]

    right, predicted = labels_of(examples), _predicted(predictions)
    return list(map(items, right)), list(map(items, predicted))


def confusion(
    model: Any, examples: Examples, predictions: Sequence[dict[str, Any]]
) -> tuple[list[str], list[str], list[str]]:
    """Returns the arguments of `plot_confusion`: right labels, predicted labels, and all labels.

    Each text or word has one label in both lists. Tags of entities lose their prefixes, such as
    `B-`. The arguments are the same as for `label_report`.
    """

    def names(labels: Sequence[str]) -> list[str]:
        return [label[2:] or label if _marks_entities(model) else label for label in labels]

    right, predicted = (
        [label for one in labels for label in names(one)]
        for labels in (labels_of(examples), _predicted(predictions))
    )
    return right, predicted, list(dict.fromkeys(names(model.labels)))


def _predicted(predictions: Sequence[dict[str, Any]]) -> list[Sequence[str]]:
    names = ("tags", "labels", "label")
    labels = [next(one[name] for name in names if name in one) for one in predictions]
    return [(label,) if isinstance(label, str) else label for label in labels]


def _marks_entities(model: Any) -> bool:
    return hasattr(model, "scheme") and finds_entities(model)
