"""Command `keras-bert attention`: a page of attention weights."""

import click

from keras_bert.cli.files import OVERWRITE, check_output, is_attention_page
from keras_bert.cli.options import MODEL


@click.command("attention")
@MODEL
@click.option("--output", required=True, metavar="FILE.html", help="File to write.")
@click.option("--sequence-length", type=int, help="Largest number of tokens; default: the model's.")
@click.option(
    "--attribution",
    is_flag=True,
    help="Also color the tokens that decide a classifier's label, by integrated gradients.",
)
@OVERWRITE
@click.argument("text")
@click.argument("second_text", required=False)
def command(
    model: str,
    output: str,
    sequence_length: int | None,
    attribution: bool,
    overwrite: bool,
    text: str,
    second_text: str | None,
) -> None:
    """Write a web page that shows the attention between the tokens of a text or pair.

    The page shows every layer and head. It is one file and opens in any browser without a network.
    An existing page of this kind is replaced.
    """
    check_output(output, (model,), is_attention_page, overwrite)
    import keras_bert
    from keras_bert.visualize.attention_page import attention

    loaded = keras_bert.load(model)
    page = attention(
        loaded, text, second_text, sequence_length=sequence_length, with_attribution=attribution
    )
    page.save(output)
    click.echo(output)
