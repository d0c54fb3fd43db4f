"""Reader of labeled texts, or pairs of texts, from files and tables."""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import Columns, TextExamples
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.finetuning.readers.tables import Row, Table, find_column, listed, read_table

# Usual names of columns. An earlier name is preferred.
PAIR_COLUMNS = (
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("#1 String", "#2 String"),
    ("question", "sentence"),
    ("question", "passage"),
    ("question", "answer"),
    ("query", "document"),
    ("text", "text_pair"),
)
TEXT_COLUMNS = (
    "text",
    "sentence",
    "review",
    "content",
    "prompt",
    "question",
    "query",
    "utterance",
    "message",
    "comment",
    "title",
)
LABEL_COLUMNS = (
    "label",
    "labels",
    "score",
    "target",
    "class",
    "category",
    "intent",
    "sentiment",
    "gold_label",
    "similarity",
    "is_duplicate",
    "quality",
)
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no", "")


def read_examples(
    path: Any,
    columns: Columns | None = None,
    *,
    format: str | None = None,
    header: bool = True,
    separator: str | None = None,
    labeled: bool = True,
    on_error: OnError = "fail",
) -> TextExamples:
    """Reads labeled texts from a file or from a table in memory.

    Without a header, the columns have the names "1", "2" and so on. Then two columns are taken as
    text and label, three columns as text, second text and label.

    Args:
        path: a CSV, TSV, JSONL or Parquet file, or a table in memory, such as a pandas DataFrame;
            see `rows_of_table`.
        columns: columns to read. A column that is not named is found by its usual name, such as
            `text` or `sentence`, `sentence1` and `sentence2`, `label` or `score`.
        format: "csv", "tsv", "jsonl" or "parquet". By default, the ending of the file's name
            decides.
        header: whether the first line of a CSV or TSV file names the columns.
        separator: text between the labels of an example that has several. A JSON list of labels
            needs no separator.
        labeled: whether labels are needed. If not, they are read only if every example has one.
        on_error: "fail" raises an error at the first row that lacks a text, a label or another
            column. "skip" leaves such rows out and logs their number.

    Raises:
        InputError: if the file or a column is not found, or a row lacks a text or a label; the
            message names the file and the line. An empty text is allowed.
    """
    table = read_table(path, format=format, header=header, on_error=on_error)
    found = _find_columns(table, columns or Columns(), header, labeled)

    def read(row: Row) -> tuple[int, str, str, str | tuple[str, ...] | None]:
        text = _text(table, row, found.text)
        pair = "" if found.pair is None else _text(table, row, found.pair)
        label = _label(table, row, found.labels, separator) if found.labels else None
        if label is None and labeled:
            raise InputError(
                f"{table.place(row.line)}: the label is missing (column "
                f"{found.labels[0]!r}); label the example or remove it."
            )
        return row.line, text, pair, label

    lines, texts, pairs, labels = zip(
        *read_each(read, table.rows, table.path, on_error), strict=True
    )
    if None not in labels and len({isinstance(label, tuple) for label in labels}) > 1:
        raise InputError(
            f"{table.path}: some labels are lists and some are not; make all of them lists."
        )
    return TextExamples(
        path=table.path,
        lines=lines,
        unit=table.unit,
        texts=texts,
        pairs=None if found.pair is None else pairs,
        labels=None if None in labels else labels,
        columns=found,
    )


def _find_columns(table: Table, given: Columns, header: bool, labeled: bool) -> Columns:
    usual = {name.lower(): name for name in reversed(table.columns)}
    if not header:
        usual = _by_position(table.columns)
    named = (given.text, given.pair, *given.labels)
    for name in named:
        find_column(table, name, ())
    usual = {key: name for key, name in usual.items() if name not in named}
    text, pair = given.text, given.pair
    if text is None and pair is None:
        both = ((usual.get(a.lower()), usual.get(b.lower())) for a, b in PAIR_COLUMNS)
        text, pair = next((names for names in both if None not in names), (None, None))
    text = text or _first(usual, TEXT_COLUMNS)
    if text is None:
        raise InputError(
            f"{table.path}: which column holds the text? None of {listed(table.columns)} has a "
            f"usual name such as 'text'; {_advice(table, header)}."
        )
    label = None if given.labels else _first(usual, LABEL_COLUMNS, but=(text, pair))
    labels = given.labels or (() if label is None else (label,))
    if labeled and not labels:
        raise InputError(
            f"{table.path} has no labels: none of {listed(table.columns)} has a usual name such "
            "as 'label'; name the column (--label-column, or Columns(labels=...))."
        )
    return Columns(text, pair, labels)


def _advice(table: Table, header: bool) -> str:
    separators = [mark for mark in ";\t|" if mark in table.columns[0]]
    if separators and len(table.columns) == 1:
        between = f"if {separators[0]!r} stands between columns"
        return f"{between}, write a comma instead, or a tab in a .tsv file"
    named = "name it (--text-column, or Columns(text=...))"
    without = "; if the first line is an example, say so (--no-header, or header=False)"
    return named + (without if header else "")


def _by_position(columns: tuple[str, ...]) -> dict[str, str]:
    """Returns the columns of a file without a header, with usual names as keys."""
    names = {1: ("text",), 2: ("text", "label"), 3: ("sentence1", "sentence2", "label")}
    return dict(zip(names.get(len(columns), ()), columns, strict=False))


def _first(
    usual: Mapping[str, str], names: Sequence[str], but: tuple[str | None, ...] = ()
) -> str | None:
    columns = (usual.get(name) for name in names)
    return next((name for name in columns if name is not None and name not in but), None)


def _text(table: Table, row: Row, column: str | None) -> str:
    text = row.values.get(column or "")
    if not isinstance(text, str):
        missing = "has no" if text is None else f"has {text!r}, not text, as"
        raise InputError(f"{table.place(row.line)}: the example {missing} {column!r}.")
    return text


def _label(
    table: Table, row: Row, columns: tuple[str, ...], separator: str | None
) -> str | tuple[str, ...] | None:
    if len(columns) > 1:
        return tuple(column for column in columns if _yes(table, row, column))
    value = row.values.get(columns[0])
    if isinstance(value, str) and value.lstrip().startswith("[") and separator is None:
        value = _list(value)
    if isinstance(value, list):
        return tuple(_name(item) for item in value)
    if value is None or isinstance(value, dict) or _name(value) == "":
        return () if separator is not None and value == "" else None
    if separator is not None:
        return tuple(filter(None, map(str.strip, _name(value).split(separator))))
    return _name(value)


def _yes(table: Table, row: Row, column: str) -> bool:
    value = _name(row.values.get(column, "")).lower().removesuffix(".0")  # pandas writes 1.0
    if value not in _YES + _NO:
        raise InputError(
            f"{table.place(row.line)}: {column!r} is {value!r}, but must be 1 or 0, because "
            "each label has a column of its own."
        )
    return value in _YES


def _list(text: str) -> Any:
    """Returns a list that was written as JSON or, as pandas does it, as Python; else the text."""
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(found, list):
            return found
    return text  # a label may begin with [


def _name(value: Any) -> str:
    """Returns a label as a string. Numbers and booleans of JSON look as in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value).strip()
