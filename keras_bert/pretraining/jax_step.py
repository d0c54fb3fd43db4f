"""The training step on Keras' JAX backend, where TensorFlow is not needed.

It computes what `keras_bert.pretraining.step` does. Over several devices, batches are divided and
weights are copied: inside the step, arrays are those of the whole batch, whatever device holds
which rows, so sums, clipping and dropout know nothing of the devices.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import keras
from jax import numpy as jnp

from keras_bert.checkpoints.variables import named_variables
from keras_bert.pretraining.objectives import OBJECTIVES, Objective
from keras_bert.pretraining.published import BETA_1, BETA_2, EPSILON, decays


class TrainingState(NamedTuple):
    """What a step changes: lists in the order of `JaxTrainingStep.names`, and steps done."""

    values: list[jax.Array]
    momentums: list[jax.Array]
    velocities: list[jax.Array]
    iterations: jax.Array


class JaxTrainingStep:
    """Trains a model with AdamW (Loshchilov and Hutter 2017, arXiv 1711.05101, algorithm 2).

    Args:
        model: the objective's. Made under `keras.distribution.DataParallel`, it is trained on all
            of its devices.
        schedule: step, from 0, to learning rate.
        objective: the losses.
        weight_decay: per unit of learning rate, on the weights that `decays` names.
        clip_norm: largest norm of the gradient, or None.
        seed: of dropout, which is a function of it and the step.

    Example:
        >>> keras.distribution.set_distribution(keras.distribution.DataParallel())
        >>> model = keras_bert.PretrainingModel(Encoder(config, dtype="mixed_bfloat16"))
        >>> step = JaxTrainingStep(model, WarmupLinearDecay(1e-4, 10_000, 1_000_000))
        >>> state = step.start()
        >>> for batch in batches:
        ...     state, results = step(state, batch)
        >>> step.finish(state)
        >>> keras_bert.save(model, "directory")
    """

    def __init__(
        self,
        model: keras.Model,
        schedule: Any,
        *,
        objective: Objective = OBJECTIVES["mlm+nsp"],
        weight_decay: float = 0.01,
        clip_norm: float | None = 1.0,
        seed: int = 0,
    ):
        self.model = model
        self.schedule = schedule
        self.heads = objective.heads
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.seed = seed
        self._variables = named_variables(model, model.trainable_variables)
        self._train = jax.jit(self._step, donate_argnums=0)

    @property
    def names(self) -> list[str]:
        """Of the weights that are trained."""
        return list(self._variables)

    def start(self) -> TrainingState:
        """The model's weights, before the first step."""
        values = [variable.value for variable in self._variables.values()]
        momentums, velocities = (
            [jnp.zeros_like(value, device=value.sharding) for value in values] for _ in range(2)
        )
        values = [jnp.copy(value) for value in values]
        return TrainingState(values, momentums, velocities, jnp.zeros((), jnp.int32))

    def __call__(
        self, state: TrainingState, batch: tuple[Any, Any, Any]
    ) -> tuple[TrainingState, dict[str, jax.Array]]:
        """One step.

        Args:
            state: it is used up.
            batch: `(x, y, w)`, NumPy arrays or JAX arrays, of all devices together.

        Returns:
            The next state; `sums` `[heads, 3]` float32 in the order of the objective's heads
            (loss, right predictions, predictions) and `gradient_norm`.
        """
        frozen = [variable.value for variable in self.model.non_trainable_variables]
        return self._train(state, jax.tree.map(divided, batch), frozen)

    def finish(self, state: TrainingState) -> None:
        """Gives the trained weights to the model."""
        for variable, value in zip(self._variables.values(), state.values, strict=True):
            variable.assign(value)

    def _step(self, state: TrainingState, batch: Any, frozen: list[jax.Array]) -> Any:
        x, y, w = batch
        weights = self._by_key(w)
        counts = jnp.stack([jnp.sum(weights[h.key]) if h.key else 1.0 for h in self.heads])
        scale = jnp.asarray([head.weight for head in self.heads]) / jnp.maximum(counts, 1.0)
        frozen = self._with_seeds(frozen, state.iterations)

        def loss(values: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
            outputs, _ = self.model.stateless_call(values, frozen, x, training=True)
            outputs, labels = self._by_key(outputs), self._by_key(y)
            sums = jnp.stack([head.sums(outputs, labels, weights) for head in self.heads])
            return jnp.sum(sums[:, 0] * scale), sums

        gradients, sums = jax.grad(loss, has_aux=True)(state.values)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
        if self.clip_norm is not None:
            factor = self.clip_norm / jnp.maximum(norm, self.clip_norm)
            gradients = [gradient * factor for gradient in gradients]
        return self._updated(state, gradients), {"sums": sums, "gradient_norm": norm}

    def _updated(self, state: TrainingState, gradients: list[jax.Array]) -> TrainingState:
        rate, count = self.schedule(state.iterations), state.iterations + 1
        columns: tuple[list, list, list] = ([], [], [])
        for name, gradient, value, momentum, velocity in zip(
            self.names, gradients, *state[:3], strict=True
        ):
            momentum = BETA_1 * momentum + (1 - BETA_1) * gradient
            velocity = BETA_2 * velocity + (1 - BETA_2) * jnp.square(gradient)
            root = jnp.sqrt(velocity / (1 - BETA_2**count)) + EPSILON
            decay = self.weight_decay if decays(name) else 0.0
            value = value * (1 - rate * decay) - rate * momentum / (1 - BETA_1**count) / root
            for column, new in zip(columns, (value, momentum, velocity), strict=True):
                column.append(new)
        return TrainingState(*columns, count)

    def _with_seeds(self, frozen: list[jax.Array], step: jax.Array) -> list[jax.Array]:
        """The values of the variables that are not trained, each random generator newly seeded."""
        generators = [getattr(layer, "seed_generator", None) for layer in _layers(self.model)]
        rows = {id(g.state): row for row, g in enumerate(g for g in generators if g is not None)}
        seeds = jax.random.bits(
            jax.random.fold_in(jax.random.key(self.seed), step), (len(rows), 2), "uint32"
        )
        variables = self.model.non_trainable_variables
        return [
            seeds[rows[id(variable)]] if id(variable) in rows else value
            for variable, value in zip(variables, frozen, strict=True)
        ]

    def _by_key(self, values: Any) -> Mapping[str, Any]:
        """What a model or dataset with one head gives as it is, by key."""
        return values if isinstance(values, Mapping) else {self.heads[0].key: values}


def divided(x: Any) -> jax.Array:
    """An array of the batch on the devices of the distribution, if there is one."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return jnp.asarray(x)
    return keras.distribution.distribute_tensor(x, distribution.get_data_layout(x.shape))


def _layers(model: keras.Model) -> list[keras.layers.Layer]:
    return list(model._flatten_layers())
