"""Losses as sums over predictions, for any backend of Keras.

If a batch is divided into parts, the sums of the parts add up to the sum of the whole batch. Each
loss function returns `[3]` float32: the loss, the number of right predictions, and the number of
predictions.
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
        sums: function of three dictionaries: outputs, labels and weights. Returns the loss, the
            number of right predictions and the number of predictions.
        key: key of the term's weights and labels in a batch.
        over: unit of prediction: "predictions" (masked tokens), "tokens" (all but padding) or
            "examples".
        labeled: whether a batch has labels for this term.
        weight: weight in the total loss. A term without a key has weight 0 and is only logged.
        accuracy: whether the accuracy is logged.
        perplexity: whether the perplexity is logged. Only for the loss of a language model.
        part: "" if the loss trains the final model. Otherwise, the part that it trains and that the
            final model does not have, such as "generator".
    """

    name: str
    sums: Sums
    key: str = ""
    over: str = "predictions"
    labeled: bool = False
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
    # A prediction is right if the label has the largest logit. This is cheaper than an argmax.
    fixed = ops.stop_gradient(logits)
    own = ops.squeeze(ops.take_along_axis(fixed, ops.expand_dims(labels, -1), axis=-1), -1)
    return _sums(losses, own >= ops.max(fixed, axis=-1), weights)


def binary_cross_entropy(logits: Any, labels: Any, weights: Any) -> Any:
    """Sums the binary cross-entropy.

    Args:
        logits: `[...]` float32. A positive logit predicts yes.
        labels: `[...]` int32, 1 for yes.
        weights: `[...]` float32.
    """
    losses = ops.softplus(logits) - logits * ops.cast(labels, "float32")
    return _sums(losses, ops.equal(logits > 0, labels > 0), weights)


def soft_targets(logits: Any, teacher_logits: Any, weights: Any, temperature: float) -> Any:
    """Sums the Kullback-Leibler divergences between the softened distributions of both models.

    Hinton et al. 2015, https://arxiv.org/abs/1503.02531. The factor temperature² keeps the scale
    of the gradients. The number of right predictions is always 0.

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
    """Sums 1 - cosine of two vectors. The number of right predictions is always 0.

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
    """Returns values by key. If there is only one term, a model or dataset gives no keys."""
    return values if isinstance(values, Mapping) else {loss_terms[0].key: values}


def count_predictions(loss_terms: Sequence[LossTerm], w: Any) -> Any:
    """Counts each term's predictions, `[loss_terms]` float32; 1 for a term without a key."""
    weights = by_key(loss_terms, w)
    return ops.stack(
        [ops.sum(weights[term.key]) if term.key else ops.ones(()) for term in loss_terms]
    )


def loss_factors(loss_terms: Sequence[LossTerm], counts: Any) -> Any:
    """Returns the factor of each term's sum in the total loss, `[loss_terms]` float32.

    Args:
        loss_terms: loss terms of the objective.
        counts: result of `count_predictions` for the whole batch.
    """
    weights = ops.convert_to_tensor([term.weight for term in loss_terms], "float32")
    return weights / ops.maximum(counts, 1.0)


def sum_losses(loss_terms: Sequence[LossTerm], outputs: Any, y: Any, w: Any) -> Any:
    """Returns loss, right predictions and predictions of each term, `[loss_terms, 3]` float32."""
    outputs, y, w = (by_key(loss_terms, values) for values in (outputs, y, w))
    return ops.stack([term.sums(outputs, y, w) for term in loss_terms])
