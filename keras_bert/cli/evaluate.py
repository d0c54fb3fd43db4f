"""Command `keras-bert evaluate`: measures a fine-tuned model."""

from typing import Any

import click

from keras_bert.cli.files import OVERWRITE, check_output, is_picture, write_json, write_text
from keras_bert.cli.options import (
    AS_TASK,
    BATCH_SIZE,
    COLUMNS,
    FORMAT,
    MODEL,
    NULL_THRESHOLD,
    add,
    load_model,
    reader,
)
from keras_bert.errors import InputError


@click.command("evaluate")
@MODEL
@AS_TASK
@click.option("--data", required=True, metavar="FILE", help="Examples with labels.")
@click.option(
    "--report",
    is_flag=True,
    help="Print a table: precision, recall and F1 of every label, and the labels that the model "
    "confuses most.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON, also with --report.")
@click.option(
    "--confusion",
    metavar="FILE.png",
    help="Draw a table of right and predicted labels: of many labels, the most confused.",
)
@NULL_THRESHOLD
@add(*COLUMNS, FORMAT)
@BATCH_SIZE
@OVERWRITE
def command(
    model: str,
    as_task: str | None,
    data: str,
    report: bool,
    as_json: bool,
    confusion: str | None,
    null_threshold: float | None,
    batch_size: int,
    overwrite: bool,
    **options: Any,
) -> None:
    """Measure a fine-tuned model on labeled examples.

    Prints the number of examples and the metrics as one line of JSON or, with --report, as a table.
    """
    if confusion:
        from keras_bert.visualize.plotting import check_picture

        check_picture(confusion)
        check_output(confusion, (data, model), is_picture, overwrite)
    from keras_bert.finetuning import evaluation
    from keras_bert.finetuning.result import without_nan
    from keras_bert.finetuning.tasks import usable, use_scores

    task, tuned = load_model(model, as_task, null_threshold)
    labels = evaluation.labels_given(tuned)
    if report and not labels:
        raise InputError("--report is for models that give labels to texts or words.")
    if confusion and labels != "single":
        raise InputError("--confusion is for models that give one label to each text or word.")
    examples = reader(task, options)(data)
    use_scores(tuned, examples)
    examples = usable(examples, tuned, options["on_error"])
    job, rows, outputs = evaluation.outputs_of(tuned, examples, batch_size, labeled=True)
    tuned.warn_of_cut_texts(rows)
    metrics = job.measure(tuned, examples, rows, outputs)
    measured: dict[str, Any] = {"examples": len(examples), **without_nan(metrics)}
    if report or confusion:
        predictions = job.predict(tuned, examples, rows, outputs)
    if confusion:
        from keras_bert.visualize.finetuning import plot_confusion

        plot_confusion(*evaluation.confusion(tuned, examples, predictions), confusion)
    if report:
        found = evaluation.report_of(tuned, examples, metrics, predictions)
        measured = without_nan(found.to_dict())
    if report and not as_json:
        write_text(f"{found}\n")
    else:
        write_json(measured)
