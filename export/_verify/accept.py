"""Quantization with a conscience: a file gets its name if the task's metric bears it."""

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import keras

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.export._onnx.convert import onnx
from keras_bert.export._tflite.convert import tflite
from keras_bert.export._verify.metric import official_metric, points
from keras_bert.export.check import ExportError
from keras_bert.export.process import running

WRITERS = {".tflite": tflite, ".onnx": onnx}
"""Ending of a file's name to what writes it."""


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
    if path.suffix not in WRITERS:
        raise InputError(f"{path} is no file to be judged: let it end in {' or '.join(WRITERS)}.")
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
        WRITERS[path.suffix](model, candidate, **options)
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
