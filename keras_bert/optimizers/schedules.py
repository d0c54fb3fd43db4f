"""Learning-rate schedules: a linear warm-up, then a decay, at once or in the last steps."""

import dataclasses
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert")
@dataclasses.dataclass(eq=False)
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 to `peak` in `warmup_steps`, then falls to `final` at `total_steps`.

    With `decay_steps`, the rate stays at the peak until it falls in the last steps: a
    warmup-stable-decay schedule (Hägele et al. 2024, https://arxiv.org/abs/2405.18392).

    As in BERT (section A.2) and its published code, the first step's rate is 0, because Adam's
    first update moves every weight by the whole rate. Without warm-up, the first step's rate is
    `peak`. Subclasses replace the linear decay.

    Args:
        peak: largest learning rate.
        warmup_steps: number of steps until the peak.
        total_steps: number of steps until the final rate.
        final: learning rate from `total_steps` on.
        decay_steps: number of steps of the decay; None means all steps after the warm-up. If the
            decay begins before the warm-up ends, the smaller of both rates counts.

    Example:
        >>> schedule = WarmupLinearDecay(peak=1e-4, warmup_steps=100, total_steps=1000)
        >>> [round(float(schedule(step)), 6) for step in (0, 50, 100, 550, 1000)]
        [0.0, 5e-05, 0.0001, 5e-05, 0.0]
    """

    peak: float
    warmup_steps: int
    total_steps: int
    final: float = 0.0
    decay_steps: int | None = None

    def __call__(self, step: Any) -> Any:
        """Returns the rate of a step, counted from 0, as float32."""
        step = ops.cast(step, "float32")
        rise = step / self.warmup_steps if self.warmup_steps else ops.ones_like(step)
        after_warmup = self.total_steps - self.warmup_steps
        decay_steps = after_warmup if self.decay_steps is None else self.decay_steps
        ahead = (self.total_steps - step) / max(decay_steps, 1)
        height = self.height(ops.clip(ahead, 0.0, 1.0))
        return ops.minimum(
            self.peak * ops.minimum(rise, 1.0), self.final + (self.peak - self.final) * height
        )

    def height(self, ahead: Any) -> Any:
        """Returns the rate in the decay, as a ratio: 1 is the peak, 0 the final rate.

        Args:
            ahead: ratio of the decay's steps that are still ahead, from 1 to 0.
        """
        return ahead

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return dataclasses.asdict(self)


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupCosineDecay(WarmupLinearDecay):
    """Falls like half a period of a cosine (https://arxiv.org/abs/1608.03983, without restarts)."""

    def height(self, ahead: Any) -> Any:
        """Returns 1 to 0, like a cosine between 0 and π."""
        return 0.5 - 0.5 * ops.cos(ahead * 3.141592653589793)


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupSqrtDecay(WarmupLinearDecay):
    """Falls by the square root of the decay's steps: fast at first ("1-sqrt" of Hägele et al.)."""

    def height(self, ahead: Any) -> Any:
        """Returns 1 minus the root of the ratio of the decay's steps that were done."""
        return 1.0 - ops.sqrt(1.0 - ahead)


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupConstant(WarmupLinearDecay):
    """Stays at the peak after warm-up."""

    def height(self, ahead: Any) -> Any:
        """Returns 1 for every step."""
        return ops.ones_like(ahead)


LR_SCHEDULES: dict[str, type[WarmupLinearDecay]] = {
    "linear": WarmupLinearDecay,
    "cosine": WarmupCosineDecay,
    "one_minus_sqrt": WarmupSqrtDecay,
    "constant": WarmupConstant,
}
"""Class of each learning-rate schedule, by name."""
