"""What stands around a head: examples to rows, targets, predictions and metrics."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_bert.errors import InputError


@dataclasses.dataclass(frozen=True)
class PerRow:
    """Targets of rows or, where rows form groups, of groups.

    Args:
        values: a nest of arrays `[E, ...]`, E being rows / `rows.group`.
    """

    values: Any


@dataclasses.dataclass(frozen=True)
class PerToken:
    """Targets of tokens, padded to `[B, T]` as the rows are; `layers.crf.IGNORED` is none.

    Args:
        values: int32 `[tokens]`, one after the other as in `rows.flat`.
        mean: what the loss of a batch is the mean over: "tokens" that have a target, or "rows".
    """

    values: np.ndarray
    mean: str = "tokens"


Targets = PerRow | PerToken


def default_loss(model: Any, recipe: Any) -> Any:
    """The model's own loss.

    Raises:
        InputError: if the recipe smooths labels, which only a classifier of texts can.
    """
    if recipe.label_smoothing:
        raise InputError(
            f"label_smoothing is {recipe.label_smoothing}, but a {type(model).__name__} cannot "
            "smooth labels; leave it at 0."
        )
    return model.default_loss()


def measured_loss(model: Any, targets: Any, outputs: Any) -> float:
    """The model's own loss of all examples at once."""
    return float(ops.convert_to_numpy(model.default_loss()(targets, outputs)))


def no_weights(model: Any, examples: Any, targets: Targets, recipe: Any) -> np.ndarray | None:
    """None: all examples count the same.

    Raises:
        InputError: if the recipe has class weights, which only a classifier of texts can use.
    """
    if recipe.class_weights is not None:
        raise InputError(
            f"class_weights are given, but the classes of a {type(model).__name__} have no "
            "weights; leave them out."
        )
    return None


@dataclasses.dataclass(frozen=True)
class Job:
    """How one kind of model is trained and measured; all that differs between the kinds.

    Args:
        rows: model and N examples to `Rows`, for training, evaluation and prediction alike.
        targets: model, examples, rows to what the loss takes; InputError names file and line.
        predict: model, examples, rows, outputs (of `model.predict_rows`) to one dictionary per
            example, ready for JSON.
        measure: model, examples, rows, outputs to metrics by name, and `loss` where it is known.
        metrics: the names of a model's metrics; the larger, the better; the first chooses the
            best epoch.
        loss: model and recipe to the loss of `compile`; None where the model has its own.
        weights: model, examples to learn from, targets, recipe to the weight of each element in
            the loss, float32 `[E]`, or None; InputError if nothing can be learned from these.
    """

    rows: Callable[[Any, Any], Any]
    targets: Callable[[Any, Any, Any], Targets]
    predict: Callable[[Any, Any, Any, Any], list[dict[str, Any]]]
    measure: Callable[[Any, Any, Any, Any], dict[str, float]]
    metrics: Callable[[Any], tuple[str, ...]]
    loss: Callable[[Any, Any], Any] = default_loss
    weights: Callable[[Any, Any, Targets, Any], np.ndarray | None] = no_weights
