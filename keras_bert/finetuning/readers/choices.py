"""Reader of texts with choices, from SWAG's CSV files or any table of contexts and choices.

Zellers et al. (2018), arXiv:1808.05326.
"""

import re
from collections.abc import Sequence
from typing import Any

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import ChoiceExamples
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.finetuning.readers.tables import Row, Table, find_column, read_table, require_column

_SWAG = ("sent1", "sent2")  # the first sentence, and the beginning of all choices
_CONTEXTS = ("context", "premise", "question", "goal", "sentence", "text", "ctx", "startphrase")
_LABELS = ("label", "answer", "target", "gold_label")
_LISTS = ("choices", "endings", "options")
_NUMBERED = re.compile(r"(ending|choice|option|answer|sol|solution|hypothesis)[ _]?(\d+|[a-h])")


def read_choices(
    path: Any,
    *,
    text_column: str | None = None,
    choice_column: str | Sequence[str] = (),
    label_column: str | Sequence[str] = (),
    first_index: int = 0,
    format: str | None = None,
    header: bool = True,
    labeled: bool = True,
    on_error: OnError = "fail",
) -> ChoiceExamples:
    """Reads texts, their choices, and the right choice of each text.

    In SWAG's files, the context is the first sentence. A choice is the beginning of the second
    sentence followed by one of the endings.

    Args:
        path: a CSV, TSV, JSONL or Parquet file, or a table in memory; see `rows_of_table`.
        text_column: column of the text. By default, it is found by its usual name.
        choice_column: a column for each choice, such as ending0 and ending1, or one column of a
            JSONL file that has lists of choices.
        label_column: column of the label, which is the number or the text of the right choice.
        first_index: number of the first choice in labels that are numbers.
        format: "csv", "tsv", "jsonl" or "parquet". By default, the ending of the file's name
            decides.
        header: whether the first line of a CSV or TSV file names the columns. Without a header,
            the columns have the names "1", "2" and so on.
        labeled: whether labels are needed. If not, they are read only if all examples have one.
        on_error: "fail" raises an error at the first row that cannot be used. "skip" leaves such
            rows out and logs their number.

    Raises:
        InputError: if the file or a column is not found, or a row has no context, too few choices
            or a wrong label; the message names file and line.
    """
    table = read_table(path, format=format, header=header, on_error=on_error)
    beginning = None
    if text_column is None and not choice_column and set(_SWAG) <= set(table.columns):
        text_column, beginning = _SWAG
    context = require_column(table, "context", text_column, _CONTEXTS)
    choices = _choice_columns(table, choice_column)
    given = label_column if isinstance(label_column, str) else next(iter(label_column), None)
    label = find_column(table, given, _LABELS)
    if labeled:
        label = require_column(table, "label", given, _LABELS)

    def read(row: Row) -> tuple[int, str, tuple[str, ...], str]:
        place = table.place(row.line)
        texts = _choices(row, choices, place)
        if beginning is not None:
            texts = tuple(f"{_text(row, beginning, place)} {text}" for text in texts)
        value = None if label is None else row.values.get(label)
        name = "" if value is None else str(value).strip()
        if labeled and not name:
            raise InputError(f"{place}: the label is missing (column {label!r}).")
        return row.line, _text(row, context, place), texts, name

    examples = read_each(read, table.rows, table.path, on_error)
    known = all(name for *_, name in examples)
    as_texts = all(name in texts for _, _, texts, name in examples)
    count = len(examples[0][2])

    def resolve(example: tuple[int, str, tuple[str, ...], str]) -> tuple:
        line, text, texts, name = example
        place = table.place(line)
        if len(texts) != count:
            raise InputError(
                f"{place}: {len(texts)} choices, but the first example has {count}; give all "
                "examples the same number."
            )
        index = _index(name, texts, first_index, as_texts, place) if known else 0
        return line, text, texts, index

    resolved = read_each(resolve, examples, table.path, on_error)
    lines, contexts, all_choices, labels = zip(*resolved, strict=True)
    return ChoiceExamples(
        path=table.path,
        lines=lines,
        unit=table.unit,
        contexts=contexts,
        choices=all_choices,
        labels=labels if known else None,
    )


def _choice_columns(table: Table, given: str | Sequence[str]) -> tuple[str, ...]:
    if given:
        columns = (given,) if isinstance(given, str) else given
        return tuple(require_column(table, "choices", name, ()) for name in columns)
    names = {name.lower(): name for name in table.columns}
    numbered = [match for match in map(_NUMBERED.fullmatch, names) if match]
    of_one_kind = [match for match in numbered if match[1] == numbered[0][1]]
    if len(of_one_kind) > 1:
        of_one_kind.sort(key=lambda match: (len(match[2]), match[2]))  # 2 before 10
        return tuple(names[match[0]] for match in of_one_kind)
    return (require_column(table, "choices", None, _LISTS),)


def _choices(row: Row, columns: Sequence[str], place: str) -> tuple[str, ...]:
    if len(columns) > 1:
        return tuple(_text(row, name, place, blank=False) for name in columns)
    texts = row.values.get(columns[0])
    if (
        not isinstance(texts, list)
        or len(texts) < 2
        or not all(isinstance(text, str) and text.strip() for text in texts)
    ):
        raise InputError(
            f"{place}: {columns[0]!r} is {texts!r}, but must be a list of two texts or more."
        )
    return tuple(texts)


def _text(row: Row, column: str, place: str, blank: bool = True) -> str:
    text = row.values.get(column)
    if not isinstance(text, str) or not (blank or text.strip()):
        raise InputError(f"{place}: {column!r} is {text!r}, but must be a text.")
    return text


def _index(label: str, texts: Sequence[str], first_index: int, as_texts: bool, place: str) -> int:
    """Returns the index of the choice that a label names."""
    number = label.removesuffix(".0")  # pandas writes 1.0
    if not as_texts and number.isdecimal():
        index = int(number) - first_index
        if not 0 <= index < len(texts):
            raise InputError(
                f"{place}: the label is {label}, but the choices are numbered {first_index} to "
                f"{first_index + len(texts) - 1}; if the first has another number, set first_index."
            )
        return index
    if texts.count(label) != 1:
        often = "two of" if label in texts else "none of"
        raise InputError(f"{place}: the label {label!r} is {often} the choices.")
    return texts.index(label)
