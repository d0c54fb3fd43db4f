"""Losses as sums, so that parts of a batch add up to the whole batch, on any backend of Keras.

Each loss function returns loss, right predictions and predictions, `[3]` float32.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from keras import ops

Sums: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossTerm:
    """A loss that is a sum over predictions, and its entries in the log.

    Args:
        name: name in the log.
        sums: function from (outputs, labels, weights), each by key, to loss, right predictions and
            predictions.
        key: key of the term's weights and labels in a batch.
        over: unit of prediction: "predictions" (masked tokens), "tokens" (all but padding) or
            "examples".
        labelled: whether a batch has labels of this term.
        weight: weight in the total loss; 0 for a term without a key, which is only logged.
        accuracy: whether the accuracy is logged.
        perplexity: whether the perplexity is logged, for a loss of a language model.
        part: part of the model that the loss trains, if the final model does not have it.
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
    """Sums the cross-entropy of classes.

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
    """Sums the binary cross-entropy.

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
    of the gradients. No prediction counts as right.

    Args:
        logits: `[..., C]` float32.
        teacher_logits: `[..., C]` float32.
        weights: `[...]` float32.
        temperature: divisor of both logits.
    """
    student = ops.log_softmax(logits / temperature, axis=-1)
    teacher = ops.log_softmax(teacher_logits / temperature, axis=-1)
    losses = ops.sum(ops.exp(teacher) * (teacher - student), axis=-1) * temperature**2
    return _sums(losses, ops.zeros_like(losses), weights)


def cosine(states: Any, teacher_states: Any, weights: Any) -> Any:
    """Sums 1 - cosine of two vectors; no prediction counts as right.

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


def by_key(loss_terms: Sequence[LossTerm], values: Any) -> Mapping[str, Any]:
    """Returns values by key; a model or dataset with one term has its values without a key."""
    return values if isinstance(values, Mapping) else {loss_terms[0].key: values}


def count_predictions(loss_terms: Sequence[LossTerm], w: Any) -> Any:
    """Counts the predictions of each term, `[loss_terms]` float32; 1 for a term without a key."""
    weights = by_key(loss_terms, w)
    return ops.stack(
        [ops.sum(weights[term.key]) if term.key else ops.ones(()) for term in loss_terms]
    )


def loss_factors(loss_terms: Sequence[LossTerm], counts: Any) -> Any:
    """Returns the factors of the sums of losses in the total loss, `[loss_terms]` float32.

    Args:
        loss_terms: loss terms of the objective.
        counts: `count_predictions` of the whole batch.
    """
    weights = ops.convert_to_tensor([term.weight for term in loss_terms], "float32")
    return weights / ops.maximum(counts, 1.0)


def sum_losses(loss_terms: Sequence[LossTerm], outputs: Any, y: Any, w: Any) -> Any:
    """Returns loss, right predictions and predictions of each term, `[loss_terms, 3]` float32."""
    outputs, y, w = (by_key(loss_terms, values) for values in (outputs, y, w))
    return ops.stack([term.sums(outputs, y, w) for term in loss_terms])
