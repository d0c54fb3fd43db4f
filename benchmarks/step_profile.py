"""Measure the processor time of the parts of a training step on one thread.

    python benchmarks/step_profile.py --weights DIR         # fine-tuning: `fit` of a classifier
    python benchmarks/step_profile.py --preset bert_mini    # pretraining: masked tokens

The parts overlap. The time of dropout is "forward" minus "forward, no dropout". The time of the
head is "forward and backward" minus "forward and backward, encoder".

"matrix products" is the time that a step would take if it only multiplied matrices. It is measured
with feed-forward layers of the model's size that have as many operations as
`keras_bert.pretraining.training.throughput` counts in the step.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import interleaved_timing
import keras
import numpy as np
import tensorflow as tf
from peers.pretraining_plan import LENGTH, MAX_PREDICTIONS
from synthetic import random_batch

import keras_bert as kb
from keras_bert.finetuning import Recipe
from keras_bert.finetuning.optimizer import adamw
from keras_bert.optimizers.distributed import AdamW
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.pretraining.objectives.losses import sum_losses
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.training.step import TrainingStep, trainable_variables
from keras_bert.pretraining.training.throughput import encoder_flops, training_flops

BATCH, SST2 = 32, 13  # texts of a batch; tokens of a text, about as in SST-2's batches

Parts = dict[str, Callable[[], object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--weights", help="fine-tuning: directory of a model of transformers")
    task.add_argument("--preset", help="pretraining: size of the masked language model")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of a part in a round")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    interleaved_timing.use_threads(options.threads)
    parts = finetuning(options.weights) if options.weights else pretraining(options.preset)
    measured = {name: [] for name in parts}
    for number in range(options.rounds + 1):
        for name, part in parts.items():
            began = time.process_time()
            for _ in range(options.repeats):
                part()
            if number:  # the first round traces graphs
                taken = (time.process_time() - began) / options.repeats
                measured[name].append(taken * 1000)
    for name, times in measured.items():
        print(f"{name:32} {statistics.median(times):7.1f} ms, lowest {min(times):.1f}")


def finetuning(weights: str) -> Parts:
    model = kb.load(weights, task="classifier", labels=["0", "1"])
    rng = np.random.default_rng(0)
    ids = tf.constant(rng.integers(1000, 30000, (BATCH, SST2)), tf.int32)
    x = {"token_ids": ids, "padding_mask": tf.ones_like(ids)}
    y = tf.constant(rng.integers(0, 2, BATCH), tf.int32)
    loss = model.default_loss()
    model.compile(adamw(model, Recipe(batch_size=BATCH), 1000), loss, jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    gradients = gradients_of(model.trainable_variables)
    batches = iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    model.make_train_function()
    return {
        "whole step of fit": lambda: model.train_function(batches),
        **parts_of(model, x, lambda outputs: loss(y, outputs)),
        "clipping and optimizer": tf.function(
            lambda: model.optimizer.apply(gradients, model.trainable_variables)
        ),
        "matrix products": products(
            model, 3 * encoder_flops(model.config, BATCH, SST2), BATCH * SST2
        ),
    }


def pretraining(preset: str) -> Parts:
    config = kb.EncoderConfig.preset(preset, pooler=False)
    model = kb.MaskedLanguageModel(kb.Encoder(config))
    objective, strategy = OBJECTIVES["mlm"], tf.distribute.get_strategy()
    optimizer = AdamW(trainable_variables(model), WarmupLinearDecay(1e-4, 0, 10**6))
    step = TrainingStep(model, optimizer, strategy, objective=objective)
    x, y, w = random_batch(objective, config.vocabulary_size, BATCH, LENGTH, MAX_PREDICTIONS)
    batches = iter(tf.data.Dataset.from_tensors((x, y, w)).repeat())
    gradients = gradients_of(model.trainable_variables)

    def update() -> None:
        clipped, _ = tf.clip_by_global_norm(gradients, step.global_clipnorm)
        strategy.run(optimizer.apply, args=(dict(zip(optimizer.variables, clipped, strict=True)),))

    def loss(outputs: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(sum_losses(objective.loss_terms, outputs, y, w)[:, 0])

    flops = training_flops(model, BATCH, LENGTH, MAX_PREDICTIONS)
    return {
        "whole step": lambda: step.train(batches, tf.constant(1)),
        **parts_of(model, x, loss),
        "clipping and optimizer": tf.function(update),
        "matrix products": products(model, flops, BATCH * LENGTH),
    }


def parts_of(model: keras.Model, x: dict, loss: Callable) -> Parts:
    """Returns the parts of the forward and the backward pass."""

    def forward(training: bool) -> Callable:
        return tf.function(lambda: model(x, training=training))

    def both(outputs: Callable, loss: Callable, variables: list) -> Callable:
        variables = [variable.value for variable in variables]

        def run() -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                value = loss(outputs(x, training=True))
            gradients = map(tf.convert_to_tensor, tape.gradient(value, variables))
            return [tf.reduce_sum(g[..., :1]) for g in gradients]

        return tf.function(run)

    encoder = model.encoder
    used = [v for v in encoder.trainable_variables if "pooler" not in v.path]
    return {
        "forward, no dropout": forward(False),
        "forward": forward(True),
        "forward and backward": both(model, loss, model.trainable_variables),
        "forward and backward, encoder": both(
            encoder, lambda outputs: tf.reduce_sum(outputs["sequence_output"]), used
        ),
    }


def gradients_of(variables: list) -> list[tf.Tensor]:
    return [tf.random.normal(variable.shape) * 1e-3 for variable in variables]


def products(model: keras.Model, flops: int, tokens: int, dtype: str = "float32") -> Callable:
    """Returns a function that only multiplies matrices, with about this number of operations.

    The products are those of feed-forward blocks in the forward and the backward pass.
    """
    narrow, wide = model.config.hidden_size, model.config.intermediate_size
    # The factors keep the values' size.
    sizes = (1.0, (tokens, narrow)), (narrow**-0.5, (narrow, wide)), (wide**-0.5, (wide, narrow))
    x, first, second = (tf.cast(factor * tf.random.normal(shape), dtype) for factor, shape in sizes)
    blocks = round(flops / (12 * tokens * narrow * wide))

    def run() -> tuple[tf.Tensor, tf.Tensor]:
        y, total = x, tf.zeros([], dtype)
        for _ in tf.range(blocks):
            inner = y @ first
            output = inner @ second
            upstream = tf.matmul(output, second, transpose_b=True)
            for left, right in ((y, upstream), (inner, output)):  # gradients of the kernels
                total += tf.reduce_sum(tf.matmul(left, right, transpose_a=True)[:1])
            y = tf.matmul(upstream, first, transpose_b=True)
        return y, total

    return tf.function(run)


if __name__ == "__main__":
    main()
