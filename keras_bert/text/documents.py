"""Reads texts from records: JSON lines, Parquet, TFRecord and tar. A record is a document."""

from __future__ import annotations

import functools
import json
import re
import struct
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Self

import numpy as np

from keras_bert.errors import InputError, UnreadableFileError
from keras_bert.extras import require
from keras_bert.surrogates import without_surrogates

_NAME = re.compile(
    r"\.(?:(?:nd)?(json)l?|(parquet)|(tfrecord)s?|(tar))(?:-\d+-of-\d+)?(?:\.(?:gz|zst))?$",
    re.IGNORECASE,
)
_BATCH_ROWS = 64  # few, because a row can be a book
_BUFFER_BYTES = 2**20
_CRC_BLOCK = 256
_CRC_PREFIX = b"Td\x1fd"  # turns a register of zeros into the ones at the beginning of a CRC32C


def format_of(name: str) -> str | None:
    """Returns "json", "parquet", "tfrecord" or "tar" if a file's name says so, else None.

    A name may end in ".gz" or ".zst", and have a number as in "text.tfrecord-00000-of-00010".
    """
    if "://" in name:
        name = name.partition("?")[0]
    found = _NAME.search(name)
    return found and next(filter(None, found.groups())).lower()


def json_texts(address: str, lines: Iterable[str], field: str) -> Iterator[str]:
    """Yields the text of each record of JSON lines. Blank lines are skipped.

    Raises:
        UnreadableFileError: if a line is not a JSON object.
        InputError: if a line has no text in the field.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        yield _json_text(f"{address}, line {number}", line, field)


def _json_text(where: str, data: str | bytes, field: str) -> str:
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(f"{where}: this is not JSON: {error}.") from None
    if not isinstance(record, dict):
        raise UnreadableFileError(f'{where}: expected an object, {{"{field}": "..."}}.')
    return record_text(where, record, field)


def record_text(where: str, record: Mapping[str, Any], field: str) -> str:
    """Returns the text of a record; "" for null.

    Raises:
        UnreadableFileError: if the text is not UTF-8.
        InputError: if the record has no text in the field.
    """
    if field not in record:
        raise _missing(where, field, record)
    return without_surrogates(_text(where, field, record[field]))


def document_lines(text: str) -> list[str]:
    """Returns the lines of a record's text that are not blank, and `""` after the last one."""
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    return [*lines, ""] if lines else []


def parquet_texts(address: str, file: BinaryIO, field: str) -> Iterator[str]:
    """Yields the text of each row of a Parquet file. Reads only the column with the text.

    Raises:
        UnreadableFileError: if the file is damaged.
        InputError: if the file has no such column of text.
    """
    parquet = require("pyarrow.parquet", "parquet", "Reading Parquet files")
    number = 0
    try:
        # The buffer lets pyarrow read a part of a column at a time.
        table = parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        if field not in table.schema_arrow.names:
            raise _missing(f"{address}, record 1", field, table.schema_arrow.names)
        for batch in table.iter_batches(_BATCH_ROWS, columns=[field], use_threads=False):
            for value in batch.column(0).to_pylist():
                number += 1
                yield _text(f"{address}, record {number}", field, value)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        after = f" after record {number}" if number else ""
        raise UnreadableFileError(
            f"{address} is not a readable Parquet file{after}: {str(error).rstrip('.')}."
        ) from error


