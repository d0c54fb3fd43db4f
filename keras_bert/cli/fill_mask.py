"""Command `keras-bert fill-mask`: predicts tokens for masks."""

import click

from keras_bert.cli.files import batches, write_json
from keras_bert.cli.options import BATCH_SIZE, MODEL


@click.command("fill-mask")
@MODEL
@click.option(
    "--top-k", default=5, show_default=True, type=click.IntRange(1), help="Tokens for each mask."
)
@BATCH_SIZE
@click.argument("texts", nargs=-1)
def command(model: str, top_k: int, batch_size: int, texts: tuple[str, ...]) -> None:
    """Predict tokens for each [MASK] in texts.

    Give texts as arguments, or as lines on standard input. Prints one line of JSON for each text.
    """
    import keras_bert
    from keras_bert.tasks.fill_mask import fill_mask

    loaded = keras_bert.load(model)
    for batch in batches(texts, batch_size):
        for text, masks in zip(batch, fill_mask(loaded, batch, top_k, batch_size), strict=True):
            write_json({"text": text, "masks": masks})
