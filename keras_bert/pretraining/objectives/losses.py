"""Losses as sums, so that parts of a batch add up to the whole.

Each returns loss, right predictions and predictions, `[3]` float32, and is written with `keras.ops`
alone.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from keras import ops

Sums: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossTerm:
    """A loss that is a sum over predictions, and how it is told.

    Args:
        name: in the log.
        sums: (outputs, labels, weights), each by key, to loss, right predictions and predictions.
        key: of this term's weights in a batch, and of its labels.
        over: what is predicted: "predictions" (masked tokens), "tokens" (all but padding) or
            "examples".
        labelled: whether a batch holds labels for it.
        weight: in the total loss; 0 for a term that is only watched, which has no key.
        accuracy: whether right predictions are counted.
        perplexity: whether it is that of a language, so that its perplexity is told.
        part: of the model that it is the loss of, if that is not among what is kept.
    """

    name: str
    sums: Sums
    key: str = ""
    over: str = "predictions"
    labelled: bool = False
    weight: float = 0.0
    accuracy: bool = True
    perplexity: bool = False
    part: str = ""


def cross_entropy(logits: Any, labels: Any, weights: Any) -> Any:
    """Of classes.

    Args:
        logits: `[..., C]` float32.
        labels: `[...]` int32.
        weights: `[...]` float32.
    """
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    # The label has the largest logit: cheaper than the argmax of a vocabulary.
    fixed = ops.stop_gradient(logits)
    own = ops.squeeze(ops.take_along_axis(fixed, ops.expand_dims(labels, -1), axis=-1), -1)
    return _sums(losses, own >= ops.max(fixed, axis=-1), weights)


def binary_cross_entropy(logits: Any, labels: Any, weights: Any) -> Any:
    """Of yes and no.

    Args:
        logits: `[...]` float32, positive for yes.
        labels: `[...]` int32, 1 for yes.
        weights: `[...]` float32.
    """
    losses = ops.softplus(logits) - logits * ops.cast(labels, "float32")
    return _sums(losses, ops.equal(logits > 0, labels > 0), weights)


def soft_targets(logits: Any, teacher_logits: Any, weights: Any, temperature: float) -> Any:
    """Kullback-Leibler divergence from the teacher's distribution, both softened.

    Hinton et al. 2015, https://arxiv.org/abs/1503.02531: the factor temperature² keeps the size
    of the gradients. Nothing counts as right.

    Args:
        logits: `[..., C]` float32.
        teacher_logits: `[..., C]` float32.
        weights: `[...]` float32.
        temperature: by which both logits are divided.
    """
    ours = ops.log_softmax(logits / temperature, axis=-1)
    theirs = ops.log_softmax(teacher_logits / temperature, axis=-1)
    losses = ops.sum(ops.exp(theirs) * (theirs - ours), axis=-1) * temperature**2
    return _sums(losses, ops.zeros_like(losses), weights)


def cosine(states: Any, teacher_states: Any, weights: Any) -> Any:
    """1 - cosine of two vectors; nothing counts as right.

    Args:
        states: `[..., H]`.
        teacher_states: `[..., H]`.
        weights: `[...]` float32.
    """
    states, teacher_states = (ops.cast(x, "float32") for x in (states, teacher_states))
    product = ops.sum(states * teacher_states, axis=-1)
    squares = ops.sum(states**2, axis=-1) * ops.sum(teacher_states**2, axis=-1)
    losses = 1.0 - product * ops.rsqrt(ops.maximum(squares, 1e-16))
    return _sums(losses, ops.zeros_like(losses), weights)


def _sums(losses: Any, right: Any, weights: Any) -> Any:
    right = ops.cast(right, "float32")
    return ops.stack([ops.sum(losses * weights), ops.sum(right * weights), ops.sum(weights)])
