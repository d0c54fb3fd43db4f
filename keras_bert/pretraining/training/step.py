"""Training step that computes the same on one device and on many.

A loss is a sum over predictions, divided by the number of predictions in the whole batch, over all
replicas and micro-batches. Gradients are added over the replicas, then clipped, then applied once.
Dropout depends only on (seed, step, micro-batch, replica), so checkpoints need no random state.
"""

import dataclasses
import math
from typing import Any

import keras
import tensorflow as tf

from keras_bert.checkpoints.variables import named_variables
from keras_bert.optimizers.distributed import AdamW
from keras_bert.optimizers.loss_scale import LEAST
from keras_bert.optimizers.update_rules import clip_factor
from keras_bert.pretraining.objectives.losses import count_predictions, loss_factors, sum_losses
from keras_bert.pretraining.objectives.models import seed_states, with_seeds
from keras_bert.pretraining.objectives.registry import OBJECTIVES, Objective


def trainable_variables(model: keras.Model) -> dict[str, tf.Variable]:
    """Returns the variables to train by name, for the constructor of an optimizer."""
    names = named_variables(model, model.trainable_variables)
    return {name: variable.value for name, variable in names.items()}


@dataclasses.dataclass(eq=False)
class TrainingStep:
    """Trains and evaluates a model.

    The results of `train` and `evaluate` have sums, `[loss_terms, 3]` float32: the loss, the number
    of right predictions and the number of predictions of each loss term of the objective.

    Args:
        model: model of the objective, made in the scope of the strategy.
        optimizer: optimizer for `trainable_variables(model)`.
        strategy: strategy of the devices.
        objective: objective with the losses.
        seed: seed of dropout.
        gradient_accumulation_steps: number of micro-batches per step and replica.
        global_clipnorm: largest norm of the gradient, or None.
        jit_compile: whether XLA compiles the forward and backward pass.
    """

    model: keras.Model
    optimizer: AdamW
    strategy: tf.distribute.Strategy
    _: dataclasses.KW_ONLY
    objective: Objective = OBJECTIVES["mlm+nsp"]
    seed: int = 0
    gradient_accumulation_steps: int = 1
    global_clipnorm: float | None = 1.0
    jit_compile: bool = False

    def __post_init__(self) -> None:
        self.loss_terms = self.objective.loss_terms
        self._seed_states = seed_states(self.model)
        self._forward_backward = tf.function(
            self._gradients_of_part, jit_compile=self.jit_compile, autograph=False
        )
        self.train = tf.function(self._train)
        self.evaluate = tf.function(self._evaluate)

    def _train(self, iterator: Any, steps: tf.Tensor) -> dict[str, tf.Tensor]:
        """Runs a number of steps.

        Args:
            iterator: distributed batches `(x, y, w)`.
            steps: number of steps, int32 scalar tensor.

        Returns:
            A dictionary: `sums`; `tokens`, the int64 number of tokens without padding and without
            rows that fill up a batch; and `gradient_norm` of the last step.
        """
        sums = tf.zeros([len(self.loss_terms), 3])
        tokens, norm = tf.constant(0, tf.int64), tf.constant(0.0)
        for _ in tf.range(steps):
            result = self.strategy.run(self._step, args=(next(iterator),))
            new_sums, new_tokens, norm = self._first(result)
            sums, tokens = sums + new_sums, tokens + new_tokens
        return {"sums": sums, "tokens": tokens, "gradient_norm": norm}

    def _evaluate(self, batch: Any) -> tf.Tensor:
        """Returns the sums of one distributed batch, without dropout."""

        def evaluate_replica(x: Any, y: Any, w: Any) -> tf.Tensor:
            sums = sum_losses(self.loss_terms, self.model(x, training=False), y, w)
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)

        return self._first(self.strategy.run(evaluate_replica, args=batch))

    def _first(self, result: Any) -> Any:
        """Returns one replica's copy of a result that all replicas share."""
        return tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], result
        )

    def _step(self, batch: Any) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        replica = tf.distribute.get_replica_context()
        variables = self.optimizer.variables
        values = [tf.convert_to_tensor(variable) for variable in variables.values()]
        counts = replica.all_reduce(tf.distribute.ReduceOp.SUM, self._counts(batch))
        scale = loss_factors(self.loss_terms, counts[:-1]) * self.optimizer.scale
        tokens = tf.cast(counts[-1], tf.int64)
        gradients, sums = self._accumulate(values, batch, scale, replica.replica_id_in_sync_group)
        gradients, sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, [gradients, sums])
        norm, factors = tf.linalg.global_norm(gradients), []
        if self.optimizer.loss_scale is not None:
            factors.append(1.0 / self.optimizer.scale)
            norm *= factors[0]
        finite = tf.math.is_finite(norm)
        # An overflow is reported only at the smallest loss scale.
        reported = tf.where(~finite & (self.optimizer.scale > LEAST), 0.0, norm)
        if self.global_clipnorm is not None:
            factors.append(clip_factor(norm, self.global_clipnorm))
        if factors:
            factor = math.prod(factors)
            gradients = [gradient * factor for gradient in gradients]
        self.optimizer.apply(dict(zip(variables, gradients, strict=True)), finite)
        return sums, tokens, reported

    def _counts(self, batch: Any) -> tf.Tensor:
        """Counts the predictions of each term, and the tokens, `[loss_terms + 1]` float32."""
        x, _, w = batch
        mask = tf.cast(x["padding_mask"], tf.float32)
        weights = [tf.reshape(each, [tf.shape(mask)[0], -1]) for each in tf.nest.flatten(w)]
        # Rows that fill up an epoch's last batch have only weights of 0. Their tokens do not count.
        exists = tf.reduce_max(tf.concat(weights, axis=1), axis=1, keepdims=True)
        tokens = tf.reduce_sum(mask * exists)
        return tf.concat([count_predictions(self.loss_terms, w), [tokens]], axis=0)

    def _accumulate(
        self, values: list[tf.Tensor], batch: Any, scale: tf.Tensor, replica: Any
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns the gradients and sums of a replica's batch, computed in micro-batches."""
        parts = self.gradient_accumulation_steps
        if parts == 1:
            return self._forward_backward(values, batch, scale, self._seeds(replica, 0))
        batch = tf.nest.map_structure(
            lambda x: tf.reshape(x, [parts, x.shape[0] // parts, *x.shape[1:]]), batch
        )
        gradients = [tf.zeros_like(value) for value in values]
        sums = tf.zeros([len(self.loss_terms), 3])
        for part in tf.range(parts):
            micro_batch = tf.nest.map_structure(lambda x, part=part: x[part], batch)
            more, more_sums = self._forward_backward(
                values, micro_batch, scale, self._seeds(replica, part)
            )
            gradients = [a + b for a, b in zip(gradients, more, strict=True)]
            sums += more_sums
        return gradients, sums

    def _gradients_of_part(
        self, values: list[tf.Tensor], batch: Any, scale: tf.Tensor, seeds: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns the gradients and sums of a micro-batch.

        All inputs are tensors, so that XLA can compile this function.

        Args:
            values: values of the trainable variables.
            batch: micro-batch.
            scale: `[loss_terms]`, factors of the losses.
            seeds: `[D, 2]`, seeds of dropout.
        """
        x, y, w = batch
        frozen = [variable.value for variable in self.model.non_trainable_variables]
        states = with_seeds(self.model, frozen, seeds)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            outputs, _ = self.model.stateless_call(
                self._in_model_order(values), states, x, training=True
            )
            sums = sum_losses(self.loss_terms, outputs, y, w)
            loss = tf.reduce_sum(sums[:, 0] * scale)
        zero = tf.UnconnectedGradients.ZERO  # for a pooler that no loss uses
        return tape.gradient(loss, values, unconnected_gradients=zero), sums

    def _seeds(self, replica: Any, part: Any) -> tf.Tensor:
        """Returns a seed for every dropout layer, `[D, 2]` int32."""
        step = self.optimizer.iterations.read_value()
        number = (step * self.gradient_accumulation_steps + tf.cast(part, tf.int64)) * (
            self.strategy.num_replicas_in_sync
        ) + tf.cast(replica, tf.int64)
        return tf.random.stateless_uniform(
            [len(self._seed_states), 2],
            tf.stack([tf.constant(self.seed, tf.int64), number]),
            minval=0,
            maxval=2**31 - 1,
            dtype=tf.int32,
        )

    def _in_model_order(self, values: list[tf.Tensor]) -> list[tf.Tensor]:
        by_variable = {
            id(variable): value
            for variable, value in zip(self.optimizer.variables.values(), values, strict=True)
        }
        return [by_variable[id(variable.value)] for variable in self.model.trainable_variables]
