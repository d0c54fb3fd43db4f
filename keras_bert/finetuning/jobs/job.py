"""Class of the jobs, which convert examples to rows, targets, predictions and metrics."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import Examples


@dataclasses.dataclass(frozen=True)
class PerRow:
    """One target for each row or, if rows form groups, for each group.

    Args:
        values: an array `[E, ...]` or a nested structure of arrays. E is the number of rows divided
            by `rows.group`.
    """

    values: Any


@dataclasses.dataclass(frozen=True)
class PerToken:
    """One target for each token. `batching.batches` pads targets and rows to `[B, T]`.

    Args:
        values: int32 `[tokens]`, in the order of `rows.flat`. A token without a target has the
            value `layers.crf.IGNORED`.
        mean: "tokens" if the loss of a batch is the mean over tokens with a target, "rows" if it
            is the mean over rows.
    """

    values: np.ndarray
    mean: str = "tokens"


Targets = PerRow | PerToken


def default_loss(model: Any, recipe: Any) -> Any:
    """Returns the model's own loss.

    Raises:
        InputError: if the recipe smooths labels. Only a classifier of texts can smooth labels.
    """
    if recipe.label_smoothing:
        raise InputError(
            f"label_smoothing is {recipe.label_smoothing}, but a {type(model).__name__} cannot "
            "smooth labels; leave label_smoothing at 0."
        )
    return model.default_loss()


def measured_loss(model: Any, targets: np.ndarray, outputs: np.ndarray) -> float:
    """Returns the model's loss, computed on all examples at once."""
    return float(ops.convert_to_numpy(model.default_loss()(targets, outputs)))


def no_weights(model: Any, examples: Any, targets: Targets, recipe: Any) -> np.ndarray | None:
    """Returns None: all examples have the same weight.

    Raises:
        InputError: if the recipe has class weights. Only a classifier of texts can use them.
    """
    if recipe.class_weights is not None:
        raise InputError(
            f"class_weights are given, but the classes of a {type(model).__name__} have no "
            "weights; leave them out."
        )
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Functions that train and measure the models of one task.

    Everything that differs between tasks is here. For a field that is a function, the list below
    shows the function's arguments and its result.

    Args:
        examples: class of the examples.
        formats: file formats that `read` knows.
        read: `(path, **options)`. Returns examples.
        arguments: `(train, *others, **options)`. Returns arguments for the model's constructor,
            from the training examples, the other examples and the options.
        keeps_head: whether a head that was trained before is kept and trained further.
        texts: `(examples)`. Returns the texts of the rows, as an argument of a `Preprocessor`.
        rows: `(model, examples)`. Returns `Rows` for training, evaluation and prediction.
        targets: `(model, examples, rows)`. Returns the targets of the loss. If a label is wrong,
            raises an InputError that names file and line.
        predict: `(model, examples, rows, outputs)`, with the outputs of `model.predict_rows`.
            Returns one dictionary for each example, ready for JSON. The job of classification
            also takes `top_k`.
        measure: `(model, examples, rows, outputs)`. Returns metrics by name, and `loss` if it is
            known.
        metrics: `(model)`. Returns the names of the metrics. A larger value is better. By default,
            the first metric chooses the best epoch.
        loss: `(model, recipe)`. Returns the loss for `compile`, or None if the model has its own.
        weights: `(model, train, targets, recipe)`. Returns the weight of each element in the
            loss, float32 `[E]`, or None. If nothing can be learned, raises an InputError.
    """

    examples: type[Examples]
    formats: tuple[str, ...]
    read: Callable[..., Any]
    arguments: Callable[..., dict[str, Any]]
    keeps_head: bool = False
    texts: Callable[[Any], Any] = lambda examples: examples.inputs
    rows: Callable[[Any, Any], Any]
    targets: Callable[[Any, Any, Any], Targets]
    predict: Callable[..., list[dict[str, Any]]]
    measure: Callable[[Any, Any, Any, Any], dict[str, float]]
    metrics: Callable[[Any], tuple[str, ...]]
    loss: Callable[[Any, Any], Any] = default_loss
    weights: Callable[[Any, Any, Targets, Any], np.ndarray | None] = no_weights
