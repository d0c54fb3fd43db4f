"""Tokens per second of one pretraining step, beside KerasHub's BertMaskedLM.

    python benchmarks/training_step.py [--steps 1] [--rounds 10]

Four layers of 256 (or --layers, --hidden), 30,522 tokens, batches of 32 x 128, 20 masked, dropout
0.1, AdamW, float32. Each is measured with and without XLA, in turns within one process, so that
whatever else the machine does hits all alike; the best setting of each counts. Processor time is
given too, which other processes disturb less. KerasHub runs the
faster of `train_on_batch` and `fit`. Ours also clips, counts accuracies and reads the examples from
a pipeline; the next sentence objective is left out, as KerasHub has none.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import keras_hub
import numpy as np
import tensorflow as tf

import keras_bert as kb
from keras_bert.pretraining.objectives import OBJECTIVES
from keras_bert.pretraining.optimizers import AdamW, WarmupLinearDecay
from keras_bert.pretraining.step import TrainingStep, trainable_variables

VOCABULARY = 30522


def batch(rows, length, masked, seed=0):
    rng = np.random.default_rng(seed)
    positions = rng.permuted(np.tile(np.arange(length), (rows, 1)), axis=1)[:, :masked]
    return (
        {
            "token_ids": rng.integers(5, VOCABULARY, (rows, length)).astype("int32"),
            "segment_ids": np.zeros((rows, length), "int32"),
            "padding_mask": np.ones((rows, length), "int32"),
            "masked_positions": np.sort(positions).astype("int32"),
        },
        rng.integers(5, VOCABULARY, (rows, masked)).astype("int32"),
        np.ones((rows, masked), "float32"),
    )


def ours(options, data, jit):
    config = kb.EncoderConfig(
        vocabulary_size=VOCABULARY,
        hidden_size=options.hidden,
        num_layers=options.layers,
        num_heads=options.hidden // 64,
        intermediate_size=4 * options.hidden,
        pooler=False,
    )
    model = kb.MaskedLanguageModel(kb.Encoder(config))
    optimizer = AdamW(trainable_variables(model), WarmupLinearDecay(1e-4, 0, 10**6))
    step = TrainingStep(
        model, optimizer, tf.distribute.get_strategy(), objective=OBJECTIVES["mlm"], jit=jit
    )
    iterator = iter(tf.data.Dataset.from_tensors(data).repeat().prefetch(2))

    def run(steps):
        return step.train(iterator, tf.constant(steps))["sums"].numpy()

    return run


def kerashub(options, data, jit):
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=options.layers,
        num_heads=options.hidden // 64,
        hidden_dim=options.hidden,
        intermediate_dim=4 * options.hidden,
        max_sequence_length=512,
    )
    model = keras_hub.models.BertMaskedLM(backbone=backbone, preprocessor=None)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit,
        weighted_metrics=[],
    )
    x, y, w = data
    x = {**x, "mask_positions": x["masked_positions"]}
    del x["masked_positions"]
    dataset = tf.data.Dataset.from_tensors((x, y, w)).repeat().prefetch(2)

    def fit(steps):
        model.fit(dataset, steps_per_epoch=steps, verbose=0)

    def one_by_one(steps):
        for _ in range(steps):
            model.train_on_batch(x, y, w)

    return {"fit": fit, "train_on_batch": one_by_one}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {
        "layers": 4,
        "hidden": 256,
        "batch": 32,
        "length": 128,
        "masked": 20,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--steps", type=int, default=1, help="steps per measurement")
    parser.add_argument("--rounds", type=int, default=10, help="measurements of each")
    options = parser.parse_args()
    data = batch(options.batch, options.length, options.masked)
    runs = {}
    for jit in (False, True):
        suffix = " XLA" if jit else ""
        runs[f"keras_bert{suffix}"] = ours(options, data, jit)
        for way, run in kerashub(options, data, jit).items():
            runs[f"keras_hub {way}{suffix}"] = run
    for run in runs.values():
        run(2)  # traces and compiles
    seconds = {name: [] for name in runs}  # on the clock, of the processor
    for _ in range(options.rounds):
        for name, run in runs.items():
            began = time.perf_counter(), time.process_time()
            run(options.steps)
            ended = time.perf_counter(), time.process_time()
            seconds[name].append([b - a for a, b in zip(began, ended, strict=True)])
    tokens = options.steps * options.batch * options.length
    for name, values in seconds.items():
        clock, processor = np.median(values, axis=0)
        print(
            f"{name:32s} {tokens / clock:8.0f} tokens/s, {processor / options.steps:.2f} CPU s/step"
        )
    for column, kind in enumerate(("clock", "processor time")):
        best = [
            min(
                (name for name in runs if name.startswith(package)),
                key=lambda name: np.median(seconds[name], axis=0)[column],
            )
            for package in ("keras_bert", "keras_hub")
        ]
        ratio = np.divide(*(np.array(seconds[name])[:, column] for name in reversed(best)))
        print(f"{kind}: {' / '.join(best)}: median ratio {np.median(ratio):.2f}")


if __name__ == "__main__":
    main()
