"""Accuracy check: writes an artifact unless the metric drops by more than chance allows."""

import dataclasses
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.export._verify.signatures import Signature, signatures_for
from keras_bert.export.artifact_checks import ExportError
from keras_bert.export.formats import FORMATS, SAVED_MODEL, versioned
from keras_bert.export.process import Process, running
from keras_bert.export.signatures import filled_up
from keras_bert.finetuning.evaluation import outputs_of, right_examples
from keras_bert.finetuning.jobs import Job, job_of
from keras_bert.tasks.registry import FINE_TUNED, class_names, task_of
from keras_bert.text.rows import Rows

SIGNIFICANCE = 0.05
"""Largest probability of a drop by chance at which a file is refused."""


@dataclasses.dataclass(frozen=True)
class AccuracyCheck:
    """The metric of an artifact and of the Keras model. `str` returns both in one sentence.

    Args:
        metric: name of the metric.
        model: the Keras model's metric, in points of 100.
        artifact: the artifact's metric, in points of 100.
        examples: number of examples that the metric was measured on.
        lost: number of examples whose labels are right in the model and wrong in the file. None
            if the model does not give each text one label.
        gained: number of examples whose labels are wrong in the model and right in the file.
    """

    metric: str
    model: float
    artifact: float
    examples: int
    lost: int | None = None
    gained: int | None = None

    @property
    def drop(self) -> float:
        """Number of points that the file lost; negative if the file is better than the model."""
        return self.model - self.artifact

    @property
    def p_value(self) -> float | None:
        """Probability that a file which is as good as the model loses as many labels by chance.

        McNemar's test (1947), exact and one-sided: it looks only at examples that are right in
        either the model or the file. None if the model does not give each text one label.
        """
        if self.lost is None or self.gained is None:
            return None
        differ = self.lost + self.gained
        as_many = sum(math.comb(differ, lost) for lost in range(self.lost, differ + 1))
        return as_many / 2**differ

    def is_within(self, max_drop: float) -> bool:
        """Returns whether the drop is at most `max_drop`, or may be chance."""
        return self.drop <= max_drop or (self.p_value or 0.0) > SIGNIFICANCE

    def __str__(self) -> str:
        found = (
            f"{self.metric} {self.artifact:.2f} of 100, Keras {self.model:.2f}, on "
            f"{self.examples:,} examples"
        )
        if self.p_value is None:
            return found
        return f"{found} ({self.lost} lost, {self.gained} gained, p = {self.p_value:.2g})"


def check_accuracy(
    model: keras.Model,
    path: str | os.PathLike,
    examples: Any,
    max_drop: float = 0.5,
    **options: Any,
) -> AccuracyCheck:
    """Writes an artifact, usually a quantized one, if the task's metric stays within a limit.

    If the model gives each text one label, a larger drop is refused only if it is significant: if
    `AccuracyCheck.p_value` is at most 0.05. So three of 500 examples are no reason to refuse a
    file. No loss of fewer than five examples is significant, so give some hundred examples.

    The file runs in its own runtime, in a separate process. `keras_bert.finetuning.evaluate`
    computes both metrics, from the outputs of the file and of the model.

    Args:
        model: a task that has a metric.
        path: the artifact, replaced if it exists: a file that ends in `.tflite` or `.onnx`, or, for
            a SavedModel, a directory with another name.
        examples: labeled examples, as `keras_bert.finetuning` reads them.
        max_drop: largest difference between the model's metric and the file's, in points of 100.
        **options: arguments of `export.tflite`, `export.onnx` or `export.saved_model`, such as
            `quantize` and `dtype`.

    Returns:
        The metric of the model and of the file.

    Raises:
        InputError: if an argument is not possible, or the model has no metric.
        ExportError: if the drop is larger and significant, or the file does not run. Then nothing
            is written.

    Example:
        >>> examples = finetuning.read("classifier", "test.csv")
        >>> check = export.check_accuracy(model, "model.onnx", examples, quantize="dynamic")
        >>> print(check)
        accuracy 91.20 of 100, Keras 91.40, on 500 examples (3 lost, 2 gained, p = 0.5)
    """
    metric = official_metric(model)
    files = {each.ending: each for each in FORMATS.values() if each.ending}
    format = files.get(Path(path).suffix, SAVED_MODEL)
    if format is SAVED_MODEL and "quantize" in options:
        raise InputError(
            f"The path is {path}, but a quantized file must end in {' or '.join(files)}."
        )
    format.check_arguments(model, **options)
    target = versioned(path, options.pop("version", None))
    if not max_drop >= 0:
        raise InputError(f"max_drop is {max_drop}, but must be 0 points or more.")
    expected = measured(model, examples)
    if math.isnan(expected.points):
        raise InputError(
            f"On {examples.path}, {metric} of the model is not a number, so no file can be "
            "compared with it; give more examples, with different labels."
        )
    with replacing(target, owned=format.earlier) as scratch:
        # TensorFlow Serving's warm-up requests hold the names of the directories.
        place = Path(os.path.abspath(target))
        candidate = scratch.with_name("candidate") / place.parent.name / place.name
        format.write(model, candidate, **options)
        with running(candidate) as process:
            found = measured(model, examples, process)
        check = AccuracyCheck(metric, expected.points, found.points, len(examples))
        if expected.right is not None and found.right is not None:
            lost = int((expected.right & ~found.right).sum())
            gained = int((found.right & ~expected.right).sum())
            check = dataclasses.replace(check, lost=lost, gained=gained)
        if not check.is_within(max_drop):
            raise ExportError(
                f"{target} is refused: {check} of {examples.path}, a drop of "
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


class Measured(NamedTuple):
    """The `official_metric` of a model or artifact, and the examples that it gets right."""

    points: float
    """The metric in points of 100."""
    right: np.ndarray | None
    """Whether an example's label is right, bool `[N]`. None without one label for each text."""


def measured(model: Any, examples: Any, process: Process | None = None) -> Measured:
    """Measures a model or its artifact on labeled examples.

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
        job, rows, outputs = outputs_of(model, examples, _BATCH_SIZE, labeled=True)
    else:
        names = {name for names in _OUTPUTS for name in names}
        signatures = signatures_for(process, names, examples.inputs)
        of_ids = next((each for each in signatures if each.takes == "ids"), None)
        job, rows, outputs = (
            _from_texts(model, examples, process, signatures[0])
            if of_ids is None
            else _from_ids(model, examples, process, of_ids)
        )
    points = 100 * job.measure(model, examples, rows, outputs)[name]
    # McNemar's test excuses a drop of the metric only if both count the same examples.
    if name != "accuracy" or task_of(model) != "classifier":
        return Measured(points, None)
    return Measured(
        points, right_examples(model, examples, job.predict(model, examples, rows, outputs))
    )


def _from_ids(
    model: Any, examples: Any, process: Process, signature: Signature
) -> tuple[Job, Rows, Any]:
    def run(batch: dict[str, np.ndarray]) -> Any:
        inputs = signature.inputs(None, filled_up(batch, signature.length))
        return _model_outputs(model, process.run(signature.name, inputs))

    preprocessor = model.preprocessor
    if signature.length is not None and signature.length < preprocessor.sequence_length:
        model.preprocessor = preprocessor.with_length(signature.length)
    try:
        return outputs_of(model, examples, _BATCH_SIZE, labeled=True, run=run)
    finally:
        model.preprocessor = preprocessor


def _from_texts(
    model: Any, examples: Any, process: Process, signature: Signature
) -> tuple[Job, Rows, Any]:
    """Runs an artifact of a classifier that takes texts."""
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
    return job, job.rows(model, examples), outputs


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
