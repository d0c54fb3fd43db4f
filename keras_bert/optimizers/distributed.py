"""Optimizers for TensorFlow's distribution strategies, as in BERT (section A.2)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from keras_bert.optimizers.loss_scale import LossScale
from keras_bert.optimizers.update_rules import (
    BETA_1,
    BETA_2,
    EPSILON,
    Update,
    Weight,
    clip_rate,
    decays,
    lamb,
)


def adamw_update(
    variable: tf.Variable,
    gradient: tf.Tensor,
    momentum: tf.Variable,
    velocity: tf.Variable,
    decay: float | None,
    update: Update,
) -> None:
    """Does the update of `update_rules.adamw`, with TensorFlow's fused kernel."""
    if decay:
        variable.assign(variable * (1 - update.rate * decay))
    beta_1, beta_2 = (tf.constant(beta, variable.dtype) for beta in update.betas)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=momentum.handle,
        v=velocity.handle,
        beta1_power=update.powers[0],
        beta2_power=update.powers[1],
        lr=update.rate,
        beta1=beta_1,
        beta2=beta_2,
        # The kernel adds epsilon before it corrects the second moment, so epsilon is scaled here.
        epsilon=tf.constant(update.epsilon, variable.dtype) * tf.sqrt(1 - update.powers[1]),
        grad=gradient,
    )


def stable_adamw_update(
    variable: tf.Variable,
    gradient: tf.Tensor,
    momentum: tf.Variable,
    velocity: tf.Variable,
    decay: float | None,
    update: Update,
) -> None:
    """Does the update of `update_rules.stable_adamw`, with TensorFlow's fused kernel."""
    update = clip_rate(tf.convert_to_tensor(velocity), gradient, update)
    adamw_update(variable, gradient, momentum, velocity, decay, update)


def lamb_update(
    variable: tf.Variable,
    gradient: tf.Tensor,
    momentum: tf.Variable,
    velocity: tf.Variable,
    decay: float | None,
    update: Update,
) -> None:
    """Does the update of `update_rules.lamb`."""
    variables = (variable, momentum, velocity)
    weight = Weight(*(tf.convert_to_tensor(x) for x in variables))
    for old, new in zip(variables, lamb(weight, gradient, decay, update), strict=True):
        old.assign(new)


@dataclasses.dataclass(eq=False)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017, arXiv 1711.05101).

    Keras' own optimizers clip the gradients of each replica and add them afterwards. This optimizer
    takes gradients that have already been added up and clipped.

    Args:
        variables: variables by name. The optimizer must be made in the scope of the strategy that
            made them.
        schedule: function that returns the learning rate for a step, counted from 0.
        weight_decay: weight decay, multiplied by the learning rate. It applies to weights for which
            `decays` returns True.
        betas: decay rates of the moments.
        epsilon: number added to the root of the corrected second moment.
        loss_scale: scale of the loss for float16. The gradients must already be divided by the
            scale. If a gradient is not finite, only the scale changes.
    """

    update = staticmethod(adamw_update)

    variables: Mapping[str, tf.Variable]
    schedule: Any
    _: dataclasses.KW_ONLY
    weight_decay: float = 0.01
    betas: tuple[float, float] = (BETA_1, BETA_2)
    epsilon: float = EPSILON
    loss_scale: LossScale | None = None

    def __post_init__(self) -> None:
        self.iterations = tf.Variable(0, dtype=tf.int64, trainable=False, name="iterations")
        self.momentums = {name: _zeros_like(v) for name, v in self.variables.items()}
        self.velocities = {name: _zeros_like(v) for name, v in self.variables.items()}

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables to save in a checkpoint, by name: the moments and the loss scale's state."""
        moments = {"momentum": self.momentums, "velocity": self.velocities}
        state = {f"{kind}/{name}": v for kind, vs in moments.items() for name, v in vs.items()}
        return state | (self.loss_scale.state if self.loss_scale else {})

    @property
    def scale(self) -> Any:
        """Factor of the loss."""
        return self.loss_scale.value.read_value() if self.loss_scale else 1.0

    def apply(self, gradients: Mapping[str, tf.Tensor], finite: Any = True) -> None:
        """Updates every variable; every replica must call this method with the same gradients.

        Args:
            gradients: gradients by the variable's name.
            finite: whether all gradients are finite, a bool scalar. It is used only with a loss
                scale.
        """
        replica = tf.distribute.get_replica_context()
        replica.merge_call(self._apply, args=(dict(gradients), finite))

    def _apply(
        self, strategy: tf.distribute.Strategy, gradients: Mapping[str, Any], finite: Any
    ) -> None:
        if self.loss_scale is None:
            self._update_all(strategy, gradients)
        else:
            finite = tf.convert_to_tensor(strategy.experimental_local_results(finite)[0])
            tf.cond(finite, lambda: self._update_all(strategy, gradients), lambda: None)
            self.loss_scale.update(strategy, finite)
        strategy.extended.update(
            self.iterations, lambda iterations: iterations.assign_add(1), group=False
        )

    def _update_all(self, strategy: tf.distribute.Strategy, gradients: Mapping[str, Any]) -> None:
        step = self.iterations.read_value()
        rate = tf.cast(self.schedule(step), tf.float32)
        count = tf.cast(step + 1, tf.float32)
        if self.loss_scale is not None:  # skipped steps did not change the moments
            count -= self.loss_scale.skipped.read_value()
        update = Update.number(count, rate, self.betas, self.epsilon)
        for name, variable in self.variables.items():
            decay = self.weight_decay if decays(name) else None
            tensors = (gradients[name], self.momentums[name], self.velocities[name])
            strategy.extended.update(
                variable, self.update, args=(*tensors, decay, update), group=False
            )


class StableAdamW(AdamW):
    """AdamW that lowers the learning rate of a weight whose gradient is suddenly large.

    Wortsman et al. 2023 (https://arxiv.org/abs/2304.13013, algorithm 2). The rate for the weight
    decay is lowered, too. It takes the place of `global_clipnorm`.
    """

    update = staticmethod(stable_adamw_update)


class LAMB(AdamW):
    """Adam whose step for each weight is scaled by the weight's norm, for large batches.

    You et al. 2019 (https://arxiv.org/abs/1904.00962, algorithm 2). As in the authors' code,
    weights without weight decay get Adam's update.
    """

    update = staticmethod(lamb_update)


OPTIMIZERS: dict[str, type[AdamW]] = {
    "adamw": AdamW,
    "stable_adamw": StableAdamW,
    "lamb": LAMB,
}
"""Optimizer class of each name."""


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)
