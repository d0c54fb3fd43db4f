"""How an optimizer changes one weight: pure functions, on any backend of Keras."""

from typing import Any, NamedTuple

from keras import ops


class Weight(NamedTuple):
    """A weight and its moments, three arrays of one shape."""

    value: Any
    momentum: Any
    velocity: Any


class Update(NamedTuple):
    """What is the same for all weights in an update.

    Attributes:
        rate: learning rate, scalar.
        powers: of `betas`, for the number of this update, counted from 1.
        betas: of the moments.
        epsilon: beside the root of the corrected second moment.
    """

    rate: Any
    powers: tuple[Any, Any]
    betas: tuple[float, float]
    epsilon: float


def adamw(weight: Weight, gradient: Any, decay: float | None, update: Update) -> Weight:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017, arXiv 1711.05101, algorithm 2).

    Args:
        weight: before the update.
        gradient: of the loss, as long as the weight.
        decay: per unit of learning rate; None for a weight that does not decay.
        update: what else is needed.
    """
    moments, direction = _adam(weight, gradient, update)
    kept = weight.value * (1 - update.rate * decay) if decay else weight.value
    return Weight(kept - update.rate * direction, *moments)


def lamb(weight: Weight, gradient: Any, decay: float | None, update: Update) -> Weight:
    """Adam with steps as long as the weight (You et al. 2019, arXiv 1904.00962, algorithm 2).

    Arguments are those of `adamw`. As in the authors' code, a weight that does not decay is
    updated as by Adam.
    """
    moments, direction = _adam(weight, gradient, update)
    if decay is not None:
        direction += decay * weight.value
        ratio = ops.divide_no_nan(_length(weight.value), _length(direction))
        direction *= ops.where(ratio > 0, ratio, 1.0)
    return Weight(weight.value - update.rate * direction, *moments)


def _adam(weight: Weight, gradient: Any, update: Update) -> tuple[tuple[Any, Any], Any]:
    """The new moments, and Adam's direction."""
    beta_1, beta_2 = update.betas
    momentum = beta_1 * weight.momentum + (1 - beta_1) * gradient
    velocity = beta_2 * weight.velocity + (1 - beta_2) * ops.square(gradient)
    mean, square = momentum / (1 - update.powers[0]), velocity / (1 - update.powers[1])
    return (momentum, velocity), mean / (ops.sqrt(square) + update.epsilon)


def _length(x: Any) -> Any:
    return ops.sqrt(ops.sum(ops.square(x)))
