"""Texts from the command line or from standard input, and answers to standard output."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import click

from keras_bert.errors import InputError


def batches(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """The texts given or, if there are none, the lines of standard input as they come.

    Raises:
        InputError: if a line is not UTF-8.
        click.UsageError: if there is neither.
    """
    if not texts and sys.stdin.isatty():
        raise click.UsageError("Give texts, or lines on standard input.")
    source = iter(texts) if texts else _lines()
    while batch := list(islice(source, size)):
        yield batch


def write_json(value: dict[str, Any]) -> None:
    """One line of JSON on standard output, at once."""
    click.echo(json_line(value), nl=False)
    sys.stdout.flush()


def json_line(value: dict[str, Any]) -> bytes:
    """JSON in UTF-8 with a line end; what is no character (half of a surrogate pair) is `?`."""
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
