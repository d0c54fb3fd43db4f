"""keras-bert evaluate."""

from typing import Any

import click

from keras_bert.cli.models import load_classifier
from keras_bert.cli.options import BATCH_SIZE, MODEL, data_options, reader
from keras_bert.cli.texts import write_json


@click.command("evaluate")
@MODEL
@click.option("--data", required=True, metavar="FILE", help="CSV, TSV or JSONL with labels.")
@data_options
@BATCH_SIZE
def command(model: str, data: str, batch_size: int, **options: Any) -> None:
    """Measure a classifier on labelled texts.

    Prints the number of examples, the loss and the metrics as one line of JSON.
    """
    from keras_bert.finetuning import evaluate

    examples = reader(**options)(data)
    metrics = evaluate(load_classifier(model), examples, batch_size=batch_size)
    write_json({"examples": len(examples), **metrics})
