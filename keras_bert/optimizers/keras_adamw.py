"""AdamW for Keras' `fit`."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.errors import InputError
from keras_bert.optimizers.distributed import adamw_update
from keras_bert.optimizers.update_rules import (
    BETA_1,
    BETA_2,
    EPSILON,
    Update,
    clip_factor,
    decays,
)


@keras.saving.register_keras_serializable(package="keras_bert")
class KerasAdamW(keras.optimizers.AdamW):
    """Does the updates of `keras_bert.optimizers.distributed.AdamW` inside `fit`.

    `fit` accepts only Keras optimizers. This one differs from Keras' AdamW as follows:

    - Gradients are clipped after the replicas' gradients have been added up.
    - With gradient accumulation, a schedule gets the number of updates, not of micro-batches.
    - Epsilon is added to the root of the corrected second moment, as in the paper and in torch.
      Keras' epsilon has 30 times the effect in the first step.
    - A variable can have a multiplier for its learning rate and weight decay.

    Args:
        learning_rate: a number, or a schedule, which is called with the number of updates.
        learning_rate_multipliers: multipliers by the variable's path; 1 for all other variables.
        **kwargs: options of Keras' AdamW. Biases and layer normalizations have no weight decay.

    Raises:
        InputError: if `use_ema` is combined with `gradient_accumulation_steps`.

    Example:
        >>> classifier.compile(KerasAdamW(2e-5, weight_decay=0.01), classifier.default_loss())
    """

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        *,
        learning_rate_multipliers: Mapping[str, float] | None = None,
        **kwargs: Any,
    ):
        kwargs = {"beta_1": BETA_1, "beta_2": BETA_2, "epsilon": EPSILON, **kwargs}
        super().__init__(learning_rate, **kwargs)
        self.learning_rate_multipliers = dict(learning_rate_multipliers or {})
        if self.use_ema and self.gradient_accumulation_steps:
            raise InputError(
                f"use_ema is True and gradient_accumulation_steps is "
                f"{self.gradient_accumulation_steps}, but they cannot be combined; leave one out."
            )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        config = super().get_config()
        del config["amsgrad"]
        return {**config, "learning_rate_multipliers": self.learning_rate_multipliers}

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one variable on one device.

        Raises:
            InputError: if the variable is bfloat16 or float16.
        """
        index = self._get_variable_index(variable)
        path = self._trainable_variables[index].path
        variable = variable.value if isinstance(variable, keras.Variable) else variable
        if variable.dtype in (tf.bfloat16, tf.float16):
            raise InputError(
                f"The weight {path} is {variable.dtype.name}, which is too coarse for AdamW's "
                "moments; make the model with dtype 'mixed_bfloat16' or 'float32'."
            )
        rate = tf.cast(learning_rate, variable.dtype)
        adamw_update(
            variable,
            tf.cast(gradient, variable.dtype),
            self._momentums[index].value,
            self._velocities[index].value,
            self.weight_decay if decays(path) else None,
            Update.number(
                tf.cast(self.iterations + 1, variable.dtype),
                rate * self.learning_rate_multipliers.get(path, 1.0),
                (self.beta_1, self.beta_2),
                self.epsilon,
            ),
        )

    def _apply_weight_decay(self, variables: Any) -> None:
        """Does nothing, because `update_step` applies the weight decay."""

    def _clip_gradients(self, grads: Any) -> Any:
        """Does not clip, because `_clip_sums` clips the sums of the replicas' gradients."""
        return grads

    def _clip_sums(self, gradients: list[Any]) -> list[Any]:
        if not self.global_clipnorm:
            return super()._clip_gradients(gradients)
        # The gradient of a CRF is float32 in a model of any dtype.
        norm = tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])
        # For an infinite norm, the factor would be 0 and hide the overflow. NaN stops training.
        factor = ops.where(ops.isfinite(norm), clip_factor(norm, self.global_clipnorm), np.nan)
        return [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list[tuple[Any, Any]]:
        gradients, variables = zip(*super()._all_reduce_sum_gradients(grads_and_vars), strict=True)
        return list(zip(self._clip_sums(list(gradients)), variables, strict=True))

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        if not self.gradient_accumulation_steps:
            super()._backend_apply_gradients(grads, trainable_variables)
            return
        pairs = zip(grads, (variable.value for variable in trainable_variables), strict=True)
        # Keras would add up the replicas' gradients inside a `tf.cond`, where replicas cannot
        # communicate.
        pairs = super()._all_reduce_sum_gradients(list(pairs))
        tf.distribute.get_replica_context().merge_call(self._accumulate, args=(pairs,))

    def _accumulate(self, strategy: tf.distribute.Strategy, pairs: list[tuple[Any, Any]]) -> None:
        parts, update = self.gradient_accumulation_steps, strategy.extended.update
        sums = [self._accumulated_gradients[self._get_variable_index(v)].value for _, v in pairs]
        for total, (gradient, _) in zip(sums, pairs, strict=True):
            update(total, lambda v, more: v.assign_add(more), args=(gradient,), group=False)

        def apply() -> None:
            means = self._clip_sums([total / parts for total in sums])
            variables = (variable for _, variable in pairs)
            means_and_variables = list(zip(means, variables, strict=True))
            self._distributed_tf_update_step(strategy, means_and_variables, self.learning_rate)
            for total in sums:
                update(total, lambda v: v.assign(tf.zeros_like(v)), group=False)

        tf.cond((self._iterations + 1) % parts == 0, apply, lambda: None)

    def _get_current_learning_rate(self) -> Any:
        if isinstance(self._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            return self._learning_rate(self.iterations)
        return super()._get_current_learning_rate()
