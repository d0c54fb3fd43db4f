"""AdamW for `fit`, with rates of their own for the layers, exact under any strategy."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from keras_bert.finetuning.recipe import Recipe
from keras_bert.optimizers.published import BETA_1, BETA_2, EPSILON, decays
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.optimizers.update_rules import Update
from keras_bert.optimizers.updates import adamw_update


@keras.saving.register_keras_serializable(package="keras_bert")
class AdamW(keras.optimizers.AdamW):
    """Keras' AdamW, which differs in five things.

    The gradient is clipped after the replicas' gradients have been added up, not before, so that
    many devices do what one does. Variables can have rates of their own, which hold for weight
    decay, too. The learning rate is a function of the updates, not of the micro-batches. The
    update is one fused operation of TensorFlow. And epsilon stands where the paper and torch have
    it, beside the root of the corrected second moment; Keras' amounts to 30 times as much in the
    first step.

    Args:
        learning_rate: a number or a schedule of updates.
        shares: path of a variable to its share of the learning rate; 1 for those not in it.
        **kwargs: as in Keras' AdamW. Biases and layer normalizations do not decay.
    """

    def __init__(
        self, learning_rate: Any = 1e-3, *, shares: Mapping[str, float] | None = None, **kwargs: Any
    ):
        kwargs = {"beta_1": BETA_1, "beta_2": BETA_2, "epsilon": EPSILON, **kwargs}
        super().__init__(learning_rate, **kwargs)
        self.shares = dict(shares or {})

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        config = super().get_config()
        del config["amsgrad"]
        return {**config, "shares": self.shares}

    def build(self, variables: list[keras.Variable]) -> None:
        """Makes the moments."""
        super().build(variables)
        self._share_of = [self.shares.get(variable.path, 1.0) for variable in variables]
        self._decay_of = [
            self.weight_decay if self.weight_decay and decays(variable.path) else 0.0
            for variable in variables
        ]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one variable on one device."""
        index = self._get_variable_index(variable)
        variable = variable.value if isinstance(variable, keras.Variable) else variable
        rate = tf.cast(learning_rate, variable.dtype) * self._share_of[index]
        step = tf.cast(self.iterations + 1, variable.dtype)
        betas = (self.beta_1, self.beta_2)
        powers = tuple(tf.pow(tf.cast(beta, variable.dtype), step) for beta in betas)
        adamw_update(
            variable,
            tf.cast(gradient, variable.dtype),
            self._momentums[index].value,
            self._velocities[index].value,
            self._decay_of[index],
            Update(rate, powers, betas, self.epsilon),
        )

    def _apply_weight_decay(self, variables: Any) -> None:
        """Nothing: `update_step` does."""

    def _clip_gradients(self, grads: Any) -> Any:
        """Nothing yet: they are not added up."""
        return grads

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list[tuple[Any, Any]]:
        gradients, variables = zip(*super()._all_reduce_sum_gradients(grads_and_vars), strict=True)
        return list(zip(super()._clip_gradients(list(gradients)), variables, strict=True))

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        if not self.gradient_accumulation_steps:
            super()._backend_apply_gradients(grads, trainable_variables)
            return
        pairs = zip(grads, (variable.value for variable in trainable_variables), strict=True)
        # Keras has a condition on each replica, in which replicas cannot meet to add gradients.
        pairs = super()._all_reduce_sum_gradients(list(pairs))
        tf.distribute.get_replica_context().merge_call(self._accumulate, args=(pairs,))

    def _accumulate(self, strategy: tf.distribute.Strategy, pairs: list[tuple[Any, Any]]) -> None:
        parts, update = self.gradient_accumulation_steps, strategy.extended.update
        sums = [self._accumulated_gradients[self._get_variable_index(v)].value for _, v in pairs]
        for total, (gradient, _) in zip(sums, pairs, strict=True):
            update(total, lambda v, more: v.assign_add(more), args=(gradient,), group=False)

        def apply() -> None:
            means = super(AdamW, self)._clip_gradients([total / parts for total in sums])
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


def adamw(model: Any, recipe: Recipe, updates: int) -> AdamW:
    """The optimizer of a recipe that makes so many updates of a model."""
    schedule = WarmupLinearDecay(recipe.learning_rate, round(recipe.warmup * updates), updates)
    return AdamW(
        schedule,
        shares=layer_shares(model, recipe.layer_decay, recipe.crf_rate),
        weight_decay=recipe.weight_decay,
        global_clipnorm=recipe.global_clipnorm,
        gradient_accumulation_steps=recipe.gradient_accumulation_steps
        if recipe.gradient_accumulation_steps > 1
        else None,
    )


def layer_shares(model: Any, decay: float, crf_rate: float = 1.0) -> dict[str, float]:
    """What share of the learning rate each weight gets: `decay` to the number of layers above.

    Howard and Ruder 2018 (https://arxiv.org/abs/1801.06146), section 3.2. The head, and the
    pooler, get 1, the highest layer of the encoder `decay`, and what is below the lowest layer
    the least. The transitions of a CRF, which begin at 0 and of which there are few, get
    `crf_rate`.

    Returns:
        Path of each variable of the model to its share.
    """
    encoder, layers = model.encoder, model.encoder.encoder_layers
    above = {variable.path: 0 for variable in model.variables}
    pooler = encoder.pooler.variables if encoder.pooler is not None else []
    parts = [(encoder.variables, len(layers) + 1), (pooler, 0)]
    parts += [(layer.variables, len(layers) - index) for index, layer in enumerate(layers)]
    for variables, number in parts:
        above.update((variable.path, number) for variable in variables)
    shares = {path: decay**number for path, number in above.items()}
    crf = getattr(model, "crf", None)
    return shares | {variable.path: crf_rate for variable in (crf.variables if crf else ())}
