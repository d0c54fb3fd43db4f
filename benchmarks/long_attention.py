"""Compare time and memory of ModernBERT at long sequences with transformers' SDPA attention.

    python benchmarks/long_attention.py --peer-python PYTHON       # 512 to 8,192 tokens, one text
    python benchmarks/long_attention.py --lengths 512 --layers 3   # without a peer

ModernBERT base with fewer layers and random weights, float32, one text without padding, batch 1.
Each measurement is a process: one call to compile or warm up, then the fastest of three. Memory is
the peak of the process less what it had before the first call. `--train` measures a forward and a
backward pass of the sum of the outputs. `--saved-model` measures our SavedModel, whose graph does
not know the length.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SIZES = {"hidden_size": 768, "intermediate_size": 1152, "vocab_size": 50_368}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--saved-model", action="store_true")
    parser.add_argument("--peer-python", help="a Python with torch and transformers")
    parser.add_argument("--measure", choices=["keras_bert", "transformers"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train and options.saved_model:
        parser.error("a SavedModel cannot be trained: leave out --train or --saved-model")
    if options.measure:
        print(json.dumps(measure(options)))
        return
    pythons = {"keras_bert": sys.executable, "transformers": options.peer_python}
    print("| tokens | side | s | peak memory, MB |\n|---|---|---|---|", flush=True)
    for length in options.lengths:
        for _ in range(options.rounds):
            for side, python in pythons.items():
                if python is None:
                    continue
                command = [python, str(Path(__file__).resolve()), "--measure", side]
                command += ["--lengths", str(length), "--layers", str(options.layers)]
                command += ["--train"] * options.train + ["--saved-model"] * options.saved_model
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                row = json.loads(done.stdout.strip().splitlines()[-1])
                seconds, memory = row["seconds"], row["memory"]
                print(f"| {length} | {side} | {seconds:.2f} | {memory:.0f} |", flush=True)


def measure(options: argparse.Namespace) -> dict[str, float]:
    length, layers, train = options.lengths[0], options.layers, options.train
    if options.measure == "transformers":
        run = prepare_transformers(length, layers, train)
    elif options.saved_model:
        run = prepare_saved_model(length, layers)
    else:
        run = prepare_ours(length, layers, train)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": min(times), "memory": (peak - before) / 1024}


def prepare_ours(length: int, layers: int, train: bool) -> Callable[[], object]:
    import numpy as np
    import tensorflow as tf

    import keras_bert as kb

    encoder = kb.Encoder(kb.EncoderConfig.preset("modernbert_base", num_layers=layers))
    ids = tf.constant(np.random.default_rng(0).integers(0, 50_000, (1, length)), tf.int32)
    inputs = {"token_ids": ids, "padding_mask": tf.ones_like(ids)}
    weights = [weight.value for weight in encoder.trainable_variables]

    @tf.function
    def step() -> object:
        if not train:
            return tf.reduce_sum(encoder(inputs)["sequence_output"])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(inputs, training=True)["sequence_output"])
        return [tf.reduce_sum(gradient) for gradient in tape.gradient(loss, weights)]

    return lambda: tf.nest.map_structure(lambda x: x.numpy(), step())


def prepare_saved_model(length: int, layers: int) -> Callable[[], object]:
    import tempfile

    import numpy as np
    import tensorflow as tf

    import keras_bert as kb
    from keras_bert import export

    encoder = kb.Encoder(kb.EncoderConfig.preset("modernbert_base", num_layers=layers))
    with tempfile.TemporaryDirectory() as folder:
        loaded = tf.saved_model.load(str(export.saved_model(encoder, folder)))
    ids = tf.constant(np.random.default_rng(0).integers(0, 50_000, (1, length)), tf.int32)
    inputs = {"token_ids": ids, "padding_mask": tf.ones_like(ids)}
    inputs |= {"segment_ids": tf.zeros_like(ids)}
    signature = loaded.signatures["ids"]
    names = signature.structured_input_signature[1]
    return lambda: signature(**{name: inputs[name] for name in names})["sequence_output"].numpy()


def prepare_transformers(length: int, layers: int, train: bool) -> Callable[[], object]:
    import torch
    from transformers import ModernBertConfig, ModernBertModel

    config = ModernBertConfig(num_hidden_layers=layers, attn_implementation="sdpa", **SIZES)
    model = ModernBertModel(config)
    ids = torch.randint(0, 50_000, (1, length))

    def step() -> object:
        if not train:
            with torch.inference_mode():
                return model(input_ids=ids).last_hidden_state.sum().item()
        model.zero_grad()
        model(input_ids=ids).last_hidden_state.sum().backward()
        return None

    return step


if __name__ == "__main__":
    main()
