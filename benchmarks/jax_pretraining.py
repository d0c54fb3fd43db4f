"""Compare pretraining on Keras' JAX backend with Hugging Face's BERT under torch.compile.

    python -m benchmarks.jax_pretraining                     # BERT large, 128 and 512 tokens
    python -m benchmarks.jax_pretraining --layers 2 --hidden 128 --lengths 128 --tokens 512

Needs jax, keras and safetensors, but no TensorFlow. The peer also needs torch and transformers; if
one is missing, the peer is left out. Both sides compile at the same time, then they are measured in
turns.

Both sides train on random tokens in bfloat16 with float32 weights: forward and backward pass,
clipping and AdamW, for masked tokens and the next sentence. Attention has no dropout, so both sides
can use a fused kernel; the other layers have dropout. Both get a mask for padding, although there
is no padding. keras_bert computes scores of the masked tokens only, Hugging Face's BERT of all.

MFU is the ratio to the accelerator's published peak. `throughput` of
`keras_bert.pretraining.training` knows the peaks of GPUs; for other devices, give `--peak`.
`training_flops` of the same module counts the operations of the matrix products of both sides.
`--profile DIR` writes a trace of three steps of keras_bert for each length.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.device_timing import BACKEND, PACKAGES, Prepared, Side, compare, serve, trace

if TYPE_CHECKING:
    import keras_bert as kb

VOCABULARY, LEARNING_RATE, WARMUP, STEPS = 30528, 1e-4, 10_000, 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--tokens", type=int, default=2**15, help="tokens of a batch")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout outside of attention")
    parser.add_argument("--steps", type=int, default=20, help="steps of a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peak", type=float, help="peak of all devices together, in TFLOP/s")
    parser.add_argument(
        "--no-flash", action="store_true", help="no fused attention kernel in keras_bert"
    )
    parser.add_argument("--profile", help="directory for traces of keras_bert")
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--measure", choices=list(SIDES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        serve(prepare(options), options.steps)
        return
    os.environ |= BACKEND  # the import of Keras needs it, too
    print("| | device | tokens | batch | sequences/s | ms/step | loss | MFU | faster by |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for length in options.lengths:
        command = [sys.executable, "-m", "benchmarks.jax_pretraining", *sys.argv[1:]]
        command += ["--lengths", str(length)]
        sides = {name: SIDES[name] for name in options.sides}
        print_rows(length, compare(command, sides, options.rounds), options)


def print_rows(length: int, results: dict[str, Any], options: argparse.Namespace) -> None:
    from keras_bert.pretraining.training.throughput import peak_of_gpu  # imports Keras

    batch = options.tokens // length
    for name, result in results.items():
        peak = options.peak or result["devices"] * (peak_of_gpu(result["device"]) or 0)
        used = f"{result['flops'] / result['seconds'] / peak / 1e12:.1%}" if peak else "give --peak"
        print(
            f"| {name} | {result['devices']} x {result['device']} | {length} | {batch} "
            f"| {batch / result['seconds']:.1f} | {result['seconds'] * 1e3:.1f} "
            f"| {result['result']:.3f} | {used} | {result['ratio']:.2f} |",
            flush=True,
        )


def prepare(options: argparse.Namespace) -> Prepared:
    """Makes the batch and the side's step."""
    import keras_bert as kb
    from benchmarks.synthetic import random_batch
    from keras_bert.pretraining.objectives.registry import OBJECTIVES

    length = options.lengths[0]
    batch_size, max_predictions_per_seq = options.tokens // length, int(0.15 * length) + 1
    config = kb.EncoderConfig(
        vocabulary_size=VOCABULARY,
        hidden_size=options.hidden,
        num_layers=options.layers,
        num_heads=options.hidden // 64,
        intermediate_size=4 * options.hidden,
        hidden_dropout=options.dropout,
        attention_dropout=0.0,
    )
    batch = random_batch(
        OBJECTIVES["mlm+nsp"], VOCABULARY, batch_size, length, max_predictions_per_seq
    )
    return SIDES[options.measure].prepare(config, batch, options)


