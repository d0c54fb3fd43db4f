"""Reader of rows from CSV, TSV and JSONL files.

In CSV files, quotes enclose fields. In TSV files, a quote is a character like any other, as in
GLUE's files. All files may be compressed with gzip. A line end inside a quoted field is read as a
line feed.
"""

import csv
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.errors import InputError, closest
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.text.files import read_lines

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
FORMATS = tuple(dict.fromkeys(_FORMATS.values()))
_LONGEST_FIELD = 2**31 - 1  # Python's own limit is 128 kB


@dataclasses.dataclass(frozen=True)
class Row:
    """Values of a row by column, and the line of the file at which the row begins."""

    line: int
    values: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Table:
    """Content of a file.

    Args:
        path: the file, for messages.
        columns: names of the columns in order. Without a header, the names are "1", "2" and so on.
        rows: one or more rows.
    """

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def format_of(path: str | os.PathLike) -> str | None:
    """Returns the format that a file's ending means, with or without ".gz", or None."""
    return _FORMATS.get(Path(Path(path).name.removesuffix(".gz")).suffix.lower())


def read_table(
    path: str | os.PathLike,
    *,
    format: str | None = None,
    header: bool = True,
    on_error: OnError = "fail",
) -> Table:
    """Reads the rows of a file.

    Args:
        path: the file.
        format: "csv", "tsv" or "jsonl". By default, the ending of the file's name decides.
        header: whether the first line of a CSV or TSV file names the columns.
        on_error: "fail" raises an error at the first line that has too few or too many fields or
            is not JSON. "skip" leaves such lines out and logs their number.

    Raises:
        InputError: if the file is missing, empty, binary or not UTF-8, or a line is malformed;
            the message names the file and the line.
    """
    path = Path(path)
    format = format or format_of(path)
    if format not in FORMATS:
        given = f"There is no format {format!r}" if format else f"{path} has no known ending"
        raise InputError(f"{given}: expected .csv, .tsv or .jsonl, or one of these as the format.")
    if format == "jsonl":
        lines = enumerate(read_lines(path), start=1)
        texts = [(line, text) for line, text in lines if text.strip()]
        rows = read_each(lambda item: _json_row(path, *item), texts, path, on_error)
        columns = tuple(dict.fromkeys(name for row in rows for name in row.values))
    else:
        columns, rows = _separated_rows(path, format, header, on_error)
    if not rows:
        raise InputError(f"{path} has no examples, only a header: expected one in each line.")
    return Table(path, columns, tuple(rows))


def find_column(table: Table, given: str | None, usual: Sequence[str]) -> str | None:
    """Returns the given column or, by default, the first column with a usual name.

    Upper and lower case do not matter for usual names. If no column has a usual name, returns None.

    Raises:
        InputError: if the given column does not exist.
    """
    if given is not None and given not in table.columns:
        raise InputError(
            f"{table.path} has no column {given!r}.{closest(given, table.columns)} It has "
            f"{listed(table.columns)}."
        )
    lower = {name.lower(): name for name in reversed(table.columns)}
    return given or next((lower[name] for name in usual if name in lower), None)


def require_column(table: Table, what: str, given: str | None, usual: Sequence[str]) -> str:
    """Returns the column that `find_column` finds.

    Raises:
        InputError: if there is no such column.
    """
    found = find_column(table, given, usual)
    if found is None:
        raise InputError(
            f"{table.path}: which column holds the {what}? None of {listed(table.columns)} has "
            "a usual name; name it."
        )
    return found


def listed(columns: Sequence[str]) -> str:
    """Lists names of columns, for messages."""
    return ", ".join(map(repr, columns))


def _json_row(path: Path, line: int, text: str) -> Row:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}, line {line}: this is not JSON: {error}.") from None
    if not isinstance(values, dict):
        raise InputError(
            f'{path}, line {line}: expected an object, {{"text": "...", "label": "..."}}.'
        )
    return Row(line, values)


def _separated_rows(
    path: Path, format: str, header: bool, on_error: OnError
) -> tuple[tuple[str, ...], list[Row]]:
    rows = [(line, cells) for line, cells in _cells(path, format) if not _blank(cells)]
    first = rows[0][1]
    columns = tuple(
        cell.strip() if header else str(index) for index, cell in enumerate(first, start=1)
    )
    if len(set(columns)) != len(columns):
        repeated = next(name for name in columns if columns.count(name) > 1)
        raise InputError(f"{path}: the header names the column {repeated!r} twice.")

    def row(item: tuple[int, list[str]]) -> Row:
        line, cells = item
        if len(cells) != len(columns):
            quotes = "; quote fields that hold a comma" if format == "csv" else ""
            raise InputError(
                f"{path}, line {line}: {len(cells)} fields, but the first line has "
                f"{len(columns)}{quotes}."
            )
        return Row(line, dict(zip(columns, cells, strict=True)))

    return columns, read_each(row, rows[1:] if header else rows, path, on_error)


def _blank(cells: list[str]) -> bool:
    return len(cells) <= 1 and not "".join(cells).strip()


def _cells(path: Path, format: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the line at which each row begins, and its fields."""
    if format == "tsv":
        for line, text in enumerate(read_lines(path), start=1):
            yield line, text.split("\t")
        return
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    limit = csv.field_size_limit(_LONGEST_FIELD)
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line}: {error}; check the quotes.") from None
    finally:
        csv.field_size_limit(limit)
