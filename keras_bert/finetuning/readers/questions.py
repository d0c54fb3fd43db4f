"""Reader of questions, contexts and answers, from SQuAD's files or tables.

Rajpurkar et al. (2016), arXiv:1606.05250, and (2018), arXiv:1806.03822.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from keras_bert.atomic import replace_file
from keras_bert.errors import InputError, closest
from keras_bert.finetuning.examples import QuestionExamples
from keras_bert.finetuning.readers.documents import read_document
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.finetuning.readers.tables import (
    FORMATS,
    Table,
    find_column,
    format_of,
    read_table,
    require_column,
)

# Usual names of the columns of each value.
_COLUMNS = {
    "id": ("id", "qid", "question_id"),
    "question": ("question", "query"),
    "context": ("context", "paragraph", "passage", "document", "text"),
    "answer": ("answers", "answer", "answer_text"),
    "answer_start": ("answer_start", "start"),
    "is_impossible": ("is_impossible",),
}
_YES = ("1", "true", "yes")
_SHOWN = 80  # characters of a text in a message

Spans = tuple[tuple[str, int], ...]
"""Text and position of the first character of each answer."""


class Question(NamedTuple):
    """Question as a file gives it, with unchecked values.

    Args:
        number: line of the question, or its number in the file, from 1 on.
        place: file and number, for messages.
        id: name of the question.
        question: the question.
        context: text that may answer the question.
        answers: `[{"text": ..., "answer_start": ...}, ...]` as in SQuAD, or another form that
            `read_questions` knows. `[]` means that there is no answer, None that the file does
            not say.
        article: title of the article.
    """

    number: int
    place: str
    id: Any
    question: Any
    context: Any
    answers: Any
    article: str = ""


def read_questions(
    path: Any,
    columns: Mapping[str, str] | None = None,
    *,
    format: str | None = None,
    header: bool = True,
    labeled: bool = True,
    on_error: OnError = "fail",
) -> QuestionExamples:
    """Reads a SQuAD file, or a question, a context and an answer from each row of a table.

    The `groups` of the examples, which `hold_out` never divides, are the articles of a SQuAD file.
    If there is only one article, the groups are its paragraphs. If an answer has no
    `answer_start`, its first occurrence in the context counts.

    `answers` of a JSON line has one of these forms:

    - a string, or a list of strings
    - a list of objects `{"text": ..., "answer_start": ...}`
    - an object `{"text": [...], "answer_start": [...]}`

    An empty list of answers, or a true `is_impossible`, means that the context does not answer the
    question.

    Args:
        path: the file, or a table in memory; see `rows_of_table`.
        columns: names of the columns of "question", "context", "answer", "answer_start", "id" and
            "is_impossible" in a table. A column that is not given is found by its usual name.
        format: "squad", "csv", "tsv", "jsonl" or "parquet". By default, the ending of the file's
            name decides. Any other ending, such as ".json", means "squad".
        header: whether the first line of a CSV or TSV file names the columns. Without a header,
            the columns have the names "1", "2" and so on.
        labeled: whether answers are needed. If not, they are read only if all questions have
            them.
        on_error: "fail" raises an error at the first question that cannot be used, for example
            because its answer is not in its context. "skip" leaves such questions out and logs
            their number.

    Raises:
        InputError: if the file cannot be read, or a question cannot be used; the message names
            the file, the question and the answer.
    """
    format = format or format_of(path) or "squad"
    name, unit = str(path), "question"
    if format == "squad":
        items = list(_squad_questions(path))
    elif format in (*FORMATS, "table"):
        table = read_table(path, format=format, header=header, on_error=on_error)
        name, unit = table.path, table.unit
        items = list(_rows(table, columns or {}))
    else:
        raise InputError(f"There is no format {format!r}: give squad, {', '.join(FORMATS)}.")
    if not items:
        raise InputError(f"{name} has no questions: expected at least one.")
    ids: set[str] = set()

    def read(item: Question) -> tuple[Question, Spans | None]:
        answers = _checked(item, labeled)
        if item.id in ids:
            raise InputError(f"{item.place}: another question has the id {item.id!r}, too.")
        ids.add(item.id)
        return item, answers

    questions, answers = zip(*read_each(read, items, name, on_error), strict=True)
    contexts = tuple(item.context for item in questions)
    articles = tuple(item.article for item in questions)
    groups = articles if len(set(articles)) > 1 else contexts
    return QuestionExamples(
        path=name,
        lines=tuple(item.number for item in questions),
        unit=unit,
        groups=groups if len(set(groups)) > 1 else None,
        ids=tuple(item.id for item in questions),
        questions=tuple(item.question for item in questions),
        contexts=contexts,
        answers=None if None in answers else answers,
    )


def write_predictions(values: Mapping[str, str | float], path: str | os.PathLike) -> None:
    """Writes the file that the official scripts of SQuAD read.

    Args:
        values: the answer for each question id, "" for no answer. For a file for the scripts'
            option `--na-prob-file`, a number for each id, which is larger if an answer is less
            likely.
        path: name of the JSON file.

    Raises:
        StorageError: if a file cannot be written.
    """
    replace_file(path, json.dumps(dict(values), indent=1) + "\n")


def _squad_questions(path: str | os.PathLike) -> Iterator[Question]:
    """Yields the questions of a SQuAD 1.1 or 2.0 file, in their order.

    Raises:
        InputError: if the file cannot be read or has another structure.
    """
    number = 0
    for index, article in enumerate(_list(read_document(path), "data", str(path)), start=1):
        title = str(article.get("title") or index)
        place = f"{path}, article {title!r}"
        for paragraph in _list(article, "paragraphs", place):
            for qa in _list(paragraph, "qas", place):
                number += 1
                id = str(qa.get("id", number))
                yield Question(
                    number=number,
                    place=f"{path}, question {number} ({id})",
                    id=id,
                    question=qa.get("question"),
                    context=paragraph.get("context"),
                    answers=[] if qa.get("is_impossible") is True else qa.get("answers"),
                    article=title,
                )


def _list(node: Any, name: str, place: str) -> list[dict[str, Any]]:
    values = node.get(name) if isinstance(node, dict) else None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InputError(f'{place}: expected "{name}", a list of objects, as in SQuAD files.')
    return values


def _rows(table: Table, given: Mapping[str, str]) -> Iterator[Question]:
    """Yields a question from each row."""
    for name in given:
        if name not in _COLUMNS:
            raise InputError(f"Questions have no {name!r}.{closest(name, _COLUMNS)}")
    found = {
        name: require_column(table, name, given.get(name), usual)
        if name in ("question", "context")
        else find_column(table, given.get(name), usual)
        for name, usual in _COLUMNS.items()
    }
    for row in table.rows:
        cells = {
            name: None if column is None else row.values.get(column)
            for name, column in found.items()
        }
        answers, start = cells["answer"], cells["answer_start"]
        if str(cells["is_impossible"]).lower().removesuffix(".0") in _YES:  # pandas writes 1.0
            answers = []
        elif isinstance(answers, str):
            answers = [{"text": answers, "answer_start": start}] if answers else None
        elif isinstance(answers, list) and isinstance(start, list):
            answers = {"text": answers, "answer_start": start}
        id = row.line if cells["id"] is None else cells["id"]
        yield Question(
            row.line,
            table.place(row.line),
            str(id),
            cells["question"],
            cells["context"],
            answers,
        )


def _checked(item: Question, labeled: bool) -> Spans | None:
    """Returns the answers of a question, each with its position in the context."""
    for name, text in (("question", item.question), ("context", item.context)):
        if not isinstance(text, str):
            raise InputError(f"{item.place}: the {name} is {text!r}, but must be a text.")
    if item.answers is None:
        if labeled:
            raise InputError(
                f"{item.place}: the answer is missing; give one. If the context has no answer, "
                "give an empty list of answers or set is_impossible to true."
            )
        return None
    try:
        return tuple(_located(item, *answer) for answer in _pairs(item))
    except InputError:
        if labeled:
            raise
        return None


def _pairs(item: Question) -> Sequence[tuple[Any, Any]]:
    """Returns text and start of each answer, from any form that `read_questions` knows."""
    answers = item.answers
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
        if not isinstance(texts, list):
            return [(texts, starts)]
        starts = [None] * len(texts) if starts is None else starts
        if isinstance(starts, list) and len(starts) == len(texts):
            return list(zip(texts, starts, strict=True))
    elif isinstance(answers, list):
        return [
            (answer.get("text"), answer.get("answer_start"))
            if isinstance(answer, dict)
            else (answer, None)
            for answer in answers
        ]
    raise InputError(f"{item.place}: the answers are {_short(answers)}; expected a list of texts.")


def _located(item: Question, text: Any, start: Any) -> tuple[str, int]:
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{item.place}: an answer is {text!r}, but must be a part of the context.")
    found = item.context.find(text)
    if start in (None, ""):
        start = found
    try:
        start = int(str(start).removesuffix(".0"))
    except (TypeError, ValueError):
        raise InputError(f"{item.place}: answer_start is {start!r}, not a number.") from None
    if start >= 0 and item.context.startswith(text, start):
        return text, start
    if found < 0:
        raise InputError(f"{item.place}: the answer {_short(text)} is not in its context.")
    raise InputError(
        f"{item.place}: the answer {_short(text)} is not in its context at character {start}, "
        f"where {_short(item.context[max(start, 0) :][: len(text)])} stands, but at {found}."
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
