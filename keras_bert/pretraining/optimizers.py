"""AdamW with warm-up and linear decay, as BERT's (section A.2), exact under any strategy."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

NOT_DECAYED = ("bias", "layer_norm")
"""Parts of the names of weights that do not decay."""

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-6


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises from 0 to `peak` in `warmup_steps`, then falls to 0 at `total_steps`, both linearly."""

    def __init__(self, peak: float, warmup_steps: int, total_steps: int):
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step: Any) -> Any:
        """The rate for a step, counted from 0, float32."""
        step = ops.cast(step, "float32")
        rise = (step + 1.0) / max(self.warmup_steps, 1)
        fall = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        return self.peak * ops.clip(ops.minimum(rise, fall), 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
        }


def decays(name: str) -> bool:
    """Whether weight decay applies to the weight of this name."""
    return not any(part in name for part in NOT_DECAYED)


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017, arXiv 1711.05101).

    Keras' own optimizers add the gradients of the replicas themselves, after clipping each; this
    one takes gradients that have been added and clipped, and updates with TensorFlow's fused
    kernel.

    Args:
        variables: name to variable, made under the strategy in whose scope this is called.
        schedule: step, from 0, to learning rate.
        weight_decay: per unit of learning rate, on the weights that `decays` names.
    """

    def __init__(
        self, variables: Mapping[str, tf.Variable], schedule: Any, *, weight_decay: float = 0.01
    ):
        self.variables = dict(variables)
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.iterations = tf.Variable(0, dtype=tf.int64, trainable=False, name="iterations")
        self.momentums = {name: _zeros_like(v) for name, v in self.variables.items()}
        self.velocities = {name: _zeros_like(v) for name, v in self.variables.items()}

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Name to moment variable, for a checkpoint."""
        moments = {"momentum": self.momentums, "velocity": self.velocities}
        return {f"{kind}/{name}": v for kind, vs in moments.items() for name, v in vs.items()}

    def apply(self, gradients: Mapping[str, tf.Tensor]) -> None:
        """Updates every variable; called on every replica, with the same gradients."""
        tf.distribute.get_replica_context().merge_call(self._apply, args=(dict(gradients),))

    def _apply(self, strategy: tf.distribute.Strategy, gradients: Mapping[str, Any]) -> None:
        step = self.iterations.read_value()
        rate = tf.cast(self.schedule(step), tf.float32)
        count = tf.cast(step + 1, tf.float32)
        powers = (tf.pow(BETA_1, count), tf.pow(BETA_2, count))
        for name, variable in self.variables.items():
            decay = self.weight_decay if decays(name) else 0.0
            strategy.extended.update(
                variable,
                adamw_update,
                args=(gradients[name], self.momentums[name], self.velocities[name]),
                kwargs={"rate": rate, "powers": powers, "decay": decay},
                group=False,
            )
        strategy.extended.update(
            self.iterations, lambda iterations: iterations.assign_add(1), group=False
        )


def adamw_update(
    variable: tf.Variable,
    gradient: tf.Tensor,
    momentum: tf.Variable,
    velocity: tf.Variable,
    *,
    rate: tf.Tensor,
    powers: tuple[tf.Tensor, tf.Tensor],
    decay: float,
    betas: tuple[float, float] = (BETA_1, BETA_2),
    epsilon: float = EPSILON,
) -> None:
    """Updates a variable and its moments on one device, as algorithm 2 of the paper.

    Args:
        variable: the variable, of any shape; the others have the same.
        gradient: of the loss.
        momentum: first moment.
        velocity: second moment.
        rate: learning rate, scalar.
        powers: of `betas`, for the number of this update, counted from 1.
        decay: per unit of learning rate.
        betas: of the moments.
        epsilon: beside the root of the corrected second moment.
    """
    if decay:
        variable.assign_sub(variable * (rate * decay))
    beta_1, beta_2 = (tf.cast(beta, variable.dtype) for beta in betas)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=momentum.handle,
        v=velocity.handle,
        beta1_power=powers[0],
        beta2_power=powers[1],
        lr=rate,
        beta1=beta_1,
        beta2=beta_2,
        # The kernel adds it before the second moment is corrected: far more, in the first steps.
        epsilon=tf.cast(epsilon, variable.dtype) * tf.sqrt(1 - powers[1]),
        grad=gradient,
    )


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)
