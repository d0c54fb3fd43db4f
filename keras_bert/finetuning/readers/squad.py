"""Files of SQuAD: questions on the paragraphs of articles, and predicted answers.

Rajpurkar et al. (2016), arXiv:1606.05250, and (2018), arXiv:1806.03822.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.finetuning.readers.documents import read_document


class Question(NamedTuple):
    """Question as in a file, with unchecked values.

    Args:
        number: line of the question, or its number in the file, from 1 on.
        place: file and number, for messages.
        id: name of the question.
        question: the question.
        context: text that may answer the question.
        answers: `[{"text": ..., "answer_start": ...}, ...]` as in SQuAD, or another form that
            `read_questions` knows; `[]` without an answer, None if the file does not say.
        article: title of the article.
    """

    number: int
    place: str
    id: Any
    question: Any
    context: Any
    answers: Any
    article: str = ""


def squad_questions(path: str | os.PathLike) -> Iterator[Question]:
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


def write_predictions(values: Mapping[str, str | float], path: str | os.PathLike) -> None:
    """Writes the file that the official scripts of SQuAD read.

    Args:
        values: answer by the id of each question, "" for no answer; or, for `--na-prob-file`, a
            score that is larger if an answer is less likely.
        path: name of the JSON file.

    Raises:
        StorageError: if a file cannot be written.
    """
    with replacing(path) as new:
        new.write_text(json.dumps(dict(values), indent=1) + "\n", encoding="utf-8")


def _list(node: Any, name: str, place: str) -> list[dict[str, Any]]:
    values = node.get(name) if isinstance(node, dict) else None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InputError(f'{place}: expected "{name}", a list of objects, as in SQuAD files.')
    return values
