"""keras-bert predict."""

import click

from keras_bert.cli.models import load_classifier
from keras_bert.cli.options import BATCH_SIZE, MODEL
from keras_bert.cli.texts import batches, write_json
from keras_bert.errors import InputError


@click.command("predict")
@MODEL
@click.option("--pairs", is_flag=True, help="Each text is two, with a tab between them.")
@BATCH_SIZE
@click.argument("texts", nargs=-1)
def command(model: str, pairs: bool, batch_size: int, texts: tuple[str, ...]) -> None:
    """Label texts, given here or as lines on standard input.

    Prints one line of JSON for each, as soon as it is known.
    """
    classifier = load_classifier(model)
    for batch in batches(texts, batch_size):
        inputs = _split(batch) if pairs else batch
        for text, prediction in zip(
            batch, classifier.predict_text(inputs, batch_size), strict=True
        ):
            write_json({"text": text, **prediction})


def _split(texts: list[str]) -> tuple[list[str], list[str]]:
    for text in texts:
        if text.count("\t") != 1:
            raise InputError(f"{text[:50]!r} is not a pair: expected two texts with a tab between.")
    firsts, seconds = zip(*(text.split("\t") for text in texts), strict=True)
    return list(firsts), list(seconds)
