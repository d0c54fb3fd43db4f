"""Base of the jobs: examples to rows, targets, predictions and metrics."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import Examples


@dataclasses.dataclass(frozen=True)
class PerRow:
    """Targets of rows or, if rows form groups, of groups.

    Args:
        values: a nest of arrays `[E, ...]`, E being rows / `rows.group`.
    """

    values: Any


@dataclasses.dataclass(frozen=True)
class PerToken:
    """Targets of tokens, padded to `[B, T]` as the rows are.

    Args:
        values: int32 `[tokens]`, in the order of `rows.flat`; `layers.crf.IGNORED` at tokens
            without a target.
        mean: "tokens" if the loss of a batch is the mean over tokens with a target, or "rows".
    """

    values: np.ndarray
    mean: str = "tokens"


Targets = PerRow | PerToken


def default_loss(model: Any, recipe: Any) -> Any:
    """Returns the model's own loss.

    Raises:
        InputError: if the recipe smooths labels, which only a classifier of texts can.
    """
    if recipe.label_smoothing:
        raise InputError(
            f"label_smoothing is {recipe.label_smoothing}, but a {type(model).__name__} cannot "
            "smooth labels; leave it at 0."
        )
    return model.default_loss()


def measured_loss(model: Any, targets: np.ndarray, outputs: np.ndarray) -> float:
    """Returns the model's loss of all examples at once."""
    return float(ops.convert_to_numpy(model.default_loss()(targets, outputs)))


def no_weights(model: Any, examples: Any, targets: Targets, recipe: Any) -> np.ndarray | None:
    """Returns None: all examples have the same weight.

    Raises:
        InputError: if the recipe has class weights, which only a classifier of texts can use.
    """
    if recipe.class_weights is not None:
        raise InputError(
            f"class_weights are given, but the classes of a {type(model).__name__} have no "
            "weights; leave them out."
        )
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Functions that train and measure one kind of model.

    Everything that differs between the kinds is here.

    Args:
        examples: class of the examples.
        formats: formats of files that `read` takes.
        read: path and keyword options to examples.
        arguments: training examples, other examples and keyword options to the arguments of the
            model's constructor.
        keeps_head: whether a head that was trained before is trained on.
        rows: model and N examples to `Rows`, for training, evaluation and prediction alike.
        targets: model, examples and rows to the targets of the loss. An InputError names file
            and line.
        predict: model, examples, rows and outputs of `model.predict_rows` to one dictionary for
            each example, ready for JSON.
        measure: model, examples, rows and outputs to metrics by name, and `loss` if it is known.
        metrics: model to the names of its metrics. The larger, the better. The first one chooses
            the best epoch.
        loss: model and recipe to the loss of `compile`, or None if the model has its own.
        weights: model, training examples, targets and recipe to the weight of each element in the
            loss, float32 `[E]`, or None. An InputError says that nothing can be learned.
    """

    examples: type[Examples]
    formats: tuple[str, ...]
    read: Callable[..., Any]
    arguments: Callable[..., dict[str, Any]]
    keeps_head: bool = False
    rows: Callable[[Any, Any], Any]
    targets: Callable[[Any, Any, Any], Targets]
    predict: Callable[[Any, Any, Any, Any], list[dict[str, Any]]]
    measure: Callable[[Any, Any, Any, Any], dict[str, float]]
    metrics: Callable[[Any], tuple[str, ...]]
    loss: Callable[[Any, Any], Any] = default_loss
    weights: Callable[[Any, Any, Targets, Any], np.ndarray | None] = no_weights
