"""Reads examples and makes models for the task with a given name."""

import inspect
import logging
import os
from collections.abc import Callable
from typing import Any

import keras_bert
from keras_bert.checkpoints import open_checkpoint
from keras_bert.errors import InputError, closest
from keras_bert.finetuning.examples import AnyExamples, Examples, TextExamples, labels_of
from keras_bert.finetuning.jobs import job_of_task
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.finetuning.targets import embedder_arguments
from keras_bert.tasks.registry import TASKS, task_of

logger = logging.getLogger(__name__)


def read(task: str, path: Any, **options: Any) -> Any:
    """Reads the examples of a task from a file or from a table in memory.

    Args:
        task: name of the task, such as "classifier"; see `keras_bert.load`.
        path: the file, or a table in memory: a pandas or Polars DataFrame, a `datasets.Dataset`, a
            `tf.data.Dataset` of dictionaries, a dictionary of columns, or an iterable of
            dictionaries.
        **options: `format`, `labeled`, `on_error`, and the options of the task's reader, which
            are the options of `keras-bert finetune`: `text_column`, `pair_column`,
            `label_column`, `header` and so on.

    Returns:
        `TextExamples`, `TaggedExamples`, `QuestionExamples` or `ChoiceExamples`.

    Raises:
        InputError: if the task has no such option, the file cannot be read, or an example cannot
            be used; the message names file and line.

    Example:
        >>> train = read("classifier", "tickets.csv", text_column="What they wrote")
        >>> test = read("classifier", pandas.DataFrame({"text": ["fine"], "label": ["good"]}))
    """
    reader = job_of_task(task).read
    _check_options(task, options, reader)
    for name in ("label_column", "choice_column"):
        if isinstance(options.get(name), str):
            options[name] = (options[name],)
    return reader(os.fspath(path) if isinstance(path, os.PathLike) else path, **options)


def new_model(
    task: str,
    model: Any,
    train: Examples,
    *others: Examples,
    sequence_length: int | None = None,
    dtype: str = "float32",
    **options: Any,
) -> Any:
    """Makes a model to fine-tune. Its labels come from the examples.

    The model keeps the given encoder. If a directory or hub name has a head for the same task that
    does not depend on labels, the model keeps this head, too. Otherwise it gets a new head. A
    classifier of an embedder's encoder keeps the embedder's pooling by default.

    Args:
        task: name of the task, such as "classifier"; see `keras_bert.load`.
        model: directory of a model, its name on the hub, or an encoder or model with a
            preprocessor. A model in memory always gets a new head.
        train: examples to learn from.
        *others: other examples, for validation and test.
        sequence_length: largest number of tokens in a text. By default, the preprocessor's value.
        dtype: precision of the computations, as in `keras_bert.load`. "auto" means mixed_bfloat16
            on devices that compute fast in it, else float32. A model in memory keeps its own.
        **options: arguments of the task's class that do not follow from the examples, such as
            `pooling` or `crf`.

    Returns:
        A model of the task's class, with a preprocessor.

    Raises:
        InputError: if the task has no such option, the examples have no suitable labels, or the
            model cannot be loaded.

    Example:
        >>> tagger = new_model("token_classifier", "pretrained", train, crf=True)
    """
    job, task_class = job_of_task(task), TASKS[task].model_class
    _check_options(task, options, job.arguments)
    if dtype == "auto" and isinstance(model, (str, os.PathLike)):
        import tensorflow as tf

        from keras_bert.distribution.strategy import fast_precision

        dtype, reason = fast_precision(tf.distribute.get_strategy())
        logger.info("Precision: %s, because %s.", dtype, reason)
    arguments = job.arguments(train, *others, **options)
    if arguments.get("pooling", "") is None:
        arguments["pooling"] = _trained_pooling(model)
    if not isinstance(model, (str, os.PathLike)):
        encoder = getattr(model, "encoder", model)
        made = task_class(encoder, preprocessor=model.preprocessor, **arguments)
    elif job.keeps_head and (task == "embedder" or saved_task(model) == task):
        made = keras_bert.load(model, task=task, dtype=dtype, **arguments)
    else:
        encoder = keras_bert.load(model, task="encoder", dtype=dtype)
        encoder = getattr(encoder, "encoder", encoder)  # a .keras file opens as a task
        made = task_class(encoder, preprocessor=encoder.preprocessor, **arguments)
    if made.preprocessor is not None and sequence_length:
        made.preprocessor = made.preprocessor.with_length(sequence_length)
    return made


def saved_task(path: str | os.PathLike) -> str:
    """Returns the name of the task whose head a directory has, or "" for a `.keras` file."""
    return "" if str(path).endswith(".keras") else open_checkpoint(path)[1].task


def _trained_pooling(model: Any) -> str | None:
    """Returns the pooling of an embedder, or None for another model.

    An embedder's encoder may have a pooler, but the pooler was not trained together with it.
    """
    if not isinstance(model, (str, os.PathLike)):
        return model.pooling if task_of(model) == "embedder" else None
    if saved_task(model) != "embedder":
        return None
    return open_checkpoint(model)[1].arguments.get("pooling")


def usable(examples: AnyExamples, model: Any, on_error: OnError) -> AnyExamples:
    """Returns the examples that a model can use, with tags in its scheme.

    Args:
        examples: examples with labels.
        model: a model of their task.
        on_error: what to do with examples whose label the model does not know. "skip" leaves them
            out and logs their number. "fail" keeps them, so that training or evaluation fails.

    Raises:
        InputError: if no example is left.
    """
    if hasattr(examples, "in_scheme"):
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


def use_scores(model: Any, examples: Examples) -> None:
    """Makes it possible to measure a contrastive embedder on pairs with scores.

    Sets the objective of the embedder to "cosine" if the examples are pairs with scores. Then its
    metric is the correlation between cosine similarities and scores.
    """
    if getattr(model, "objective", "") != "contrastive" or not isinstance(examples, TextExamples):
        return
    if examples.pairs is not None and examples.labels is not None:
        arguments = embedder_arguments(examples, objective="cosine")
        model.objective, model.score_range = "cosine", arguments["score_range"]


def keyword_options(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of a function's keyword arguments."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


def _check_options(task: str, options: dict[str, Any], function: Callable[..., Any]) -> None:
    allowed = keyword_options(function)
    for name in options:
        if name not in allowed:
            raise InputError(
                f"The task {task} has no option {name!r}.{closest(name, allowed)} It has "
                f"{', '.join(allowed) or 'no options'}."
            )
