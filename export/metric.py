"""The task's metric of an artifact, by the code that measures the Keras model."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.export.process import Process
from keras_bert.export.ways import Way, filled_up, ways_into
from keras_bert.finetuning.evaluation import evaluate
from keras_bert.finetuning.jobs import MODULES, job_of


def official_metric(model: Any) -> str:
    """The name of the metric that `keras-bert evaluate` prints first for a model.

    Raises:
        InputError: if there is none.
    """
    if not any(kind.__name__ in MODULES for kind in type(model).__mro__):
        raise InputError(
            f"A {type(model).__name__} has no metric on labelled examples; what has is a "
            f"{', '.join(MODULES)}."
        )
    return job_of(model).metrics(model)[0]


def points(model: Any, examples: Any, process: Process | None = None) -> float:
    """The official metric of a model, or of an artifact made of it, in points of 100.

    An artifact's outputs for the rows of the examples go through what turns the model's into
    answers, windows, random field and all.

    Args:
        model: a task with a preprocessor.
        examples: labelled.
        process: in which the artifact runs; None: the model itself is measured.

    Raises:
        InputError: if the model has no metric, something is wrong with the examples, or the
            artifact takes no ids.
        ExportError: if the artifact cannot be run.
    """
    name = official_metric(model)
    if process is None:
        return 100 * evaluate(model, examples)[name]
    way = _way(process)

    def run(batch: dict[str, np.ndarray]) -> Any:
        inputs = way.inputs(None, filled_up(batch, way.length))
        return _as_of_model(process.run(way.signature, inputs))

    with _no_longer_than(model, way.length):
        return 100 * evaluate(model, examples, run=run)[name]


def _way(process: Process) -> Way:
    (way,) = ways_into(process, {"token_ids": ()})
    return way


def _as_of_model(outputs: dict[str, np.ndarray]) -> Any:
    """Outputs by name to what the model returns."""
    single = next((name for name in ("logits", "embedding") if name in outputs), None)
    return outputs if single is None else outputs[single]


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
