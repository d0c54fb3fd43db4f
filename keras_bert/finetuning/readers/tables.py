"""Reader of rows from CSV, TSV, JSONL and Parquet files, and from tables in memory.

In CSV files, quotes enclose fields. In TSV files, a quote is a character like any other, as in
GLUE's files. All files may be compressed with gzip. A line end inside a quoted field is read as a
line feed.
"""

import csv
import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.columns import to_list
from keras_bert.errors import InputError, closest
from keras_bert.extras import require
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.text.files import read_lines

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
FORMATS = tuple(dict.fromkeys(_FORMATS.values()))
_LONGEST_FIELD = 2**31 - 1  # Python's own limit is 128 kB


@dataclasses.dataclass(frozen=True)
class Row:
    """Values of a row by column, and the number of the row or of the line at which it begins."""

    line: int
    values: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Table:
    """Content of a file or of a table in memory.

    Args:
        path: the file or the table's class, for messages.
        columns: names of the columns in order. Without a header, the names are "1", "2" and so on.
        rows: one or more rows.
        unit: unit of the rows' numbers, "line" or "row".
    """

    path: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    unit: str = "line"

    def place(self, line: int) -> str:
        """Returns the file and line of a row, for messages."""
        return f"{self.path}, {self.unit} {line}"


def format_of(path: Any) -> str | None:
    """Returns the format that a file's ending means, with or without ".gz", or None.

    The format of a table in memory is "table".
    """
    if not isinstance(path, (str, os.PathLike)):
        return "table"
    return _FORMATS.get(Path(Path(path).name.removesuffix(".gz")).suffix.lower())


def read_table(
    path: Any,
    *,
    format: str | None = None,
    header: bool = True,
    on_error: OnError = "fail",
) -> Table:
    """Reads the rows of a file or of a table in memory.

    Args:
        path: the file, or a table in memory; see `rows_of_table`.
        format: "csv", "tsv", "jsonl" or "parquet". By default, the ending of the file's name
            decides.
        header: whether the first line of a CSV or TSV file names the columns.
        on_error: "fail" raises an error at the first line that has too few or too many fields or
            is not JSON. "skip" leaves such lines out and logs their number.

    Raises:
        InputError: if the file is missing, empty, binary or not UTF-8, or a line is malformed;
            the message names the file and the line.
    """
    format = format or format_of(path)
    if format not in (*FORMATS, "table"):
        given = f"There is no format {format!r}" if format else f"{path} has no known ending"
        raise InputError(
            f"{given}: expected .csv, .tsv, .jsonl or .parquet, or one of these as the format."
        )
    if format == "table":
        name, unit = type(path).__name__, "row"
        columns, rows = rows_of_table(path)
    else:
        path = Path(path)
        name, unit = str(path), "row" if format == "parquet" else "line"
        if format == "parquet":
            columns, rows = rows_of_table(_parquet(path))
        elif format == "jsonl":
            lines = enumerate(read_lines(path), start=1)
            texts = [(line, text) for line, text in lines if text.strip()]
            rows = read_each(lambda item: _json_row(path, *item), texts, name, on_error)
            columns = tuple(dict.fromkeys(name for row in rows for name in row.values))
        else:
            columns, rows = _separated_rows(path, format, header, on_error)
    if not rows:
        raise InputError(f"{name} has no examples: expected one in each {unit}.")
    return Table(name, columns, tuple(rows), unit)


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


def rows_of_table(data: Any) -> tuple[tuple[str, ...], list[Row]]:
    """Returns the columns and the rows of a table in memory. The first row has the number 1.

    Args:
        data: a pandas or Polars DataFrame, a `datasets.Dataset`, a `tf.data.Dataset` of
            dictionaries as TensorFlow Datasets has them, a dictionary of columns, or an iterable
            of dictionaries.

    Raises:
        InputError: if the rows are not dictionaries, or the columns differ in length.
    """
    features = getattr(data, "features", None)  # a pandas DataFrame may have such a column
    names = _label_names(features if isinstance(features, Mapping) else {})
    rows = [
        Row(number, {str(key): _plain(value, names.get(key)) for key, value in record.items()})
        for number, record in enumerate(_records(data), start=1)
    ]
    return tuple(dict.fromkeys(name for row in rows for name in row.values)), rows


def _records(data: Any) -> Iterator[Mapping[Any, Any]]:
    if isinstance(data, Mapping):
        data = {name: to_list(column) for name, column in data.items()}
        lengths = {len(column) for column in data.values()}
        if len(lengths) > 1:
            raise InputError(
                f"The columns have {min(lengths)} to {max(lengths)} rows, but must have the same "
                "number."
            )
        for values in zip(*data.values(), strict=True):
            yield dict(zip(data, values, strict=True))
        return
    if hasattr(data, "iloc"):  # pandas
        data = data.to_dict("records")
    elif hasattr(data, "to_dicts"):  # Polars
        data = data.to_dicts()
    elif hasattr(data, "as_numpy_iterator"):  # tf.data
        data = data.as_numpy_iterator()
    if not isinstance(data, Iterable):
        raise InputError(
            f"Examples are read from a file or a table, not from a {type(data).__name__}."
        )
    for number, record in enumerate(data, start=1):
        if not isinstance(record, Mapping):
            raise InputError(
                f"Row {number} is a {type(record).__name__}, but must be a dictionary with a value "
                "for each column."
            )
        yield record


def _label_names(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Returns the names of the labels of each column of a `datasets.Dataset` that has ids."""
    found = {}
    for column, feature in features.items():
        names = getattr(getattr(feature, "feature", feature), "names", None)
        if names is not None:
            found[column] = names
    return found


def _plain(value: Any, names: Sequence[str] | None = None) -> Any:
    """Returns a value as in a JSON file: no types of NumPy, no bytes, None if it is missing."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(each, names) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, bytes):
        return value.decode(errors="replace")  # a column that is not read may be no text
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if names is not None and isinstance(value, int):
        return names[value] if 0 <= value < len(names) else None  # -1 means no label
    return value


def _parquet(path: Path) -> list[dict[str, Any]]:
    parquet = require("pyarrow.parquet", "parquet", "Reading Parquet files")
    try:
        return parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {error}.") from error


def _json_row(path: Path, line: int, text: str) -> Row:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}, line {line}: this is not JSON: {error}.") from None
    if not isinstance(values, dict):
        raise InputError(
            f'{path}, line {line}: expected an object, {{"text": "...", "label": "..."}}.'
        )
    return Row(line, {name: _plain(value) for name, value in values.items()})


def _separated_rows(
    path: Path, format: str, header: bool, on_error: OnError
) -> tuple[tuple[str, ...], list[Row]]:
    # In a CSV file, `""` is an empty text if there is one column, but an empty line has no cells.
    rows = [
        (line, cells)
        for line, cells in _cells(path, format)
        if not _blank(cells) or (format == "csv" and cells == [""])
    ]
    while header and rows and rows[0][1] == [""]:
        del rows[0]
    if not rows:
        return (), []
    if len(rows[0][1]) > 1:
        rows = [(line, cells) for line, cells in rows if cells != [""]]
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
