"""Texts from the command line or standard input to examples, by task."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras_bert.errors import InputError


class Form(NamedTuple):
    """What the lines of a task are.

    Args:
        read: lines, each split at its tabs, and the number of the first to examples.
        looks: what a line must look like, for messages; "" if it is one text.
    """

    read: Callable[[list[list[str]], int], Any]
    looks: str = ""


def examples_of_lines(task: str, lines: Sequence[str], pairs: bool = False, first: int = 1) -> Any:
    """Texts from the command line or standard input as examples without labels.

    Args:
        task: the task.
        lines: at least one.
        pairs: whether each is two texts with a tab between; some tasks say so themselves.
        first: number of the first line.

    Raises:
        InputError: if a line is not what the task needs.
    """
    form = FORMS[task]
    if not form.looks and not pairs:
        return form.read([[line] for line in lines], first)
    cells = [line.split("\t") for line in lines]
    for line, several in zip(lines, cells, strict=True):
        if len(several) < 2 or (task != "choice" and len(several) > 2):
            expected = form.looks or "two texts with a tab between"
            raise InputError(f"{line[:50]!r} cannot be used: expected {expected}.")
    return form.read(cells, first)


def _numbers(cells: list[list[str]], first: int) -> dict[str, Any]:
    return {"path": "The input", "lines": tuple(range(first, first + len(cells)))}


def _texts(cells: list[list[str]], first: int) -> Any:
    from keras_bert.finetuning.examples import TextExamples

    texts, *pairs = zip(*cells, strict=True)
    return TextExamples(**_numbers(cells, first), texts=texts, pairs=pairs[0] if pairs else None)


def _tagged(cells: list[list[str]], first: int) -> Any:
    from keras_bert.finetuning.examples import TaggedExamples
    from keras_bert.text.words import split_words

    texts = tuple(text for (text,) in cells)
    words = tuple(tuple(split_words(text)) for text in texts)
    return TaggedExamples(**_numbers(cells, first), texts=texts, words=words)


def _questions(cells: list[list[str]], first: int) -> Any:
    from keras_bert.finetuning.examples import QuestionExamples

    questions, contexts = zip(*cells, strict=True)
    numbers = _numbers(cells, first)
    ids = tuple(map(str, numbers["lines"]))
    return QuestionExamples(**numbers, ids=ids, questions=questions, contexts=contexts)


def _choices(cells: list[list[str]], first: int) -> Any:
    from keras_bert.finetuning.examples import ChoiceExamples

    contexts, choices = zip(*((context, tuple(rest)) for context, *rest in cells), strict=True)
    return ChoiceExamples(**_numbers(cells, first), contexts=contexts, choices=choices)


FORMS = {
    "classify": Form(_texts),
    "tag": Form(_tagged),
    "answer": Form(_questions, "a question and its context with a tab between"),
    "choice": Form(_choices, "a context and its choices with tabs between"),
    "similarity": Form(_texts),
}
