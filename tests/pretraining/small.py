"""A small model, synthetic examples and the trainer's step on one or two logical CPUs.

Run as a program with a number of CPUs and a path, it writes there what ten steps do. Logical
devices can only be made before TensorFlow starts.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

from keras_bert.config import EncoderConfig
from keras_bert.layers.encoder import Encoder
from keras_bert.pretraining.optimizers import AdamW, WarmupLinearDecay
from keras_bert.pretraining.step import TrainingStep, trainable_variables
from keras_bert.pretraining.strategy import make_strategy
from keras_bert.tasks.pretraining_model import PretrainingModel

BATCH, LENGTH, SLOTS, SIZE = 8, 12, 3, 30


def config(dropout=0.0):
    return EncoderConfig(
        vocabulary_size=SIZE,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        intermediate_size=32,
        max_positions=LENGTH,
        hidden_dropout=dropout,
        attention_dropout=dropout,
    )


def batches(number, seed=0):
    """Global batches `(x, y, w)`; the numbers of masked tokens differ much between rows."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        weights = np.arange(SLOTS) < rng.integers(0, SLOTS + 1, (BATCH, 1))
        yield (
            {
                # Few different ids, so that many repeat.
                "token_ids": rng.integers(5, 9, (BATCH, LENGTH)).astype("int32"),
                "segment_ids": rng.integers(0, 2, (BATCH, LENGTH)).astype("int32"),
                "padding_mask": np.ones((BATCH, LENGTH), "int32"),
                "masked_positions": rng.integers(0, LENGTH, (BATCH, SLOTS)).astype("int32"),
            },
            {
                "mlm_logits": rng.integers(5, SIZE, (BATCH, SLOTS)).astype("int32"),
                "nsp_logits": rng.integers(0, 2, BATCH).astype("int32"),
            },
            {
                "mlm_logits": weights.astype("float32"),
                "nsp_logits": np.ones(BATCH, "float32"),
            },
        )


def distributed(strategy, examples):
    """An iterator of the batches, each replica getting its share in order."""
    examples = list(examples)
    rows = BATCH // strategy.num_replicas_in_sync
    stacked = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *examples)
    dataset = tf.data.Dataset.from_tensor_slices(stacked).batch(rows, drop_remainder=True)
    return iter(strategy.distribute_datasets_from_function(lambda context: dataset))


def make_step(strategy, dropout=0.0, clip_norm=0.05, learning_rate=1e-2, **options):
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = PretrainingModel(Encoder(config(dropout)))
        schedule = WarmupLinearDecay(learning_rate, 3, 20)
        optimizer = AdamW(trainable_variables(model), schedule, weight_decay=0.1)
    return TrainingStep(model, optimizer, strategy, clip_norm=clip_norm, **options)


def train(step, number=10, seed=0):
    iterator = distributed(step.strategy, batches(number, seed))
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


def main(cpus, path):
    device = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * cpus
    tf.config.set_logical_device_configuration(device, logical)
    step = make_step(make_strategy("mirrored"))
    result = train(step)
    extra = {"sums": result["sums"].numpy(), "norm": result["gradient_norm"].numpy()}
    np.savez(path, **weights(step), **extra, dropped=losses_of_replicas(step.strategy))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
