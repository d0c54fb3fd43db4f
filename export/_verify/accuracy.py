"""Accuracy check: a file is written only if the task's metric stays within the limit."""

import dataclasses
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.export._verify.signatures import Signature, signatures_for
from keras_bert.export.artifact_checks import ExportError
from keras_bert.export.formats import FORMATS
from keras_bert.export.process import Process, running
from keras_bert.export.signatures import filled_up
from keras_bert.finetuning.evaluation import evaluate
from keras_bert.finetuning.jobs import job_of
from keras_bert.tasks.registry import FINE_TUNED, class_names, task_of


@dataclasses.dataclass(frozen=True)
class AccuracyCheck:
    """The metric of a file and of the Keras model. `str` returns both in one sentence.

    Args:
        metric: name of the metric.
        model: the Keras model's metric, in points of 100.
        artifact: the file's metric, in points of 100.
        examples: number of examples that the metric was measured on.
    """

    metric: str
    model: float
    artifact: float
    examples: int

    @property
    def drop(self) -> float:
        """Number of points that the file lost; negative if the file is better than the model."""
        return self.model - self.artifact

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.artifact:.2f} of 100, Keras {self.model:.2f}, on {self.examples} "
            "examples"
        )


def check_accuracy(
    model: keras.Model,
    path: str | os.PathLike,
    examples: Any,
    max_drop: float = 0.5,
    **options: Any,
) -> AccuracyCheck:
    """Writes a file, usually a quantized one, if the task's metric stays within a limit.

    The file runs in its own runtime, in a separate process. `keras_bert.finetuning.evaluate`
    computes both metrics, from the outputs of the file and of the model.

    Args:
        model: a task that has a metric.
        path: the file, `.tflite` or `.onnx`, replaced if it exists.
        examples: labeled examples, as `keras_bert.finetuning` reads them.
        max_drop: largest difference between the model's metric and the file's, in points of 100.
        **options: arguments of `export.tflite` or `export.onnx`, such as `quantize`.

    Returns:
        The metric of the model and of the file.

    Raises:
        InputError: if an argument is not possible, or the model has no metric.
        ExportError: if the drop is larger, or the file does not run. Then nothing is written.

    Example:
        >>> examples = finetuning.read("classifier", "test.csv")
        >>> check = export.check_accuracy(model, "model.onnx", examples, quantize="dynamic")
        >>> print(check)
        accuracy 91.20 of 100, Keras 91.40, on 500 examples
    """
    path, metric = Path(path), official_metric(model)
    formats = {format.ending: format for format in FORMATS.values() if format.ending}
    if path.suffix not in formats:
        raise InputError(
            f"The path is {path}, but a file whose accuracy is checked must end in "
            f"{' or '.join(formats)}."
        )
    if not max_drop >= 0:
        raise InputError(f"max_drop is {max_drop}, but must be 0 points or more.")
    expected = points(model, examples)
    if math.isnan(expected):
        raise InputError(
            f"On {examples.path}, {metric} of the model is not a number, so no file can be "
            "compared with it; give more examples, with different labels."
        )
    with replacing(path) as scratch:
        candidate = scratch.with_name(f"candidate{path.suffix}")
        formats[path.suffix].write(model, candidate, **options)
        with running(candidate) as process:
            found = points(model, examples, process)
        check = AccuracyCheck(metric, expected, found, len(examples))
        if not check.drop <= max_drop:
            raise ExportError(
                f"{path.name} is refused: {check} of {examples.path}, a drop of "
                f"{check.drop:.2f} where {max_drop:g} is allowed; nothing was written."
            )
        os.replace(candidate, scratch)
    return check


_BATCH_SIZE = 32
_OUTPUTS = (("logits",), ("embedding",), ("start_logits", "end_logits"), ("scores",))
"""Names of the outputs of each kind of model that has a metric."""

_LOGITS: dict[str, Callable[[Any], np.ndarray]] = {
    "single_label": np.log,
    "multi_label": lambda scores: np.log(scores) - np.log1p(-scores),
    "regression": np.asarray,
}
"""Functions that convert a classifier's scores to logits, for artifacts that give only scores."""


def official_metric(model: Any) -> str:
    """Returns the name of the task's first metric, which chooses the best epoch by default.

    Raises:
        InputError: if the model has no metric.
    """
    if task_of(model) not in FINE_TUNED:
        raise InputError(
            f"This {type(model).__name__} has no metric on labeled examples; give one of "
            f"{class_names(FINE_TUNED)}, or leave out the examples."
        )
    return job_of(model).metrics(model)[0]


def points(model: Any, examples: Any, process: Process | None = None) -> float:
    """Measures the `official_metric` of a model or of its artifact, in points of 100.

    The model's code converts the outputs of an artifact to predictions, with windows and the CRF.

    Args:
        model: a task with a preprocessor.
        examples: labeled examples.
        process: the process of the artifact; None to measure the model.

    Raises:
        InputError: if the model has no metric, an example is wrong, or the artifact takes only
            texts and the model is not a classifier.
        ExportError: if the artifact cannot be run.
    """
    name = official_metric(model)
    if process is None:
        return 100 * evaluate(model, examples)[name]
    names = {name for names in _OUTPUTS for name in names}
    signatures = signatures_for(process, names, examples.inputs)
    for signature in signatures:
        if signature.takes == "ids":
            return 100 * _from_ids(model, examples, process, signature)[name]
    return 100 * _from_texts(model, examples, process, signatures[0])[name]


def _from_ids(
    model: Any, examples: Any, process: Process, signature: Signature
) -> dict[str, float]:
    def run(batch: dict[str, np.ndarray]) -> Any:
        inputs = signature.inputs(None, filled_up(batch, signature.length))
        return _model_outputs(model, process.run(signature.name, inputs))

    preprocessor = model.preprocessor
    if signature.length is not None and signature.length < preprocessor.sequence_length:
        model.preprocessor = preprocessor.with_length(signature.length)
    try:
        return evaluate(model, examples, batch_size=_BATCH_SIZE, run=run)
    finally:
        model.preprocessor = preprocessor


def _from_texts(
    model: Any, examples: Any, process: Process, signature: Signature
) -> dict[str, float]:
    """Measures an artifact of a classifier that takes texts."""
    if task_of(model) != "classifier":
        raise InputError(
            f"{process.path} takes texts, but the metric of a {type(model).__name__} can be "
            "measured only on an artifact that takes ids."
        )
    job, outputs = job_of(model), []
    for start in range(0, len(examples), _BATCH_SIZE):
        part = examples.take(range(start, min(start + _BATCH_SIZE, len(examples))))
        inputs = signature.inputs(part.inputs, {})
        outputs += [*_model_outputs(model, process.run(signature.name, inputs))]
    return job.measure(model, examples, job.rows(model, examples), outputs)


def _model_outputs(model: Any, outputs: dict[str, np.ndarray]) -> Any:
    """Converts an artifact's named outputs to the form that the model returns."""
    names = next(names for names in _OUTPUTS if set(names) <= set(outputs))
    if len(names) > 1:
        return {name: outputs[name] for name in names}
    (name,) = names
    if name != "scores":
        return outputs[name]
    with np.errstate(divide="ignore"):  # scores in int8 may be 0 or 1
        return _LOGITS[model.problem_type](outputs[name])
