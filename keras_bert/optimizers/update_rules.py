"""Updates of one weight by each optimizer, as pure functions for every backend of Keras."""

from typing import Any, NamedTuple

from keras import ops

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-6
"""Constants of BERT's authors (section A.2, and optimization.py in their code)."""

NOT_DECAYED = ("bias", "layer_norm")
"""A weight has no weight decay if its name contains one of these."""


def decays(name: str) -> bool:
    """Returns whether weight decay applies to the weight with this name."""
    return not any(part in name for part in NOT_DECAYED)


def clip_factor(norm: Any, global_clipnorm: float) -> Any:
    """Returns the factor that scales a gradient with this norm to at most `global_clipnorm`."""
    return global_clipnorm / ops.maximum(norm, global_clipnorm)


class Weight(NamedTuple):
    """A weight and its two moments, three arrays of the same shape."""

    value: Any
    momentum: Any
    velocity: Any


class Update(NamedTuple):
    """Numbers of an update that are the same for all weights.

    Attributes:
        rate: learning rate, scalar.
        powers: each of `betas` to the power n in the n-th update.
        betas: decay rates of the moments.
        epsilon: number added to the root of the corrected second moment.
    """

    rate: Any
    powers: tuple[Any, Any]
    betas: tuple[float, float]
    epsilon: float

    @classmethod
    def number(cls, count: Any, rate: Any, betas: tuple[float, float], epsilon: float) -> "Update":
        """Makes the numbers of the update `count`, a float counted from 1."""
        return cls(rate, (betas[0] ** count, betas[1] ** count), betas, epsilon)


def adamw(weight: Weight, gradient: Any, decay: float | None, update: Update) -> Weight:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017, arXiv 1711.05101, algorithm 2).

    Args:
        weight: the weight before the update.
        gradient: gradient of the loss, in the weight's shape.
        decay: weight decay, multiplied by the learning rate; None for a weight without decay.
        update: numbers of the update.
    """
    moments, direction = _adam(weight, gradient, update)
    decayed = weight.value * (1 - update.rate * decay) if decay else weight.value
    return Weight(decayed - update.rate * direction, *moments)


def stable_adamw(weight: Weight, gradient: Any, decay: float | None, update: Update) -> Weight:
    """AdamW with clipped updates (Wortsman et al. 2023, https://arxiv.org/abs/2304.13013, alg. 2).

    The arguments are those of `adamw`.
    """
    return adamw(weight, gradient, decay, clip_rate(weight.velocity, gradient, update))


def clip_rate(velocity: Any, gradient: Any, update: Update) -> Update:
    """Returns the update of one weight with the learning rate of StableAdamW.

    The learning rate is divided by the root mean square of the gradient's ratio to the root of the
    corrected second moment, if that is above 1. So a second moment that lags behind sudden large
    gradients does not cause a large step.

    Args:
        velocity: second moment before the update.
        gradient: gradient of the loss, in the shape of `velocity`.
        update: numbers of the update.
    """
    gradient = ops.square(gradient)
    square = update.betas[1] * velocity + (1 - update.betas[1]) * gradient
    ratio = gradient / ops.maximum(square / (1 - update.powers[1]), update.epsilon**2)
    return update._replace(rate=update.rate / ops.maximum(ops.sqrt(ops.mean(ratio)), 1.0))


def lamb(weight: Weight, gradient: Any, decay: float | None, update: Update) -> Weight:
    """Adam with a step scaled by the weight's norm (You et al. 2019, arXiv 1904.00962, alg. 2).

    The arguments are those of `adamw`. As in the authors' code, a weight without decay gets Adam's
    update.
    """
    moments, direction = _adam(weight, gradient, update)
    if decay is not None:
        direction += decay * weight.value
        ratio = ops.divide_no_nan(_length(weight.value), _length(direction))
        direction *= ops.where(ratio > 0, ratio, 1.0)
    return Weight(weight.value - update.rate * direction, *moments)


def _adam(weight: Weight, gradient: Any, update: Update) -> tuple[tuple[Any, Any], Any]:
    """Returns the new moments, and the direction of Adam's step."""
    beta_1, beta_2 = update.betas
    momentum = beta_1 * weight.momentum + (1 - beta_1) * gradient
    velocity = beta_2 * weight.velocity + (1 - beta_2) * ops.square(gradient)
    mean, square = momentum / (1 - update.powers[0]), velocity / (1 - update.powers[1])
    return (momentum, velocity), mean / (ops.sqrt(square) + update.epsilon)


def _length(x: Any) -> Any:
    return ops.sqrt(ops.sum(ops.square(x)))
