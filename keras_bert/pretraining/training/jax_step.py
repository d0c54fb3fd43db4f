"""The training step on Keras' JAX backend, which does not need TensorFlow.

The step computes the same as `keras_bert.pretraining.training.step`. If there are several devices,
each device has a copy of the weights and a part of the batch. But in the code, an array is the
whole batch, so sums, clipping and dropout do not depend on the number of devices.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import keras
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from keras_bert.checkpoints.variables import named_variables
from keras_bert.errors import InputError
from keras_bert.optimizers.update_rules import (
    BETA_1,
    BETA_2,
    EPSILON,
    Update,
    Weight,
    adamw,
    clip_factor,
    decays,
)
from keras_bert.pretraining.objectives.losses import count_predictions, loss_factors, sum_losses
from keras_bert.pretraining.objectives.models import seed_states, with_seeds
from keras_bert.pretraining.objectives.registry import OBJECTIVES, Objective


class TrainingState(NamedTuple):
    """Weights, moments and step of the training.

    `iterations` is the number of steps done. The other fields are lists with one array for each
    weight, in the order of `JaxTrainingStep.names`.
    """

    values: list[jax.Array]
    momentums: list[jax.Array]
    velocities: list[jax.Array]
    iterations: jax.Array


@dataclasses.dataclass(eq=False)
class JaxTrainingStep:
    """Trains a model step by step on the devices of `keras.distribution`.

    Args:
        model: model of the objective. A model that was made under `keras.distribution.DataParallel`
            is trained on all devices of this distribution.
        schedule: function of the step, from 0 on. Returns the learning rate.
        objective: objective with the losses.
        optimizer: `adamw`, `stable_adamw` or `lamb` of `keras_bert.optimizers.update_rules`.
        weight_decay: weight decay, multiplied by the learning rate, for weights that `decays`
            selects.
        betas: decay rates of the moments.
        epsilon: number added to the root of the second moment.
        gradient_accumulation_steps: number of micro-batches in a step. Each micro-batch is divided
            equally among the devices.
        global_clipnorm: largest norm of the gradient, or None.
        seed: seed of dropout, combined with the step and the micro-batch.

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

    model: keras.Model
    schedule: Any
    _: dataclasses.KW_ONLY
    objective: Objective = OBJECTIVES["mlm+nsp"]
    optimizer: Callable[[Weight, Any, float | None, Update], Weight] = adamw
    weight_decay: float = 0.01
    betas: tuple[float, float] = (BETA_1, BETA_2)
    epsilon: float = EPSILON
    gradient_accumulation_steps: int = 1
    global_clipnorm: float | None = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        self.loss_terms = self.objective.loss_terms
        self._variables = named_variables(self.model, self.model.trainable_variables)
        self._train: Any = None

    @property
    def names(self) -> list[str]:
        """Names of the weights to train."""
        return list(self._variables)

    def start(self) -> TrainingState:
        """Returns the state before the first step."""
        # If the state had another sharding after the first step, the second would compile again.
        given = [variable.value for variable in self._variables.values()]
        values = [jax.device_put(jnp.copy(value), value.sharding) for value in given]
        momentums, velocities = (
            [jnp.zeros_like(value, device=value.sharding) for value in values] for _ in range(2)
        )
        everywhere = values[0].sharding
        if isinstance(everywhere, NamedSharding):
            everywhere = NamedSharding(everywhere.mesh, PartitionSpec())
        iterations = jax.device_put(jnp.zeros((), jnp.int32), everywhere)
        return TrainingState(values, momentums, velocities, iterations)

    def __call__(
        self, state: TrainingState, batch: tuple[Any, Any, Any]
    ) -> tuple[TrainingState, dict[str, jax.Array]]:
        """Makes one step with one batch.

        Args:
            state: state before the step. Its memory is reused, so do not use it again.
            batch: `(x, y, w)`, NumPy arrays or JAX arrays, for all devices together.

        Returns:
            The next state, and a dictionary with `gradient_norm` and `sums`, `[loss_terms, 3]`
            float32: loss, number of right predictions and number of predictions of each loss term.

        Raises:
            InputError: if the rows of the batch cannot be divided into the micro-batches.
        """
        rows = len(jax.tree.leaves(batch)[0])
        if rows % self.gradient_accumulation_steps:
            raise InputError(
                f"A batch of {rows} rows cannot be divided into {self.gradient_accumulation_steps} "
                "micro-batches (gradient_accumulation_steps); choose a multiple."
            )
        if self._train is None:
            shardings = jax.tree.map(lambda x: x.sharding, state)
            self._train = jax.jit(self._step, donate_argnums=0, out_shardings=(shardings, None))
        frozen = [variable.value for variable in self.model.non_trainable_variables]
        return self._train(state, jax.tree.map(divided, batch), frozen)

    def finish(self, state: TrainingState) -> None:
        """Assigns the trained weights to the model."""
        for variable, value in zip(self._variables.values(), state.values, strict=True):
            variable.assign(value)

    def _step(self, state: TrainingState, batch: Any, frozen: list[jax.Array]) -> Any:
        scale = loss_factors(self.loss_terms, count_predictions(self.loss_terms, batch[2]))
        gradients, sums = self._accumulate(state, batch, frozen, scale)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
        if self.global_clipnorm is not None:
            factor = clip_factor(norm, self.global_clipnorm)
            gradients = [gradient * factor for gradient in gradients]
        return self._updated(state, gradients), {"sums": sums, "gradient_norm": norm}

    def _accumulate(
        self, state: TrainingState, batch: Any, frozen: list[jax.Array], scale: jax.Array
    ) -> tuple[list[jax.Array], jax.Array]:
        """Returns the gradients and sums of the batch, computed in micro-batches."""
        parts = self.gradient_accumulation_steps
        first = state.iterations * parts

        def of_part(part: Any, micro_batch: Any) -> tuple[list[jax.Array], jax.Array]:
            states = with_seeds(self.model, frozen, self._seeds(first + part))
            return jax.grad(self._loss, has_aux=True)(state.values, states, micro_batch, scale)

        if parts == 1:
            return of_part(0, batch)

        def add(total: Any, part: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, of_part(*part)), None

        # Give rows to the micro-batches in turn, so that no row moves to another device.
        batches = jax.tree.map(
            lambda x: jnp.swapaxes(x.reshape(-1, parts, *x.shape[1:]), 0, 1), batch
        )
        zeros = [jnp.zeros_like(value) for value in state.values]
        total = (zeros, jnp.zeros((len(self.loss_terms), 3)))
        return jax.lax.scan(add, total, (jnp.arange(parts), batches))[0]

    def _loss(
        self, values: list[jax.Array], states: list[jax.Array], batch: Any, scale: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the total loss and the sums, `[loss_terms, 3]`."""
        x, y, w = batch
        outputs, _ = self.model.stateless_call(values, states, x, training=True)
        sums = sum_losses(self.loss_terms, outputs, y, w)
        return jnp.sum(sums[:, 0] * scale), sums

    def _seeds(self, number: Any) -> jax.Array:
        """Returns a seed for every random generator, `[D, 2]` uint32."""
        key = jax.random.fold_in(jax.random.key(self.seed), number)
        return jax.random.bits(key, (len(seed_states(self.model)), 2), "uint32")

    def _updated(self, state: TrainingState, gradients: list[jax.Array]) -> TrainingState:
        iterations = state.iterations + 1
        count, rate = iterations.astype("float32"), self.schedule(state.iterations)
        update = Update.number(count, rate, self.betas, self.epsilon)
        weights = [
            self.optimizer(
                Weight(*weight), gradient, self.weight_decay if decays(name) else None, update
            )
            for name, gradient, *weight in zip(self.names, gradients, *state[:3], strict=True)
        ]
        values, momentums, velocities = map(list, zip(*weights, strict=True))
        return TrainingState(values, momentums, velocities, iterations)


def divided(x: Any) -> jax.Array:
    """Divides an array of the batch among the devices of the distribution, if there is one."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return jnp.asarray(x)
    return keras.distribution.distribute_tensor(x, distribution.get_data_layout(x.shape))
