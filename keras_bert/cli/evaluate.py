"""keras-bert evaluate."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import click

from keras_bert.cli.data import labels_of, reader, usable
from keras_bert.cli.models import load_model, to_measure
from keras_bert.cli.options import AS_TASK, BATCH_SIZE, MODEL, NULL_THRESHOLD, data_options
from keras_bert.cli.outputs import OVERWRITE, check_output, is_picture
from keras_bert.cli.texts import write_json
from keras_bert.errors import InputError

Labels: TypeAlias = list[Sequence[str]]
"""Of each example its label, its labels, or one for each word."""


@click.command("evaluate")
@MODEL
@AS_TASK
@click.option("--data", required=True, metavar="FILE", help="Examples with labels.")
@click.option("--report", is_flag=True, help="Add precision, recall and F1 of every label.")
@click.option(
    "--confusion", metavar="FILE.png", help="A picture of which label was taken for which."
)
@NULL_THRESHOLD
@data_options
@BATCH_SIZE
@OVERWRITE
def command(
    model: str,
    as_task: str | None,
    data: str,
    report: bool,
    confusion: str | None,
    null_threshold: float | None,
    batch_size: int,
    overwrite: bool,
    **options: Any,
) -> None:
    """Measure a fine-tuned model on labelled examples.

    Prints the number of examples and the metrics as one line of JSON.
    """
    if confusion:
        from keras_bert.visualize.plotting import check_picture

        check_picture(confusion)
        check_output(confusion, (data, model), is_picture, overwrite)
    from keras_bert.finetuning.evaluation import outputs_of
    from keras_bert.finetuning.result import without_nan

    task, tuned = load_model(model, as_task, null_threshold)
    _check_labelling(tuned, report, confusion is not None)
    examples = reader(task, **options)(data)
    tuned = to_measure(model, tuned, examples)
    examples = usable(examples, tuned, options["on_error"])
    job, rows, outputs = outputs_of(tuned, examples, batch_size, labelled=True)
    metrics = job.measure(tuned, examples, rows, outputs)
    measured: dict[str, Any] = {"examples": len(examples), **without_nan(metrics)}
    if report or confusion:
        right = labels_of(examples)
        predicted = _predicted(job.predict(tuned, examples, rows, outputs))
        if report:
            measured["labels"] = _report(tuned, right, predicted)
        if confusion:
            _draw(tuned, right, predicted, confusion)
    write_json(measured)


def _check_labelling(model: Any, report: bool, confusion: bool) -> None:
    import keras_bert

    labelling = isinstance(model, (keras_bert.SequenceClassifier, keras_bert.TokenClassifier))
    problem = getattr(model, "problem_type", "single_label")
    if report and not (labelling and problem != "regression"):
        raise InputError("--report is for models that give labels to texts or words.")
    if confusion and not (labelling and problem == "single_label"):
        raise InputError("--confusion is for models that give one label to each text or word.")


def _predicted(predictions: Sequence[dict[str, Any]]) -> Labels:
    names = ("tags", "labels", "label")
    labels = [next(one[name] for name in names if name in one) for one in predictions]
    return [(label,) if isinstance(label, str) else label for label in labels]


def _report(model: Any, right: Labels, predicted: Labels) -> dict[str, dict[str, Any]]:
    """Of entities, they count; else the labels of words, or of texts."""
    from keras_bert.metrics.entities import entity_report
    from keras_bert.tasks.entities import spans_of

    def items(labels: Sequence[str]) -> list[tuple[str, int, int]]:
        if _marks_entities(model):
            return spans_of(labels)
        # Labels of words must agree place by place; those of a text have no order.
        places = range(len(labels)) if hasattr(model, "scheme") else [0] * len(labels)
        return [(label, place, place) for label, place in zip(labels, places, strict=True)]

    return entity_report(list(map(items, right)), list(map(items, predicted)))


def _draw(model: Any, right: Labels, predicted: Labels, path: str) -> None:
    """Text by text or word by word; tags of entities without their prefixes."""
    from keras_bert.visualize.finetuning import plot_confusion

    def names(labels: Sequence[str]) -> list[str]:
        return [label[2:] or label if _marks_entities(model) else label for label in labels]

    targets, predictions = (
        [label for one in labels for label in names(one)] for labels in (right, predicted)
    )
    plot_confusion(targets, predictions, list(dict.fromkeys(names(model.labels))), path)


def _marks_entities(model: Any) -> bool:
    return getattr(model, "scheme", None) is not None
