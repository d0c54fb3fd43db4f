"""Where a step of fine-tuning goes: parts of it alone, on one thread, in processor time.

python benchmarks/finetuning_parts.py --weights DIR
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from finetuning_speed import use_threads

import keras_bert as kb
from keras_bert.finetuning import Recipe
from keras_bert.finetuning.optimizer import adamw

BATCH, LENGTH = 32, 13  # as SST-2's batches are
ROUNDS, REPEATS = 8, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", required=True, help="a directory of transformers'")
    options = parser.parse_args()
    use_threads(1)
    parts = parts_of(kb.load(options.weights, task="classifier", labels=["0", "1"]))
    measured = {name: [] for name in parts}
    for number in range(ROUNDS + 1):
        for name, part in parts.items():
            began = time.process_time()
            for _ in range(REPEATS):
                part()
            if number:  # the first round traces
                measured[name].append((time.process_time() - began) / REPEATS * 1000)
    for name, times in measured.items():
        print(f"{name:24} {statistics.median(times):7.1f} ms, lowest {min(times):.1f}")


def parts_of(model) -> dict:
    """Name to a function without arguments."""
    rng = np.random.default_rng(0)
    ids = tf.constant(rng.integers(1000, 30000, (BATCH, LENGTH)), tf.int32)
    x = {"token_ids": ids, "padding_mask": tf.ones_like(ids)}
    y = tf.constant(rng.integers(0, 2, BATCH), tf.int32)
    loss = model.default_loss()
    model.compile(adamw(model, Recipe(batch_size=BATCH), 1000), loss, jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    variables = [variable.value for variable in model.trainable_variables]
    gradients = [tf.random.normal(variable.shape) * 1e-3 for variable in variables]
    batches = iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    model.make_train_function()

    def both_ways() -> list:
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        return [
            tf.reduce_sum(g[..., :1])
            for g in map(tf.convert_to_tensor, tape.gradient(value, variables))
        ]

    return {
        "whole step of fit": lambda: model.train_function(batches),
        "forward, no dropout": tf.function(lambda: model(x, training=False)),
        "forward": tf.function(lambda: model(x, training=True)),
        "forward and backward": tf.function(both_ways),
        "optimizer": tf.function(
            lambda: model.optimizer.apply(gradients, model.trainable_variables)
        ),
    }


if __name__ == "__main__":
    main()