def prepare_ours(config: kb.EncoderConfig, batch: Any, options: argparse.Namespace) -> Prepared:
    import jax
    import keras

    import keras_bert as kb
    from keras_bert.optimizers.schedules import WarmupLinearDecay
    from keras_bert.pretraining.training.jax_step import JaxTrainingStep, divided
    from keras_bert.pretraining.training.throughput import training_flops

    if options.no_flash:
        keras.config.disable_flash_attention()
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    policy = keras.DTypePolicy("mixed_bfloat16")
    model = kb.PretrainingModel(kb.Encoder(config, dtype=policy), dtype=policy)
    step = JaxTrainingStep(model, WarmupLinearDecay(LEARNING_RATE, WARMUP, STEPS))
    state, batch = step.start(), jax.tree.map(divided, batch)

    def run(steps: int) -> float:
        nonlocal state
        for _ in range(steps):
            state, results = step(state, batch)
        sums = jax.device_get(jax.block_until_ready((state, results))[1]["sums"])
        return float((sums[:, 0] / sums[:, 2]).sum())

    x = batch[0]
    flops = training_flops(model, *x["token_ids"].shape, x["masked_positions"].shape[1])
    assert "tensorflow" not in sys.modules

    def finish() -> None:
        if options.profile:
            trace(run, os.path.join(options.profile, str(options.lengths[0])))

    details = {"flops": flops, "device": jax.devices()[0].device_kind}
    return Prepared(run, details | {"devices": jax.device_count()}, finish)


def prepare_hugging_face(
    config: kb.EncoderConfig, batch: Any, options: argparse.Namespace
) -> Prepared:
    import torch
    from transformers import BertConfig, BertForPreTraining

    import keras_bert as kb
    from keras_bert.pretraining.training.throughput import training_flops

    device = "cuda" if torch.cuda.is_available() else "cpu"
    theirs = BertConfig(
        vocab_size=config.vocabulary_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        intermediate_size=config.intermediate_size,
        hidden_dropout_prob=config.hidden_dropout,
        attention_probs_dropout_prob=config.attention_dropout,
        attn_implementation="sdpa",
    )
    model = BertForPreTraining(theirs).to(device).train()
    torch.set_float32_matmul_precision("high")
    compiled = torch.compile(model)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
        lr=LEARNING_RATE / WARMUP,
        eps=1e-6,
        fused=True,
    )
    x, y, _ = batch
    ids, positions = (torch.tensor(x[k]).long() for k in ("token_ids", "masked_positions"))
    labels = torch.full_like(ids, -100).scatter(1, positions, torch.tensor(y["mlm_logits"]).long())
    inputs = {
        "input_ids": ids,
        "token_type_ids": torch.tensor(x["segment_ids"]).long(),
        "attention_mask": torch.tensor(x["padding_mask"]).long(),
        "labels": labels,
        "next_sentence_label": torch.tensor(y["nsp_logits"]).long(),
    }
    inputs = {name: value.to(device) for name, value in inputs.items()}

    def run(steps: int) -> float:
        for _ in range(steps):
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = compiled(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())  # waits for the device

    # The head computes scores of all positions. The formula needs only the sizes of the model.
    flops = training_flops(kb.PretrainingModel(kb.Encoder(config)), *ids.shape, ids.shape[1])
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return Prepared(run, {"flops": flops, "device": name, "devices": 1})


SIDES = {
    "keras_bert, JAX": Side(prepare_ours, PACKAGES, BACKEND),
    "Hugging Face, torch.compile": Side(
        prepare_hugging_face,
        ("torch", "transformers", *PACKAGES),
        BACKEND | {"JAX_PLATFORMS": "cpu"},  # JAX makes the batch without taking torch's memory
    ),
}


if __name__ == "__main__":
    main()
