"""Penalties that are added to the loss."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_bert.errors import InputError


@contextlib.contextmanager
def r_drop(model: Any, weight: float) -> Iterator[None]:
    """Makes `fit` minimize the loss of R-Drop while the `with` block runs.

    Liang et al. 2021 (https://arxiv.org/abs/2106.14448), section 2.2. Every batch goes through
    the model twice, with different dropout. The loss is the mean of the two losses plus `weight`
    times the mean of the divergences KL(1 ‖ 2) and KL(2 ‖ 1), as in the authors' code. (The paper
    adds the two losses.) If the weight is 0, nothing changes.

    Raises:
        InputError: if the model's outputs are not distributions over labels.
    """
    if not weight:
        yield
        return
    losses = keras.tree.flatten(model.default_loss())
    if not all(isinstance(loss, keras.losses.SparseCategoricalCrossentropy) for loss in losses):
        raise InputError(
            f"r_drop is {weight}, but R-Drop needs a model that predicts one of several labels, "
            f"which this {type(model).__name__} does not; leave r_drop at 0."
        )
    single = model.compute_loss

    def compute_loss(
        x: Any, y: Any, y_pred: Any, sample_weight: Any = None, training: bool = True
    ) -> Any:
        loss = single(x, y, y_pred, sample_weight, training=training)
        if not training:
            return loss
        second = model(x, training=True)
        loss = (loss + single(x, y, second, sample_weight, training=training)) / 2
        outputs = zip(*map(keras.tree.flatten, (y, y_pred, second)), strict=True)
        divergences = [_divergence(*output, weights=sample_weight) for output in outputs]
        divergence = sum(divergences) / len(divergences)
        return loss + weight / 2 * divergence / model.distribute_strategy.num_replicas_in_sync

    model.compute_loss = compute_loss
    try:
        yield
    finally:
        del model.compute_loss


def symmetric_divergence(first: Any, second: Any) -> Any:
    """Returns KL(p ‖ q) + KL(q ‖ p), float32 `[...]`, of the softmax of logits `[..., L]`."""
    log_p, log_q = (ops.log_softmax(ops.cast(x, "float32")) for x in (first, second))
    return ops.sum((ops.exp(log_p) - ops.exp(log_q)) * (log_p - log_q), axis=-1)


def _divergence(targets: Any, first: Any, second: Any, weights: Any) -> Any:
    """Returns the mean over targets `[B]` or `[B, T]`, without negative targets."""
    counted = ops.cast(targets >= 0, "float32")
    values = symmetric_divergence(first, second) * counted
    if weights is not None:
        values = values * weights
    return ops.sum(values) / ops.maximum(ops.sum(counted), 1.0)
