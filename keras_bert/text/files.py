"""Reads text files: plain or gzip, UTF-8, with one sentence or paragraph on each line.

A blank line, or the end of a file, ends a document. All code that reads such files (learning a
vocabulary, pretraining) uses these functions, so a bad file causes the same message everywhere.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from keras_bert.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = "\ufeff"
_SAMPLE_BYTES = 8192
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_MOST_CONTROL_BYTES = 0.3  # of a sample, so that a text with a few NULs is not a binary file


def expand(patterns: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Returns the paths that globs match: sorted within each glob, and no path twice.

    Raises:
        InputError: if a pattern matches no file, or names a directory.
    """
    if isinstance(patterns, (str, os.PathLike)):
        patterns = [patterns]
    paths: dict[Path, None] = {}
    for pattern in (os.fspath(name) for name in patterns):
        # An existing name is not a glob, even if it contains [ or *.
        matches = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
        files = [Path(match) for match in sorted(matches) if not os.path.isdir(match)]
        if not files and matches:
            raise InputError(f"{pattern} is a directory: name its files, such as {pattern}/*.txt.")
        if not files:
            raise InputError(f"{pattern} does not exist: expected a text file or a glob.")
        paths.update(dict.fromkeys(files))
    if not paths:
        raise InputError("No text file was named: expected one or more files or globs.")
    return list(paths)


def iterate_lines(
    patterns: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> Iterator[str]:
    """Yields the lines of all files, stripped of white space; `""` ends a document.

    Exactly one `""` follows each document, whatever the number of blank lines in the file. The
    first line is never `""`.

    Raises:
        InputError: if a file is missing, empty, binary or not UTF-8. The message names the file and
            the line.
    """
    for path in expand(patterns):
        yield from read_document_lines(path)


def read_document_lines(path: str | os.PathLike[str], *, start: int = 0) -> Iterator[str]:
    """Yields the lines of one file as `iterate_lines` does, without the first `start` of them."""
    number, inside_document = 0, False
    for line in read_lines(path):
        line = line.strip()
        if line or inside_document:
            number += 1
            if number > start:
                yield line
        inside_document = bool(line)
    if inside_document and number >= start:
        yield ""


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the lines of one file, without line ends.

    Raises:
        InputError: if the file cannot be read, holds only white space, or is not UTF-8 text.
    """
    number, empty = 0, True
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8")
                if number == 1:
                    text = text.removeprefix(_BYTE_ORDER_MARK)
                empty = empty and not text.strip()
                yield text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        if b"\0" in error.object:
            raise InputError(_binary(path)) from None
        raise InputError(
            f"{path}, line {number}: byte {error.object[error.start]:#04x} at position "
            f"{error.start + 1} is not UTF-8; convert the file to UTF-8."
        ) from None
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: expected a text file.") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise InputError(f"{path} cannot be read: {reason}.") from None
    if empty:
        raise InputError(f"{path} is empty: expected lines of text.")


@contextlib.contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a file to read bytes, and unpacks gzip, whatever the file's name."""
    with open(path, "rb") as file:
        packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        with gzip.open(file) if packed else contextlib.nullcontext(file) as opened:
            sample = opened.read(_SAMPLE_BYTES)
            control = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
            if control > _MOST_CONTROL_BYTES * len(sample):
                raise InputError(_binary(path))
            opened.seek(0)
            yield opened


def _binary(path: str | os.PathLike[str]) -> str:
    return f"{path} is a binary file: expected UTF-8 text, plain or gzip."
