"""Options that several commands share."""

from collections.abc import Callable
from typing import Any

import click

MODEL = click.option(
    "--model", required=True, metavar="DIR", help="Directory of a model, or its name on the hub."
)
BATCH_SIZE = click.option(
    "--batch-size", default=32, show_default=True, type=click.IntRange(1), help="Texts per step."
)

_DATA = (
    click.option("--text-column", metavar="NAME", help="Column of the text (first of a pair)."),
    click.option("--pair-column", metavar="NAME", help="Column of the second text of a pair."),
    click.option(
        "--label-column",
        "label_columns",
        metavar="NAME",
        multiple=True,
        help="Column of the label. Repeat it where each label has a column of 0 and 1.",
    ),
    click.option(
        "--format",
        type=click.Choice(["csv", "tsv", "jsonl"]),
        help="Of the files; by default as their names end.",
    ),
    click.option(
        "--no-header",
        is_flag=True,
        help="The first line is an example; columns are called 1, 2, 3.",
    ),
    click.option(
        "--separator",
        metavar="TEXT",
        help="What stands between several labels of a text.",
    ),
)


def data_options(function: Callable) -> Callable:
    """The options that say how files of labelled texts are to be read."""
    for option in reversed(_DATA):
        function = option(function)
    return function


def reader(
    text_column: str | None,
    pair_column: str | None,
    label_columns: tuple[str, ...],
    format: str | None,
    no_header: bool,
    separator: str | None,
) -> Callable[[str], Any]:
    """What `data_options` describe: a path to `TextExamples`."""
    from keras_bert.finetuning import Columns, read_examples

    columns = Columns(text_column, pair_column, label_columns)
    return lambda path: read_examples(
        path, columns, format=format, header=not no_header, separator=separator
    )
