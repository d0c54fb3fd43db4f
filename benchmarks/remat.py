"""Measure what rematerialization costs and saves: time and peak memory of a training step.

    python benchmarks/remat.py [--batch 32] [--length 512] [--preset bert_base] [--steps 2]
    KERAS_BACKEND=jax python benchmarks/remat.py

The model is a classifier with random weights, with AdamW and dropout. Each side has a process of
its own. Peak memory is the largest memory of the process during the steps minus its memory before
the first step, so it includes gradients and the optimizer's slots, but not the weights. On a GPU,
it is the largest memory on the device. The time is the median of the steps after the first one,
which compiles.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SIDES = ("off", "on")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", default="bert_base")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=2, help="steps to measure, after the first")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--jit-compile", action="store_true", help="XLA; JAX always has it")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--side", choices=SIDES, help="run this side, and print one JSON line")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run(options)))
        return
    print("| remat | s per step | peak MB |\n|---|---|---|")
    for side in options.sides:
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--side", side],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        result = json.loads(done.stdout.splitlines()[-1])
        print(f"| {side} | {result['seconds']:.2f} | {result['peak'] / 1e6:.0f} |", flush=True)


def run(options: argparse.Namespace) -> dict[str, float]:
    """Returns the seconds of a step and the peak of memory in bytes."""
    import keras
    import numpy as np

    import keras_bert as kb
    from keras_bert.export.worker import forget_peak, peak_memory

    keras.utils.set_random_seed(0)
    config = kb.EncoderConfig.preset(options.preset)
    encoder = kb.Encoder(config, dtype=options.dtype, remat=options.side == "on")
    model = kb.SequenceClassifier(encoder, 2)
    jit_compile = "auto" if options.jit_compile or keras.backend.backend() == "jax" else False
    model.compile(keras.optimizers.AdamW(1e-5), model.default_loss(), jit_compile=jit_compile)
    generator = np.random.default_rng(0)
    shape = (options.batch, options.length)
    inputs = {"token_ids": generator.integers(999, config.vocabulary_size, shape).astype("int32")}
    labels = generator.integers(0, 2, options.batch)
    forget_peak()
    before, seconds = peak_memory(), []
    for _ in range(options.steps + 1):
        began = time.perf_counter()
        model.train_on_batch(inputs, labels)
        seconds.append(time.perf_counter() - began)
    peak = on_device() or peak_memory() - before
    return {"seconds": statistics.median(seconds[1:]), "peak": peak}


def on_device() -> int:
    """Returns the peak of memory on the first GPU, or 0."""
    import keras

    if keras.backend.backend() == "jax":
        import jax

        return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    return tf.config.experimental.get_memory_info("GPU:0")["peak"] if gpus else 0


if __name__ == "__main__":
    main()
