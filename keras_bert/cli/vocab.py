"""Command `keras-bert vocab`: learns a vocabulary from text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert.cli.files import (
    OVERWRITE,
    TEXT_FIELD,
    check_output,
    is_merges,
    is_sentencepiece,
    is_token_ids,
    is_vocabulary,
)

_FILES: dict[str, dict[str, Callable[[bytes], bool]]] = {
    "wordpiece": {"": is_vocabulary},
    "byte_pair": {"vocab.json": is_token_ids, "merges.txt": is_merges},
    "sentencepiece": {"spiece.model": is_sentencepiece},
}
"""For each kind: names of the files, and a function that recognizes an existing file."""


@click.command("vocab")
@click.argument("corpus", nargs=-1, required=True)
@click.option(
    "--size", default=8192, show_default=True, type=click.IntRange(6), help="Number of tokens."
)
@click.option(
    "--kind",
    default="wordpiece",
    show_default=True,
    type=click.Choice(list(_FILES)),
    help="Kind of tokenizer.",
)
@click.option(
    "--output",
    required=True,
    metavar="PATH",
    help="File vocab.txt for wordpiece; a directory for the other kinds.",
)
@click.option("--cased", is_flag=True, help="Keep upper case and accents; byte_pair always does.")
@TEXT_FIELD
@OVERWRITE
def command(
    corpus: tuple[str, ...],
    size: int,
    kind: str,
    output: str,
    cased: bool,
    text_field: str,
    overwrite: bool,
) -> None:
    """Learn a vocabulary from text files.

    CORPUS are names, globs or addresses of text files. An existing vocabulary of the same kind is
    replaced.
    """
    from keras_bert.text.files import expand

    texts = expand(corpus)
    for name, is_ours in _FILES[kind].items():
        check_output(Path(output) / name, texts, is_ours, overwrite)
    learned: Any
    if kind == "byte_pair":
        from keras_bert.text.byte_pair.training import learn_byte_pair

        learned = learn_byte_pair(corpus, size, text_field=text_field)
    elif kind == "sentencepiece":
        from keras_bert.text.sentencepiece.training import learn_sentencepiece

        learned = learn_sentencepiece(corpus, size, lowercase=not cased, text_field=text_field)
    else:
        from keras_bert.text.wordpiece.training import learn_vocabulary

        learned = learn_vocabulary(corpus, size, lowercase=not cased, text_field=text_field)
    learned.save(output)
    click.echo(f"{output}: {len(getattr(learned, 'vocabulary', learned))} tokens")
