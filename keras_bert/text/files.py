"""Reads text files, local or by address: UTF-8, with one sentence or paragraph on each line.

A blank line, or the end of a file, ends a document. In JSON lines, Parquet and TFRecord files, each
record is a document, and in tar archives each file. Files may be compressed with gzip or zstd. All
code that reads text (learning a vocabulary, pretraining) uses these functions, so a bad file causes
the same message everywhere.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from keras_bert.errors import InputError, UnreadableFileError
from keras_bert.extras import require
from keras_bert.text import remote
from keras_bert.text.documents import (
    document_lines,
    format_of,
    json_texts,
    parquet_texts,
    tar_texts,
    tfrecord_texts,
)

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18")  # the second one is of pzstd
_LARGEST_ZSTD_WINDOW = 31  # the exponent of 2; `zstd --long=31` writes such files
_BYTE_ORDER_MARK = "\ufeff"
_SAMPLE_BYTES = 8192
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_MOST_CONTROL_BYTES = 0.3  # of a sample, so that a text with a few NULs is not a binary file

Patterns = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Span(NamedTuple):
    """Part of a file.

    Attributes:
        start: first byte.
        end: byte after the last one. None means the end of the file.
    """

    start: int = 0
    end: int | None = None


WHOLE = Span()
"""Span of a whole file."""


class UnreadableFile(NamedTuple):
    """File of a corpus whose text was left out from the first error on.

    Attributes:
        address: name or address of the file.
        error: message of the error.
    """

    address: str
    error: str


OnUnreadable = Callable[[UnreadableFile], None]


def expand(patterns: Patterns) -> list[str]:
    """Returns the names that globs match: sorted within each glob, and no name twice.

    Args:
        patterns: local names or globs, or addresses that fsspec understands, such as
            `s3://bucket/*.txt`.

    Raises:
        InputError: if a pattern matches no file, names a directory, or is an address that cannot be
            opened.
    """
    if isinstance(patterns, (str, os.PathLike)):
        patterns = [patterns]
    names: dict[str, None] = {}
    for pattern in (os.fspath(name) for name in patterns):
        if remote.is_address(pattern):
            matches = remote.find_files(pattern)
        else:
            # An existing name is not a glob, even if it contains [ or *.
            found = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
            matches = {str(Path(name)): os.path.isdir(name) for name in found}
        files = [name for name in sorted(matches) if not matches[name]]
        if not files and matches:
            raise InputError(f"{pattern} is a directory: name its files, such as {pattern}/*.txt.")
        if not files:
            raise InputError(f"{pattern} does not exist: expected a text file or a glob.")
        names.update(dict.fromkeys(files))
    if not names:
        raise InputError("No text file was named: expected one or more files or globs.")
    return list(names)


def file_size(address: str | os.PathLike[str]) -> int:
    """Returns the number of bytes of a file, or 0 if its store does not tell the size.

    Raises:
        UnreadableFileError: if the file does not exist or its size cannot be read.
    """
    address = os.fspath(address)
    if remote.is_address(address):
        return remote.file_size(address)
    with _reading(address):
        return os.stat(address).st_size


def file_sizes(addresses: Iterable[str], skip_unreadable: bool = False) -> list[int]:
    """Returns the size of each file as `file_size` does.

    Args:
        addresses: names or addresses of files.
        skip_unreadable: whether the size is 0 in place of an error. Reading such a file reports it.

    Raises:
        UnreadableFileError: see `file_size`.
    """
    sizes = []
    for address in addresses:
        try:
            sizes.append(file_size(address))
        except UnreadableFileError:
            if not skip_unreadable:
                raise
            sizes.append(0)
    return sizes


def iterate_lines(
    patterns: Patterns, text_field: str = "text", on_unreadable: OnUnreadable | None = None
) -> Iterator[str]:
    """Yields the lines of all files, stripped of white space; `""` ends a document.

    Exactly one `""` follows each document, whatever the number of blank lines in the file. The
    first line is never `""`.

    Args:
        patterns: names, globs or addresses of files; see `expand`.
        text_field: field with the text in JSON lines, Parquet, TFRecord and tar files.
        on_unreadable: see `read_document_lines`.

    Raises:
        UnreadableFileError: if a file is missing, empty, damaged, binary or not UTF-8. The message
            names the file and the line or record.
        InputError: if a record has no such field.
    """
    for address in expand(patterns):
        yield from read_document_lines(address, text_field=text_field, on_unreadable=on_unreadable)


def read_document_lines(
    address: str | os.PathLike[str],
    *,
    start: int = 0,
    text_field: str = "text",
    span: Span = WHOLE,
    size: int = 0,
    on_unreadable: OnUnreadable | None = None,
) -> Iterator[str]:
    """Yields the lines of one file as `iterate_lines` does.

    Args:
        address: name or address of the file.
        start: number of items to skip, so that a reader can continue in the middle of a file. The
            file is still read from its beginning.
        text_field: see `iterate_lines`.
        span: part of a file that `can_be_divided`. Consecutive spans have the lines of the file,
            but a document may end twice at a border.
        size: size of the file in bytes when its text was first used. A file of another size has
            changed. 0 means that the size is not known.
        on_unreadable: function that is called in place of an `UnreadableFileError`. Then the lines
            end before the error, always after the same line. By default, the error is raised.

    Raises:
        UnreadableFileError: if the file has changed; see also `iterate_lines`.
        InputError: see `iterate_lines`.
    """
    address = os.fspath(address)
    lines = _document_lines(address, text_field, span, size)
    if on_unreadable:
        lines = _until_error(lines, address, on_unreadable)
    return islice(lines, start, None)


def _until_error(lines: Iterator[str], address: str, on_unreadable: OnUnreadable) -> Iterator[str]:
    inside_document = False
    try:
        for line in lines:
            inside_document = bool(line)
            yield line
    except UnreadableFileError as error:
        if inside_document:
            yield ""
        on_unreadable(UnreadableFile(address, str(error)))


def _document_lines(address: str, text_field: str, span: Span, size: int) -> Iterator[str]:
    if size and (now := file_size(address)) not in (size, 0):
        raise UnreadableFileError(
            f"{address} has changed: it has {now} bytes, but had {size} at first; restore the file."
        )
    if format_of(address) is None:
        inside_document = span.start > 0
        for line in read_lines(address, span):
            line = line.strip()
            if line or inside_document:
                yield line
            inside_document = bool(line)
        if inside_document and span.end is None:
            yield ""
        return
    empty = span == WHOLE
    for text in _texts(address, text_field, span):
        lines = document_lines(text)
        empty = empty and not lines
        yield from lines
    if empty:
        raise UnreadableFileError(f"{address} is empty: expected text in the field {text_field!r}.")


def _texts(address: str, field: str, span: Span) -> Iterator[str]:
    """Yields the text of each record of a file, or of a span of JSON lines."""
    format = format_of(address)
    if format == "json":
        name = f"{address} after byte {span.start}" if span.start else address
        yield from json_texts(name, read_lines(address, span), field)
        return
    with _reading(address), _open(address) as file:
        if format == "parquet":
            yield from parquet_texts(address, file, field)
        else:
            texts = tar_texts if format == "tar" else tfrecord_texts
            with _unpacked(file) as unpacked:
                yield from texts(address, unpacked, field)


def read_lines(path: str | os.PathLike[str], span: Span = WHOLE) -> Iterator[str]:
    """Yields the lines of one file, without line ends.

    Args:
        path: name or address of the file.
        span: bytes; only lines that begin there are read. Only for files that `can_be_divided`.

    Raises:
        UnreadableFileError: if the file cannot be read, is not UTF-8 text, or, if it is read as a
            whole, holds only white space.
    """
    number, empty, position = 0, True, span.start
    try:
        with _reading(path), _open(path) as file, _text_from(file, path, span.start) as text:
            if span.start:  # the line of the byte before the span belongs to the span before
                position += len(text.readline()) - 1
            for number, line in enumerate(text, start=1):
                if span.end is not None and position >= span.end:
                    break
                decoded = line.decode("utf-8")
                position += len(line)
                if number == 1 and not span.start:
                    decoded = decoded.removeprefix(_BYTE_ORDER_MARK)
                empty = empty and not decoded.strip()
                yield decoded.rstrip("\r\n")
    except UnicodeDecodeError as error:
        if b"\0" in error.object:
            raise UnreadableFileError(_binary(path)) from None
        where = f"after byte {position}" if span.start else f"line {number}"
        raise UnreadableFileError(
            f"{path}, {where}: byte {error.object[error.start]:#04x} at position "
            f"{error.start + 1} is not UTF-8; convert the file to UTF-8."
        ) from None
    if empty and span == WHOLE:
        raise UnreadableFileError(f"{path} is empty: expected lines of text.")


@contextlib.contextmanager
def _text_from(file: BinaryIO, path: str | os.PathLike[str], start: int) -> Iterator[BinaryIO]:
    """Yields the unpacked file, or the file at the byte before `start`.

    Raises:
        UnreadableFileError: if the file is binary.
    """
    if start:
        file.seek(start - 1)
        yield file
        return
    with _unpacked(file) as unpacked:
        sample = unpacked.read(_SAMPLE_BYTES)
        control = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
        if control > _MOST_CONTROL_BYTES * len(sample):
            raise UnreadableFileError(_binary(path))
        unpacked.seek(0)
        yield unpacked


def can_be_divided(address: str) -> bool:
    """Returns whether spans of a file can be read: it has lines and is not compressed.

    Raises:
        UnreadableFileError: if the file cannot be read.
    """
    if format_of(address) not in (None, "json"):
        return False
    if remote.is_address(address) and not remote.can_seek(address):
        return False
    with _reading(address), _open(address) as file:
        return not file.read(4).startswith((_GZIP_MAGIC, *_ZSTD_MAGIC))


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raises an `UnreadableFileError` in place of an error of reading a file."""
    try:
        yield
    except FileNotFoundError:
        raise UnreadableFileError(f"{path} does not exist: expected a text file.") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise UnreadableFileError(f"{path} cannot be read: {reason}.") from None


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    name = os.fspath(path)
    return remote.open_address(name) if remote.is_address(name) else open(name, "rb")


@contextlib.contextmanager
def _unpacked(file: BinaryIO) -> Iterator[BinaryIO]:
    """Unpacks gzip and zstd, whatever the file's name."""
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(_GZIP_MAGIC):
        with gzip.open(file) as opened:
            yield opened
    elif magic.startswith(_ZSTD_MAGIC):
        zstd = require("backports.zstd", "zstd", "Reading zstd files")
        options = {zstd.DecompressionParameter.window_log_max: _LARGEST_ZSTD_WINDOW}
        try:
            with zstd.open(file, options=options) as opened:
                yield opened
        except zstd.ZstdError as error:
            raise OSError(str(error)) from None
    else:
        yield file


def _binary(path: str | os.PathLike[str]) -> str:
    return f"{path} is a binary file: expected UTF-8 text, plain, gzip or zstd."
