"""Command `keras-bert convert`: writes a model in the format of another library."""

from pathlib import Path

import click

FORMATS = ("native", "huggingface", "sentence-transformers", "google", "keras-hub")


@click.command("convert")
@click.argument("source")
@click.argument("target")
@click.option("--to", "format", type=click.Choice(FORMATS), required=True, help="Format to write.")
@click.option(
    "--task",
    metavar="NAME",
    help="Task of the model, such as encoder; default: the task saved in SOURCE.",
)
def command(source: str, target: str, format: str, task: str | None) -> None:
    """Write a model in the format of another library.

    SOURCE is a directory of this package, Hugging Face, Google or KerasHub, or a model's name on
    the Hugging Face Hub. TARGET is a new directory.
    """
    import keras_bert
    from keras_bert.checkpoints import FORMATS as CHECKPOINT_FORMATS
    from keras_bert.checkpoints import is_on_hub
    from keras_bert.checkpoints.card import read_card_data
    from keras_bert.checkpoints.hub import download

    place = download(source) if is_on_hub(source) else Path(source)
    model = keras_bert.load(place, task=task)
    has_card = CHECKPOINT_FORMATS[format].has_card
    card = read_card_data(place, model if task is None else None) if has_card else None
    keras_bert.save(model, target, format, card)
    click.echo(target)
