"""Command `keras-bert vocab`: vocabularies from text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_bert.cli.files import (
    OVERWRITE,
    check_output,
    is_merges,
    is_sentencepiece,
    is_token_ids,
    is_vocabulary,
)


def _wordpiece(corpus: tuple[str, ...], size: int, output: str, cased: bool) -> Any:
    from keras_bert.text.wordpiece.training import learn_vocabulary

    vocabulary = learn_vocabulary(corpus, size, lowercase=not cased)
    vocabulary.save(output)
    return vocabulary


def _byte_pair(corpus: tuple[str, ...], size: int, output: str, cased: bool) -> Any:
    from keras_bert.text.byte_pair.training import learn_byte_pair

    tokenizer = learn_byte_pair(corpus, size)
    tokenizer.save(output)
    return tokenizer.vocabulary


def _sentencepiece(corpus: tuple[str, ...], size: int, output: str, cased: bool) -> Any:
    from keras_bert.text.sentencepiece.training import learn_sentencepiece

    tokenizer = learn_sentencepiece(corpus, size, lowercase=not cased)
    tokenizer.save(output)
    return tokenizer.vocabulary


_KINDS: dict[str, Callable[[tuple[str, ...], int, str, bool], Any]] = {
    "wordpiece": _wordpiece,
    "byte_pair": _byte_pair,
    "sentencepiece": _sentencepiece,
}
"""Functions that learn a vocabulary, write it, and return its tokens."""

_FILES: dict[str, dict[str, Callable[[bytes], bool]]] = {
    "wordpiece": {"": is_vocabulary},
    "byte_pair": {"vocab.json": is_token_ids, "merges.txt": is_merges},
    "sentencepiece": {"spiece.model": is_sentencepiece},
}
"""Name of each file below the output, and a test for an existing file of that kind."""


@click.command("vocab")
@click.argument("corpus", nargs=-1, required=True)
@click.option(
    "--size", default=8192, show_default=True, type=click.IntRange(6), help="Number of tokens."
)
@click.option(
    "--kind",
    default="wordpiece",
    show_default=True,
    type=click.Choice(list(_KINDS)),
    help="Kind of tokenizer.",
)
@click.option(
    "--output",
    required=True,
    metavar="PATH",
    help="File vocab.txt, or a directory for the other kinds.",
)
@click.option("--cased", is_flag=True, help="Keep upper case and accents; byte_pair always does.")
@OVERWRITE
def command(
    corpus: tuple[str, ...], size: int, kind: str, output: str, cased: bool, overwrite: bool
) -> None:
    """Learn a vocabulary from text files.

    CORPUS are names or globs of text files, plain or gzip. An existing vocabulary of the same kind
    is replaced.
    """
    from keras_bert.text.files import expand

    texts = expand(corpus)
    for name, is_ours in _FILES[kind].items():
        check_output(Path(output) / name, texts, is_ours, overwrite)
    vocabulary = _KINDS[kind](corpus, size, output, cased)
    click.echo(f"{output}: {len(vocabulary)} tokens")
