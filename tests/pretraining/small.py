"""The trainer's step with small models, on one or two logical CPUs.

Run as a program with a number of CPUs, a directory and an objective, it writes there what ten steps
of the objective do. Logical devices can only be made before TensorFlow starts.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_bert.distribution.strategy import make_strategy
from keras_bert.optimizers.distributed import AdamW
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.training.step import TrainingStep, trainable_variables
from tests.pretraining.models import BATCH, COMPARED, LENGTH, batches, make_model

__all__ = ["BATCH", "COMPARED", "LENGTH", "batches", "make_model"]


def distributed(strategy, examples):
    """Returns an iterator of the batches; each replica gets its part in order."""
    examples = list(examples)
    rows = BATCH // strategy.num_replicas_in_sync
    stacked = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *examples)
    dataset = tf.data.Dataset.from_tensor_slices(stacked).batch(rows, drop_remainder=True)
    return iter(strategy.distribute_datasets_from_function(lambda context: dataset))


def make_step(
    strategy,
    dropout=0.0,
    global_clipnorm=0.05,
    learning_rate=1e-2,
    objective="mlm+nsp",
    optimizer=AdamW,
    **options,
):
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = make_model(objective, dropout)
        schedule = WarmupLinearDecay(learning_rate, 3, 20)
        optimizer = optimizer(trainable_variables(model), schedule, weight_decay=0.1)
    return TrainingStep(
        model,
        optimizer,
        strategy,
        objective=OBJECTIVES[objective],
        global_clipnorm=global_clipnorm,
        **options,
    )


def train(step, number=10, seed=0, objective="mlm+nsp"):
    iterator = distributed(step.strategy, batches(number, seed, objective))
    return step.train(iterator, tf.constant(number))


def weights(step):
    return {name: variable.numpy() for name, variable in step.optimizer.variables.items()}


def losses_of_replicas(strategy):
    """Each replica's sums for the same rows with the same weights, under dropout."""
    step = make_step(strategy, dropout=0.5)
    batch = tf.nest.map_structure(tf.constant, next(batches(1)))

    def of_replica():
        values = [tf.convert_to_tensor(v) for v in step.optimizer.variables.values()]
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return step._accumulate(values, batch, tf.ones(2), replica)[1]

    return strategy.experimental_local_results(tf.function(lambda: strategy.run(of_replica))())


def main(cpus, directory, objective):
    device = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * cpus
    tf.config.set_logical_device_configuration(device, logical)
    strategy = make_strategy("mirrored")
    step = make_step(strategy, objective=objective)
    result = train(step, objective=objective)
    extra = {"sums": result["sums"].numpy(), "norm": result["gradient_norm"].numpy()}
    np.savez(Path(directory) / "trained.npz", **weights(step), **extra)
    np.save(Path(directory) / "dropped.npy", losses_of_replicas(strategy))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
