"""Quantization with a conscience: a file gets its name if the task's metric bears it."""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.export._verify.signatures import Way, ways_into
from keras_bert.export.artifact_checks import ExportError
from keras_bert.export.formats import FORMATS
from keras_bert.export.process import Process, running
from keras_bert.export.signatures import filled_up
from keras_bert.finetuning.evaluation import evaluate
from keras_bert.finetuning.jobs import job_of
from keras_bert.tasks.registry import FINE_TUNED, class_names, task_of


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What a file's metric is beside the model's; `str` says it.

    Args:
        metric: its name.
        model: the Keras model's, in points of 100.
        artifact: the file's.
        examples: on how many examples.
    """

    metric: str
    model: float
    artifact: float
    examples: int

    @property
    def drop(self) -> float:
        """How many points the file lost; less than 0 if it won some."""
        return self.model - self.artifact

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.artifact:.2f} of 100, Keras {self.model:.2f}, on {self.examples} "
            "examples"
        )


def accept(
    model: keras.Model,
    path: str | os.PathLike,
    examples: Any,
    max_drop: float = 0.5,
    **options: Any,
) -> Judgement:
    """Writes a file, usually a quantized one, if the task's metric drops at most so much.

    The file runs in its own runtime, in a process of its own; its outputs go through the code
    that `keras_bert.finetuning.evaluate` measures the model with.

    Args:
        model: a task that has a metric.
        path: the file, `.tflite` or `.onnx`, replaced if it exists.
        examples: labelled, as `keras_bert.finetuning` reads them.
        max_drop: points of 100 by which the metric may be less than the model's.
        **options: of `export.tflite` or `export.onnx`, such as `quantize`.

    Returns:
        The metric of both.

    Raises:
        InputError: if an argument is not possible, or the model has no metric.
        ExportError: if the drop is larger, or the file does not run; nothing was written then.
    """
    path, metric = Path(path), official_metric(model)
    formats = {format.ending: format for format in FORMATS.values() if format.ending}
    if path.suffix not in formats:
        raise InputError(f"{path} is no file to be judged: let it end in {' or '.join(formats)}.")
    if not max_drop >= 0:
        raise InputError(f"max_drop is {max_drop}, but must be 0 points or more.")
    expected = points(model, examples)
    if math.isnan(expected):
        raise InputError(
            f"On {examples.path}, {metric} of the model is not a number, so no file can be judged "
            "by it; give more examples, with different labels."
        )
    with replacing(path) as scratch:
        candidate = scratch.with_name(f"candidate{path.suffix}")
        formats[path.suffix].write(model, candidate, **options)
        with running(candidate) as process:
            found = points(model, examples, process)
        judgement = Judgement(metric, expected, found, len(examples))
        if not judgement.drop <= max_drop:
            raise ExportError(
                f"{path.name} is refused: {judgement} of {examples.path}, a drop of "
                f"{judgement.drop:.2f} where {max_drop:g} is allowed; nothing was written."
            )
        os.replace(candidate, scratch)
    return judgement


_BATCH_SIZE = 32
_OUTPUTS = (("logits",), ("embedding",), ("start_logits", "end_logits"), ("scores",))
"""What the models that have a metric give, by its names in artifacts."""

_LOGITS: dict[str, Callable[[Any], np.ndarray]] = {
    "single_label": np.log,
    "multi_label": lambda scores: np.log(scores) - np.log1p(-scores),
    "regression": np.asarray,
}
"""A classifier's scores to its logits, for artifacts that give nothing else."""


def official_metric(model: Any) -> str:
    """The name of the metric that counts for a model: that which chooses its best epoch.

    Raises:
        InputError: if there is none.
    """
    if task_of(model) not in FINE_TUNED:
        raise InputError(
            f"This {type(model).__name__} has no metric on labelled examples, so nothing can be "
            f"measured by them; what has one is a {class_names(FINE_TUNED)}."
        )
    return job_of(model).metrics(model)[0]


def points(model: Any, examples: Any, process: Process | None = None) -> float:
    """The official metric of a model, or of an artifact made of it, in points of 100.

    An artifact's outputs for the rows of the examples go through what turns the model's into
    answers, windows, CRF and all.

    Args:
        model: a task with a preprocessor.
        examples: labelled.
        process: in which the artifact runs; None: the model itself is measured.

    Raises:
        InputError: if the model has no metric, something is wrong with the examples, or the
            artifact takes texts alone and is no classifier.
        ExportError: if the artifact cannot be run.
    """
    name = official_metric(model)
    if process is None:
        return 100 * evaluate(model, examples)[name]
    names = {name for names in _OUTPUTS for name in names}
    ways = ways_into(process, names, examples.inputs)
    way = next((way for way in ways if way.takes == "ids"), None)
    if way is None:
        return 100 * _from_texts(model, examples, process, ways[0])[name]
    return 100 * _from_ids(model, examples, process, way)[name]


def _from_ids(model: Any, examples: Any, process: Process, way: Way) -> dict[str, float]:
    def run(batch: dict[str, np.ndarray]) -> Any:
        inputs = way.inputs(None, filled_up(batch, way.length))
        return _as_of_model(model, process.run(way.signature, inputs))

    with _no_longer_than(model, way.length):
        return evaluate(model, examples, batch_size=_BATCH_SIZE, run=run)


def _from_texts(model: Any, examples: Any, process: Process, way: Way) -> dict[str, float]:
    """The same of an artifact with a tokenizer, which does not know of windows and words."""
    if task_of(model) != "classifier":
        raise InputError(
            f"{process.path} takes texts as they are; the metric of a {type(model).__name__} is "
            "measured on an artifact that takes ids."
        )
    job, outputs = job_of(model), []
    for start in range(0, len(examples), _BATCH_SIZE):
        part = examples.take(range(start, min(start + _BATCH_SIZE, len(examples))))
        outputs += [*_as_of_model(model, process.run(way.signature, way.inputs(part.inputs, {})))]
    return job.measure(model, examples, job.rows(model, examples), outputs)


def _as_of_model(model: Any, outputs: dict[str, np.ndarray]) -> Any:
    """Outputs by name to what the model returns."""
    names = next(names for names in _OUTPUTS if set(names) <= set(outputs))
    if len(names) > 1:
        return {name: outputs[name] for name in names}
    (name,) = names
    if name != "scores":
        return outputs[name]
    with np.errstate(divide="ignore"):  # scores in int8 may be 0 or 1
        return _LOGITS[model.problem_type](outputs[name])


@contextlib.contextmanager
def _no_longer_than(model: Any, length: int | None) -> Iterator[None]:
    """The model's texts have at most so many tokens within the block."""
    preprocessor = model.preprocessor
    if length is not None and length < preprocessor.sequence_length:
        model.preprocessor = preprocessor.with_length(length)
    try:
        yield
    finally:
        model.preprocessor = preprocessor