def tfrecord_texts(address: str, file: BinaryIO, field: str) -> Iterator[str]:
    """Yields the text of each `tf.train.Example` of a TFRecord file.

    Raises:
        UnreadableFileError: if a record is damaged or is no example.
        InputError: if a record has no text in the field.
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    for number, data in enumerate(_tfrecords(address, file), start=1):
        where = f"{address}, record {number}"
        try:
            features = tf.train.Example.FromString(data).features.feature
        except DecodeError:
            raise UnreadableFileError(f"{where}: expected a tf.train.Example.") from None
        if field not in features:
            raise _missing(where, field, sorted(features))
        kind = features[field].WhichOneof("kind")
        if kind not in ("bytes_list", None):
            raise InputError(f"{where}: field {field!r} is a {kind}; expected a bytes_list.")
        yield "\n".join(_text(where, field, v) for v in features[field].bytes_list.value)


def tar_texts(address: str, file: BinaryIO, field: str) -> Iterator[str]:
    """Yields the text of each `*.txt` and `*.json` in a tar archive, as WebDataset makes them.

    Raises:
        UnreadableFileError: if the archive or a file in it is damaged.
        InputError: if a JSON object has no text in the field.
    """
    try:
        with tarfile.open(fileobj=file, mode="r|", tarinfo=_Member) as archive:
            while member := archive.next():
                archive.members.clear()  # type: ignore[attr-defined]  # they would fill the memory
                where, name = f"{address}, {member.name}", member.name.lower()
                # macOS adds files with attributes, whose names begin with "._".
                if not member.isreg() or name.rpartition("/")[2].startswith("."):
                    continue
                content = archive.extractfile(member)
                assert content is not None  # as for all regular files
                if name.endswith(".txt"):
                    yield record_text(where, {field: content.read()}, field)
                elif name.endswith(".json"):
                    yield _json_text(where, content.read(), field)
    except tarfile.TarError as error:
        raise UnreadableFileError(f"{address} is not a readable tar archive: {error}.") from error


class _Member(tarfile.TarInfo):
    """Member of an archive. `TarFile` treats a damaged header as the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} at byte {archive.offset}") from None


def _tfrecords(address: str, file: BinaryIO) -> Iterator[bytes]:
    """Yields records: a length of 8 bytes, its checksum, the data, the data's checksum."""
    number = 0
    while header := file.read(12):
        number += 1
        where = f"{address}, record {number}"
        if len(header) < 12 or _masked_crc(header[:8]) != header[8:]:
            raise UnreadableFileError(f"{where}: damaged, or the file is not a TFRecord file.")
        (length,) = struct.unpack("<Q", header[:8])
        data, checksum = file.read(length), file.read(4)
        if len(checksum) < 4:
            raise UnreadableFileError(f"{where}: the file ends inside the record.")
        if _masked_crc(data) != checksum:
            raise UnreadableFileError(f"{where}: damaged, because its checksum is another.")
        yield data


def _text(where: str, field: str, value: Any) -> str:
    """Returns a field's text; "" for null.

    Raises:
        UnreadableFileError: if the value is not UTF-8.
        InputError: if the value is no text.
    """
    try:
        text = value.decode("utf-8") if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise UnreadableFileError(
            f"{where}: byte {value[error.start]:#04x} at position {error.start + 1} of field "
            f"{field!r} is not UTF-8."
        ) from None
    if text is not None and not isinstance(text, str):
        raise InputError(f"{where}: field {field!r} is of type {type(value).__name__}, not text.")
    return text or ""


def _missing(where: str, field: str, found: Iterable[str]) -> InputError:
    names = ", ".join(map(repr, found)) or "no fields"
    return InputError(
        f"{where} has no field {field!r}. It has {names}; name the text's field with --text-field "
        "or data.text_field."
    )


def _masked_crc(data: bytes) -> bytes:
    crc = _crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


def _crc32c(data: bytes) -> int:
    """Returns the CRC32C of bytes. zlib has only the CRC with the other polynomial."""
    tables, last = _crc_tables()
    data = _CRC_PREFIX + data
    data = bytes(-len(data) % _CRC_BLOCK) + data  # leading zeros do not change the register
    blocks = np.frombuffer(data, np.uint8).reshape(-1, _CRC_BLOCK)
    crc, distance = 0, np.arange(_CRC_BLOCK)[::-1]
    for start in range(0, len(blocks), 1024):
        part = tables[distance, blocks[start : start + 1024]]
        for value in np.bitwise_xor.reduce(part, axis=1).tolist():
            crc = value ^ (
                last[0][crc & 255]
                ^ last[1][crc >> 8 & 255]
                ^ last[2][crc >> 16 & 255]
                ^ last[3][crc >> 24]
            )
    return crc ^ 0xFFFFFFFF


@functools.cache
def _crc_tables() -> tuple[np.ndarray, list[list[int]]]:
    """Returns tables `[256, 256]` uint32: row D has the register after a byte and D zero bytes.

    Also returns the last four rows as lists, the last row first.
    """
    first: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = first >> 1 ^ (first & 1) * np.uint32(0x82F63B78)
    tables = [first]
    while len(tables) < _CRC_BLOCK:
        tables.append(tables[-1] >> 8 ^ first[tables[-1] & 255])
    return np.stack(tables), [table.tolist() for table in tables[:-5:-1]]
