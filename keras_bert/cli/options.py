"""Options that several commands share, such as those for reading examples."""

import functools
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union, get_args, get_origin

import click
from click.core import ParameterSource

from keras_bert.errors import InputError
from keras_bert.tasks.registry import TASKS, task_of

COMMANDS = {entry.command: task for task, entry in TASKS.items() if entry.command}
"""Names of tasks in Python, by their names on the command line."""
FORMATS = ("csv", "tsv", "jsonl", "parquet", "conll", "squad")
GLUE_TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")

MODEL = click.option(
    "--model",
    required=True,
    metavar="DIR",
    help="Directory of a model, or its name on the hub, which may end with @REVISION.",
)
BATCH_SIZE = click.option(
    "--batch-size", default=32, show_default=True, type=click.IntRange(1), help="Texts per step."
)
AS_TASK = click.option(
    "--task",
    "as_task",
    type=click.Choice(["similarity"]),
    help="Open any encoder as an embedder, even if it was saved with another head.",
)
NULL_THRESHOLD = click.option(
    "--null-threshold",
    type=float,
    metavar="NUMBER",
    help='answer: a question has no answer if the score of "no answer" exceeds the best answer\'s '
    "score by this number. The default is the model's own; `evaluate` measures the best one.",
)

COLUMNS = (
    click.option(
        "--text-column",
        metavar="NAME",
        help="Column of the text, of the first text of a pair, or of the question.",
    ),
    click.option(
        "--pair-column", metavar="NAME", help="Column of the second text, or of the context."
    ),
    click.option(
        "--label-column",
        metavar="NAME",
        multiple=True,
        help="Column of the label. Repeat the option if each label has its own column of 0 and 1.",
    ),
    click.option(
        "--choice-column",
        metavar="NAME",
        multiple=True,
        help="Column of a choice; repeat the option for each choice.",
    ),
    click.option("--first-index", type=int, help="Number of the first choice in the labels."),
    click.option(
        "--comment", metavar="TEXT", help="Start of comment lines in a CoNLL file, such as #."
    ),
    click.option(
        "--no-header",
        "header",
        is_flag=True,
        callback=lambda context, option, value: not value,
        help="The first line is an example. Columns are then called 1, 2, 3.",
    ),
    click.option("--separator", metavar="TEXT", help="Text between several labels of a text."),
    click.option(
        "--glue",
        type=click.Choice(GLUE_TASKS),
        help="Task of GLUE. The file must be a file of this task, under its original name.",
    ),
    click.option(
        "--on-error",
        type=click.Choice(["fail", "skip"]),
        default="fail",
        show_default=True,
        help="Stop at an example that cannot be used, or leave it out.",
    ),
)
"""Options for reading files of examples."""
FORMAT = click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="Format of the files; by default, the ending of their names decides.",
)


def add(*options: Callable) -> Callable:
    """Returns a decorator that adds several options to a command."""
    return lambda function: functools.reduce(lambda f, option: option(f), options[::-1], function)


def field_options(options: type) -> list[click.Option]:
    """Returns a command-line option for each field of `keras_bert.options.Options`.

    The field `learning_rate` becomes `--learning-rate`. A bool field has two flags, such as
    `--length-buckets` and `--no-length-buckets`. A field that accepts several types, such as
    `class_weights`, takes one or more texts.
    """
    from keras_bert.options import fields

    made = []
    for name, field in fields(options).items():
        kind = field.annotation
        if get_origin(kind) in (Union, types.UnionType):
            kinds = [each for each in get_args(kind) if each is not type(None)]
            kind = kinds[0] if len(kinds) == 1 else None
        flag = f"--{name.replace('_', '-')}"
        shown: dict[str, Any] = {"help": field.description, "show_default": True}
        if kind is None:
            made.append(click.Option([flag], multiple=True, **shown))
            continue
        flags = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
        made.append(click.Option([flags], type=kind, default=field.default, **shown))
    return made


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that were given on the command line."""
    source = click.get_current_context().get_parameter_source
    return {k: v for k, v in options.items() if source(k) is ParameterSource.COMMANDLINE}


def flag_of(name: str) -> str:
    """Returns the flag of a parameter of the running command: for `header`, `--no-header`."""
    parameters = click.get_current_context().command.params
    return next(each.opts[0] for each in parameters if each.name == name)


def check_allowed(command: str, options: Iterable[str], allowed: Iterable[str]) -> None:
    """Checks that a task has all these options.

    Raises:
        click.UsageError: if an option is not for the task.
    """
    for name in options:
        if name not in allowed:
            raise click.UsageError(f"{flag_of(name)} is not for the task {command}.")


def reader(task: str, options: Mapping[str, Any], **others: Any) -> Callable[[str], Any]:
    """Returns a function that reads a file with the options of the command line.

    Raises:
        click.UsageError: if an option is not for this task.
    """
    from keras_bert.finetuning.jobs import job_of_task
    from keras_bert.finetuning.tasks import keyword_options, read

    job, command, chosen = job_of_task(task), TASKS[task].command, given(options)
    check_allowed(command, chosen, keyword_options(job.read))
    if chosen.get("format", job.formats[0]) not in job.formats:
        raise click.UsageError(
            f"--format {chosen['format']} is not for the task {command}; it reads "
            f"{', '.join(job.formats)}."
        )
    return lambda path: read(task, path, **chosen, **others)


def load_model(
    path: str, as_task: str | None = None, null_threshold: float | None = None
) -> tuple[str, Any]:
    """Loads a model that predicts something about texts; returns its task and the model.

    Args:
        path: path of the model.
        as_task: "similarity" opens any encoder as an embedder.
        null_threshold: replaces the threshold of the model, if it is given.

    Raises:
        InputError: if there is no such model, or it cannot take texts.
    """
    import keras_bert

    model = keras_bert.load(path, task=COMMANDS[as_task] if as_task else None)
    name, task = type(model).__name__, task_of(model)
    if task is None or task not in COMMANDS.values():
        raise InputError(
            f"{path} is a {name}, which predicts nothing about texts; fine-tune it with "
            "keras-bert finetune, or open it as an embedder with --task similarity."
        )
    if model.preprocessor is None:
        raise InputError(
            f"{path} has no vocabulary, so it cannot take texts; put vocab.txt beside the model."
        )
    if null_threshold is not None:
        if not hasattr(model, "null_threshold"):
            raise InputError(f"{path} is a {name}, which has no threshold; omit --null-threshold.")
        model.null_threshold = null_threshold
    return task, model
