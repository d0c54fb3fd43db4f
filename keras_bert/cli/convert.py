"""keras-bert convert."""

import click

FORMATS = ("native", "huggingface", "sentence-transformers", "google", "keras-hub")


@click.command("convert")
@click.argument("source")
@click.argument("target")
@click.option("--to", "format", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option(
    "--task",
    metavar="NAME",
    help="Of the model, such as embedder; by default the one that SOURCE was saved as.",
)
def command(source: str, target: str, format: str, task: str | None) -> None:
    """Write a model in the format of another library.

    SOURCE is a directory of ours, of Hugging Face, Google or KerasHub, or a model's name on the
    Hugging Face Hub; TARGET is a new directory.
    """
    import keras_bert

    keras_bert.save(keras_bert.load(source, task=task), target, format=format)
    click.echo(target)
