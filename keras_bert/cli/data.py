"""Files to examples, by task."""

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
    """

    formats: tuple[str, ...]
    options: tuple[str, ...]
    read: Callable[..., Any]


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


def usable(examples: Any, model: Any, on_error: str) -> Any:
    """Examples as a model takes them, with tags in its scheme.

    Args:
        examples: labelled.
        model: of their task.
        on_error: "skip" leaves out those with a label that the model does not know, and logs how
            many they are; "fail" leaves the complaint to whoever needs the labels.

    Raises:
        InputError: if no example is left.
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
    if options.get("no_header") and not (options.get("text_column") or options.get("pair_column")):
        options |= {"text_column": "1", "pair_column": "2"}
    examples = _read_texts(path, labelled=False, **options)
    if labelled and examples.labels is None and examples.columns.labels:
        examples = _read_texts(path, labelled=True, **options)  # one is missing: tells which
    return examples


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


_COLUMNS = ("text_column", "pair_column", "label_column", "no_header")
SOURCES = {
    "classify": Source(TABLES, (*_COLUMNS, "separator", "glue"), _read_texts),
    "tag": Source(("conll", "jsonl"), ("text_column", "label_column", "comment"), _read_tagged),
    "answer": Source(("squad", *TABLES), _COLUMNS, _read_questions),
    "choice": Source(
        TABLES,
        ("text_column", "choice_column", "label_column", "no_header", "first_index"),
        _read_choices,
    ),
    "similarity": Source(TABLES, (*_COLUMNS, "choice_column"), _read_pairs),
}
