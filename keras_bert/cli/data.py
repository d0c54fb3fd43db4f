"""Files and lines to examples, by task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from keras_bert.errors import InputError

TABLES = ("csv", "tsv", "jsonl")
FORMATS = (*TABLES, "conll", "squad")
GLUE_TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")


class Source(NamedTuple):
    """Where the examples of a task come from.

    Args:
        formats: of files.
        options: names of those that apply.
        read: path and options to examples.
        of_lines: texts, each split at its tabs, and the number of the first to examples.
        line: what a text must look like, for messages; "" if it is one text.
    """

    formats: tuple[str, ...]
    options: tuple[str, ...]
    read: Callable[..., Any]
    of_lines: Callable[[list[list[str]], int], Any]
    line: str = ""


def reader(task: str, *, labelled: bool = True, **options: Any) -> Callable[[str], Any]:
    """What the options for files describe: a path to examples.

    Raises:
        click.UsageError: if an option is not for this task.
    """
    source = SOURCES[task]
    check_options(task, options, (*source.options, "format", "on_error"))
    if options["format"] not in (None, *source.formats):
        raise click.UsageError(
            f"--format {options['format']} is not for the task {task}; it reads "
            f"{', '.join(source.formats)}."
        )
    given = {name: value for name, value in options.items() if not is_default(value)}
    return lambda path: source.read(path, labelled=labelled, **given)


def check_options(task: str, options: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Passes if all options that were given apply to a task.

    Raises:
        click.UsageError: if one does not.
    """
    for name, value in options.items():
        if not is_default(value) and name not in allowed:
            raise click.UsageError(f"--{name.replace('_', '-')} is not for the task {task}.")


def is_default(value: Any) -> bool:
    """Whether an option was left out."""
    return value is None or value is False or value == ()


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
    source = SOURCES[task]
    if not source.line and not pairs:
        return source.of_lines([[line] for line in lines], first)
    cells = [line.split("\t") for line in lines]
    for line, several in zip(lines, cells, strict=True):
        if len(several) < 2 or (task != "choice" and len(several) > 2):
            expected = source.line or "two texts with a tab between"
            raise InputError(f"{line[:50]!r} cannot be used: expected {expected}.")
    return source.of_lines(cells, first)


def usable(examples: Any, model: Any, on_error: str) -> Any:
    """Examples as a model takes them, with tags in its scheme.

    Args:
        examples: labelled.
        model: of their task.
        on_error: "skip" leaves out those with a label that the model does not know, and logs how
            many they are; "fail" leaves the complaint to whoever needs the labels.
    """
    from keras_bert.finetuning.readers.faults import read_each

    if hasattr(examples, "tags"):
        examples = examples.in_scheme(model.scheme)
    known, labels = getattr(model, "labels", ()), labels_of(examples)
    numbers = getattr(model, "problem_type", "") == "regression"
    if on_error == "fail" or not known or not labels or numbers:
        return examples

    def check(index: int) -> int:
        for label in labels[index]:
            if label not in known:
                raise InputError(f"{examples.place(index)}: the label {label!r} is unknown.")
        return index

    kept = read_each(check, range(len(examples)), examples.path, "skip")
    return examples if len(kept) == len(examples) else examples.take(kept)


def labels_of(examples: Any) -> list[Sequence[str]]:
    """Of each example its label, its labels, or one for each word; none if there are none."""
    labels = getattr(examples, "tags", None) or getattr(examples, "labels", None) or ()
    return [several if isinstance(several, tuple) else (several,) for several in labels]


def _read_texts(
    path: str,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: tuple[str, ...] = (),
    no_header: bool = False,
    glue: str | None = None,
    **options: Any,
) -> Any:
    from keras_bert.finetuning.examples import Columns
    from keras_bert.finetuning.readers.texts import read_examples

    if glue is not None:
        return _read_glue(glue, Path(path), options["on_error"])
    columns = Columns(text_column, pair_column, label_column)
    return read_examples(path, columns, header=not no_header, **options)


def _read_glue(name: str, path: Path, on_error: Any) -> Any:
    from keras_bert.finetuning.readers.glue import GLUE, read_glue

    splits = {file: split for split, file in GLUE[name].files.items()}
    if path.name not in splits:
        raise InputError(f"{path} is none of the files of {name}: {', '.join(splits)}.")
    return read_glue(name, splits[path.name], path.parent, on_error=on_error)


def _read_pairs(path: str, *, labelled: bool, **options: Any) -> Any:
    """Pairs with labels or without, which then belong together; or a text and choices."""
    if "choice_column" in options:
        return _read_choices(path, labelled=False, **options)
    return _read_texts(path, labelled=False, **options)


def _read_tagged(
    path: str,
    *,
    text_column: str | None = None,
    label_column: tuple[str, ...] = (),
    **options: Any,
) -> Any:
    from keras_bert.finetuning.readers.tagged import read_tagged

    numbers = {"word_column": text_column, "tag_column": next(iter(label_column), None)}
    options |= {key: _index(name) for key, name in numbers.items() if name is not None}
    return read_tagged(path, **options)


def _read_questions(
    path: str,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: tuple[str, ...] = (),
    no_header: bool = False,
    **options: Any,
) -> Any:
    from keras_bert.finetuning.readers.questions import read_questions

    given = {
        "question": text_column,
        "context": pair_column,
        "answer": next(iter(label_column), None),
    }
    columns = {name: column for name, column in given.items() if column is not None}
    return read_questions(path, columns, header=not no_header, **options)


def _read_choices(
    path: str,
    *,
    text_column: str | None = None,
    choice_column: tuple[str, ...] = (),
    label_column: tuple[str, ...] = (),
    no_header: bool = False,
    **options: Any,
) -> Any:
    from keras_bert.finetuning.readers.choices import read_choices

    return read_choices(
        path,
        context=text_column,
        choices=choice_column,
        label=next(iter(label_column), None),
        header=not no_header,
        **options,
    )


def _index(name: str) -> int:
    """The number of a column of a CoNLL file, from 1 on, as an index."""
    if not name.isdecimal() or int(name) < 1:
        raise InputError(
            f"The column is {name!r}, but columns of CoNLL files have numbers, from 1 on."
        )
    return int(name) - 1


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


_COLUMNS = ("text_column", "pair_column", "label_column", "no_header")
SOURCES = {
    "classify": Source(TABLES, (*_COLUMNS, "separator", "glue"), _read_texts, _texts),
    "tag": Source(
        ("conll", "jsonl"),
        ("text_column", "label_column", "comment"),
        _read_tagged,
        _tagged,
    ),
    "answer": Source(
        ("squad", *TABLES),
        _COLUMNS,
        _read_questions,
        _questions,
        "a question and its context with a tab between",
    ),
    "choice": Source(
        TABLES,
        ("text_column", "choice_column", "label_column", "no_header", "first_index"),
        _read_choices,
        _choices,
        "a context and its choices with tabs between",
    ),
    "similarity": Source(TABLES, (*_COLUMNS, "choice_column"), _read_pairs, _texts),
}
