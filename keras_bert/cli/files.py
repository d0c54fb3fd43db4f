"""Reads the texts of a command, checks the files that it writes, and prints log messages.

A command never replaces its own inputs. It replaces files of another kind only with --overwrite.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from keras_bert.errors import InputError
from keras_bert.tasks.registry import TASKS

OVERWRITE = click.option(
    "--overwrite",
    is_flag=True,
    help="Also replace existing files that this command did not write, but never its inputs.",
)


TEXT_FIELD = click.option(
    "--text-field",
    default="text",
    show_default=True,
    help="Field with the text in JSON lines, Parquet, TFRecord and tar files.",
)


def check_output(
    path: str | Path | None,
    inputs: Iterable[str | Path | None],
    is_ours: Callable[[bytes], bool],
    overwrite: bool,
) -> None:
    """Checks that a file may be written at a path.

    Args:
        path: the file, or None.
        inputs: files and directories that the command reads, or None.
        is_ours: function that takes the content of an existing file and returns whether it looks
            like an output of this command. Such files and empty files are replaced.
        overwrite: whether other files are replaced, too.

    Raises:
        InputError: if the path is an input, also under another name, or a file that must not be
            replaced.
    """
    path = Path(path) if path is not None else None
    if path is None or not path.exists() or path.is_dir():  # the writer checks directories
        return
    if not path.is_file():
        raise InputError(f"{path} is not a regular file; choose another output.")
    sources = [Path(source) for source in inputs if source is not None]
    existing = [source for source in sources if source.exists()]
    if any(source.samefile(path) for source in existing):
        raise InputError(f"{path} is an input of this command; choose another output.")
    content = path.read_bytes()
    if not content or is_ours(content):
        return
    for source in existing:
        if source.resolve() in path.resolve().parents:
            raise InputError(f"{path} belongs to the input {source}; choose another output.")
    if not overwrite:
        raise InputError(
            f"{path} exists and is not a file that this command wrote; choose another output, or "
            "add --overwrite to replace it."
        )


def is_vocabulary(content: bytes) -> bool:
    """Whether the first line is the first token of a vocabulary that this package learned."""
    return content.startswith(b"[PAD]\n")


def is_token_ids(content: bytes) -> bool:
    """Whether a JSON object has an integer for each token."""
    return _is_object_of(int, content)


def is_merges(content: bytes) -> bool:
    """Whether the file begins like a merges.txt of byte pairs."""
    return content.startswith(b"#version")


def is_sentencepiece(content: bytes) -> bool:
    """Whether the file begins like a SentencePiece model that this package learned."""
    return content.startswith(b"\n") and b"<pad>" in content[:32]


def is_predictions(content: bytes) -> bool:
    """Whether the first line is a prediction. A text with only a score does not count.

    Such a line may also be a labeled example.
    """
    try:
        value = json.loads(content.partition(b"\n")[0])
    except ValueError:
        return False
    names = set(value) if isinstance(value, dict) else set()
    kinds = (keys for entry in TASKS.values() for keys in entry.prediction_keys)
    return any(names >= set(keys.split()) for keys in kinds)


def is_squad_predictions(content: bytes) -> bool:
    """Whether a JSON object has a text for each question."""
    return _is_object_of(str, content)


def is_picture(content: bytes) -> bool:
    """Whether matplotlib drew the picture. PNG, SVG and PDF files hold matplotlib's name."""
    return b"atplotlib" in content


def is_attention_page(content: bytes) -> bool:
    """Whether the page has the title of an attention page and the element for its heads."""
    return b"<title>Attention</title>" in content and b'id="heads"' in content


def is_report(content: bytes) -> bool:
    """Whether the page, in Markdown or HTML, has a report's title."""
    return content.startswith(b"# Artifacts of a ") or b"<title>Artifacts of a " in content[:200]


def _is_object_of(kind: type, content: bytes) -> bool:
    try:
        values = json.loads(content)
    except ValueError:
        return False
    return isinstance(values, dict) and all(type(value) is kind for value in values.values())


def batches(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """Yields the given texts in batches. Without texts, yields lines of standard input.

    Raises:
        InputError: if a line is not UTF-8.
        click.UsageError: if there are no texts, and standard input is a terminal.
    """
    if not texts and sys.stdin.isatty():
        raise click.UsageError("Give texts, or lines on standard input.")
    source = iter(texts) if texts else _lines()
    while batch := list(islice(source, size)):
        yield batch


def write_text(text: str) -> None:
    """Writes a text to standard output in UTF-8; half of a surrogate pair becomes `?`."""
    click.echo(text.encode("utf-8", "replace"), nl=False)
    sys.stdout.flush()


def write_json(value: dict[str, Any]) -> None:
    """Writes one line of JSON to standard output, without buffering."""
    click.echo(json_line(value), nl=False)
    sys.stdout.flush()


def json_line(value: dict[str, Any]) -> bytes:
    """Returns a line of JSON in UTF-8; half of a surrogate pair becomes `?`."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"Standard input, line {number}: byte {line[error.start]:#04x} is not UTF-8."
            ) from None
        yield text.removeprefix("\ufeff").rstrip("\r\n") if number == 1 else text.rstrip("\r\n")


@contextlib.contextmanager
def info_on_stdout(name: str) -> Iterator[None]:
    """Prints a logger's messages below the level WARNING to standard output."""
    logger, handler = logging.getLogger(name), logging.StreamHandler(sys.stdout)
    handler.addFilter(lambda record: record.levelno < logging.WARNING)
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
