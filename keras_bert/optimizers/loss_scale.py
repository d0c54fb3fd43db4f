"""Dynamic loss scale for float16: a factor of the loss, so that small gradients do not become 0."""

import tensorflow as tf

INITIAL = 2.0**15
LEAST = 1.0
"""Smallest scale. If a gradient overflows with this scale, no scale helps."""
PATIENCE = 2000


class LossScale:
    """Scale that is halved if a gradient overflows, and doubled after many finite steps.

    Micikevicius et al. 2017 (https://arxiv.org/abs/1710.03740, section 3.2).

    Args:
        initial: first scale, a power of two.
        patience: number of steps without an overflow until the scale is doubled.
    """

    def __init__(self, initial: float = INITIAL, patience: int = PATIENCE):
        self.patience = patience
        self.value = tf.Variable(initial, trainable=False, name="loss_scale")
        self.finite = tf.Variable(0.0, trainable=False, name="finite_steps")
        self.skipped = tf.Variable(0.0, trainable=False, name="skipped_steps")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables to save in a checkpoint, by name: float32 scalars."""
        return {
            "loss_scale/value": self.value,
            "loss_scale/finite": self.finite,
            "loss_scale/skipped": self.skipped,
        }

    @property
    def measures(self) -> dict[str, float]:
        """Values to log, by name."""
        return {
            "loss_scale": float(self.value.numpy()),
            "skipped_steps": float(self.skipped.numpy()),
        }

    def update(self, strategy: tf.distribute.Strategy, finite: tf.Tensor) -> None:
        """Updates the scale after a step.

        Args:
            strategy: the strategy that made the variables.
            finite: whether all gradients of the step were finite, a bool scalar.
        """
        value, steps = self.value.read_value(), self.finite.read_value() + 1
        double = steps >= self.patience
        fine = (tf.where(double, 2 * value, value), tf.where(double, 0.0, steps))
        overflown = (tf.maximum(value / 2, LEAST), tf.zeros([]))
        value, steps = (tf.where(finite, *pair) for pair in zip(fine, overflown, strict=True))
        skipped = self.skipped.read_value() + tf.cast(~finite, tf.float32)
        news = ((self.value, value), (self.finite, steps), (self.skipped, skipped))
        for variable, new in news:
            strategy.extended.update(
                variable, lambda v, new: v.assign(new), args=(new,), group=False
            )
