"""Compare an encoder's inference on Keras' JAX backend with Hugging Face's under torch.compile.

    python -m benchmarks.jax_inference                       # BERT base, 128 tokens, bfloat16
    python -m benchmarks.jax_inference --layers 2 --hidden 128 --batches 1 8

Needs the packages of `benchmarks.jax_pretraining`. Weights and activations are bfloat16. Texts have
no padding, but both sides get its mask. PyTorch captures CUDA graphs (mode "reduce-overhead"), as
XLA does.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

from benchmarks.device_timing import BACKEND, PACKAGES, Prepared, Side, compare, serve, trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--steps", type=int, default=100, help="batches of a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", help="directory for traces of keras_bert")
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--measure", choices=list(SIDES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        ids = np.random.default_rng(0).integers(5, 30_000, (options.batches[0], options.length))
        serve(SIDES[options.measure].prepare(ids, options), options.steps)
        return
    print("| | device | texts | ms | texts/s | faster by |")
    print("|---|---|---|---|---|---|", flush=True)
    for batch in options.batches:
        command = [sys.executable, "-m", "benchmarks.jax_inference", *sys.argv[1:]]
        command += ["--batches", str(batch)]
        sides = {name: SIDES[name] for name in options.sides}
        for name, row in compare(command, sides, options.rounds).items():
            print(
                f"| {name} | {row['device']} | {batch} | {row['seconds'] * 1e3:.2f} "
                f"| {batch / row['seconds']:.0f} | {row['ratio']:.2f} |",
                flush=True,
            )


def prepare_ours(ids: np.ndarray, options: argparse.Namespace) -> Prepared:
    import jax

    import keras_bert as kb

    config = kb.EncoderConfig(
        vocabulary_size=30_528,
        hidden_size=options.hidden,
        num_layers=options.layers,
        num_heads=options.hidden // 64,
        intermediate_size=4 * options.hidden,
    )
    encoder = kb.Encoder(config, dtype="bfloat16")
    weights = [v.value for v in encoder.trainable_variables]
    states = [v.value for v in encoder.non_trainable_variables]

    @jax.jit
    def infer(weights: Any, x: Any) -> Any:
        return encoder.stateless_call(weights, states, x)[0]["sequence_output"]

    x = {"token_ids": ids.astype("int32"), "padding_mask": np.ones_like(ids, "int32")}
    x = jax.tree.map(jax.numpy.asarray, x)

    def run(steps: int) -> float:
        for _ in range(steps):
            outputs = infer(weights, x)
        return float(outputs[0, 0, 0])

    def finish() -> None:
        if options.profile:
            trace(run, os.path.join(options.profile, str(len(ids))))

    return Prepared(run, {"device": jax.devices()[0].device_kind}, finish)


def prepare_hugging_face(ids: np.ndarray, options: argparse.Namespace) -> Prepared:
    import torch
    from transformers import BertConfig, BertModel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = BertConfig(
        vocab_size=30_528,
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.hidden // 64,
        intermediate_size=4 * options.hidden,
        attn_implementation="sdpa",
    )
    model = BertModel(config).to(device, torch.bfloat16).eval()
    compiled = torch.compile(model, mode="reduce-overhead")
    x = {"input_ids": torch.tensor(ids), "attention_mask": torch.ones(ids.shape, dtype=torch.long)}
    x = {name: value.to(device) for name, value in x.items()}

    def run(steps: int) -> float:
        with torch.inference_mode():
            for _ in range(steps):
                outputs = compiled(**x).last_hidden_state
            return float(outputs[0, 0, 0])

    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return Prepared(run, {"device": name})


SIDES = {
    "keras_bert, JAX": Side(prepare_ours, PACKAGES, BACKEND),
    "Hugging Face, torch.compile": Side(
        prepare_hugging_face, ("torch", "transformers"), {"TOKENIZERS_PARALLELISM": "false"}
    ),
}


if __name__ == "__main__":
    main()
