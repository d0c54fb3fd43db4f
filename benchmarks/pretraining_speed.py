"""Measure real tokens per second of pretraining: keras_bert, KerasHub and Hugging Face's run_mlm.

    python benchmarks/pretraining_speed.py CORPUS VOCABULARY --peer-python PYTHON [--rounds 3]
    python benchmarks/pretraining_speed.py ... --dtype bfloat16 --sides keras_bert limit

Trains a masked language model of 4 layers of 256 and BERT base, from random weights, on lines of
CORPUS: a text file, plain or .gz, one paragraph a line. These are equal on all sides: lines,
vocabulary, rows of at most 128 tokens, rows of a batch, 15 % masked tokens, dropout 0.1, AdamW with
clipping, precision, processors. The sides make rows in different ways:

    keras_bert              spans of whole sentences, as `keras-bert pretrain` with objective mlm
    keras_bert, packed      the same with packed=true: a row holds several documents
    keras_hub               each line a row, padded to 128 by BertMaskedLMPreprocessor, and `fit`
    keras_hub, XLA          the same compiled, which is Keras' default
    transformers, lines     each line a row, padded to the longest of its batch
    transformers, chunks    all lines joined, cut into rows of 128
    limit                   only products of matrices, as many operations as keras_bert's steps

Real tokens are tokens without padding, with `[CLS]` and `[SEP]`. Only steady training is measured.
The warm-up steps and everything before them are left out. keras_bert and transformers tokenize
before, as they do for their users; KerasHub tokenizes during the measured steps.

Both peers cut a line at 128 tokens, except in chunks. KerasHub computes scores for 20 positions of
a row, as keras_bert does, instead of its default of 96. Its GELU is the approximate one, which is
faster. Measurements run in turns, each in a process of its own. PYTHON has torch and transformers;
see `peers/pretraining.py`.
"""

import argparse
import gzip
import json
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import interleaved_timing
from peers.clock import between, now
from peers.data import chosen
from peers.plan import CLIP_NORM, EPSILON, WEIGHT_DECAY
from peers.pretraining_plan import (
    DROPOUT,
    LEARNING_RATE,
    LENGTH,
    MASKED,
    MAX_PREDICTIONS,
    SIZES,
    read_lines,
)
from peers.results import append

GOALS = {
    ("bert_mini", "float32"): {"keras_hub": 1.5, "transformers": 2.5},
    ("bert_base", "float32"): {"keras_hub": 1.5, "transformers": 1.2, "limit": 0.7},
    ("bert_mini", "bfloat16"): {"transformers": 2.0},
    ("bert_base", "bfloat16"): {"transformers": 1.8, "limit": 0.55},
}


POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
"""Keras' policy for each precision of the computations."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", help="a text file, plain or .gz")
    parser.add_argument("vocabulary", help="vocab.txt of an uncased model")
    parser.add_argument("--peer-python", help="without it, transformers is left out")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--lines", type=int, default=10_000, help="lines of the corpus")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dtype", choices=POLICIES, default="float32")
    parser.add_argument("--warmup", type=int, help="steps before the measured ones")
    parser.add_argument("--steps", type=int, help="measured steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--sides", nargs="+", help="sides to measure; default: all")
    parser.add_argument("--results", help="a file to which a line is appended for each size")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        interleaved_timing.use_threads(options.threads)
        print(json.dumps(WORKERS[options.worker](options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = write_sample(options.corpus, options.lines, Path(folder))
        for size in options.sizes:
            compare(size, text, options)


def write_sample(corpus: str, count: int, folder: Path) -> str:
    """Writes random lines, the same ones every time, in their order and their documents."""
    with (gzip.open if corpus.endswith(".gz") else open)(corpus, "rt", encoding="utf-8") as file:
        lines = list(file)
    kept = set(chosen(len(lines), min(count, len(lines))))
    path = folder / "sample.txt"
    some = (line for i, line in enumerate(lines) if i in kept or not line.strip())
    path.write_text("".join(some), "utf-8")
    return str(path)


def compare(size: str, text: str, options: argparse.Namespace) -> None:
    steps = {n: getattr(options, n) or SIZES[size][n] for n in ("warmup", "steps")}
    common = {"batch_size": options.batch_size, "threads": options.threads, **steps}
    common["dtype"] = options.dtype
    runs = interleaved_timing.run_in_turns(
        commands(size, text, common, options), options.rounds, options.threads
    )
    print(f"\n{size}: {common}, {os.cpu_count()} processors, {options.rounds} rounds\n")
    print(
        "\n".join(
            [*interleaved_timing.table(runs), "", *verdicts(GOALS[size, options.dtype], runs)]
        ),
        flush=True,
    )
    if options.results:
        append(options.results, side="pretraining speed", size=size, **common, runs=runs)


def commands(
    size: str, text: str, common: dict[str, int], options: argparse.Namespace
) -> dict[str, list[str]]:
    """Returns the command of each side."""
    numbers = [part for name, value in common.items() for part in (flag(name), str(value))]
    here = [sys.executable, __file__, text, options.vocabulary, "--sizes", size, *numbers]
    peer = str(Path(__file__).parent / "peers" / "pretraining.py")
    there = [options.peer_python, peer, text, options.vocabulary, "--size", size, *numbers]
    found = {side: [*here, "--worker", side] for side in WORKERS}
    if options.peer_python:
        found |= {f"transformers, {rows}": [*there, "--rows", rows] for rows in ("lines", "chunks")}
    return {side: c for side, c in found.items() if not options.sides or side in options.sides}


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def verdicts(goals: dict[str, float], runs: dict) -> list[str]:
    """Compares keras_bert, packed or not, with the faster side of each peer, and the limit."""
    ours = [side for side in runs if side.startswith("keras_bert")]
    lines = []
    for peer, goal in goals.items():
        theirs = [side for side in runs if side.startswith(peer)]
        if ours and theirs:
            fastest = min(theirs, key=lambda side: interleaved_timing.ratio(runs, ours[0], side))
            found = (f"{side} {interleaved_timing.ratio(runs, side, fastest):.2f}" for side in ours)
            lines.append(f"against {fastest}: {', '.join(found)} (goal {goal})")
    return lines


def ours(options: argparse.Namespace, packed: bool) -> dict[str, float]:
    """Measures the same training as `keras-bert pretrain`, without the files that it writes."""
    import tensorflow as tf

    from keras_bert.pretraining.config import PretrainingConfig
    from keras_bert.pretraining.data.stream import Place
    from keras_bert.pretraining.objectives.registry import OBJECTIVES
    from keras_bert.pretraining.resolve import encoder_config, resolve
    from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
    from keras_bert.pretraining.training.step import TrainingStep, trainable_variables
    from keras_bert.pretraining.training.trainer import make_optimizer

    config = PretrainingConfig(
        output="unused",
        data={
            "corpus": options.corpus,
            "vocabulary": options.vocabulary,
            "packed": packed,
            "validation_ratio": 0.0,
            "sequence_length": LENGTH,
            "masking_rate": MASKED,
        },
        model={
            "preset": options.sizes[0],
            "encoder": {"hidden_dropout": DROPOUT, "attention_dropout": DROPOUT},
        },
        objective={"name": "mlm"},
        optimizer={
            "learning_rate": LEARNING_RATE,
            "epsilon": EPSILON,
            "weight_decay": WEIGHT_DECAY,
            "global_clipnorm": CLIP_NORM,
        },
        schedule={"batch_size": options.batch_size, "steps": options.warmup + options.steps},
    )
    config = resolve(config)
    strategy, objective = tf.distribute.get_strategy(), OBJECTIVES[config.objective.name]
    preprocessor = make_preprocessor(config)
    training, _ = make_examples(config, preprocessor)
    encoder = encoder_config(config, len(preprocessor.vocabulary))
    model = objective.model(encoder, config, preprocessor, POLICIES[options.dtype])
    optimizer = make_optimizer(config, trainable_variables(model), options.warmup + options.steps)
    step = TrainingStep(model, optimizer, strategy, objective=objective, global_clipnorm=CLIP_NORM)
    block = next(training.blocks(Place()))
    batches = block.distributed_batches(strategy, options.batch_size)
    step.train(batches, tf.constant(options.warmup))
    began = now()
    tokens = int(step.train(batches, tf.constant(options.steps))["tokens"])
    return measured(options, tokens, began, now())


def limit(options: argparse.Namespace) -> dict[str, float]:
    """Measures products of matrices. Its tokens include padding, which is computed, too."""
    import step_profile

    import keras_bert as kb
    from keras_bert.pretraining.training.throughput import training_flops

    config = kb.EncoderConfig.preset(options.sizes[0], pooler=False)
    model, rows = kb.MaskedLanguageModel(kb.Encoder(config)), options.batch_size
    flops = training_flops(model, rows, LENGTH, MAX_PREDICTIONS)
    step = step_profile.products(model, flops, rows * LENGTH, options.dtype)
    for _ in range(options.warmup):
        step()
    began = now()
    for _ in range(options.steps):
        step()
    return measured(options, options.steps * rows * LENGTH, began, now())


def keras_hub(options: argparse.Namespace, jit: bool | str) -> dict[str, float]:
    """Trains on texts as KerasHub's documentation does."""
    import keras
    import tensorflow as tf
    from keras_hub import models

    keras.config.set_dtype_policy(POLICIES[options.dtype])
    width = SIZES[options.sizes[0]]["hidden_size"]
    tokenizer = models.BertTokenizer(vocabulary=options.vocabulary, lowercase=True)
    preprocessor = models.BertMaskedLMPreprocessor(
        tokenizer,
        sequence_length=LENGTH,
        mask_selection_rate=MASKED,
        mask_selection_length=MAX_PREDICTIONS,
    )
    backbone = models.BertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=SIZES[options.sizes[0]]["num_layers"],
        num_heads=width // 64,
        hidden_dim=width,
        intermediate_dim=4 * width,
        dropout=DROPOUT,
    )
    model = models.BertMaskedLM(backbone, preprocessor=preprocessor)
    optimizer = keras.optimizers.AdamW(
        LEARNING_RATE, weight_decay=WEIGHT_DECAY, epsilon=EPSILON, global_clipnorm=CLIP_NORM
    )
    model.compile(optimizer, jit_compile=jit)
    lines = read_lines(options.corpus)
    random.Random(1).shuffle(lines)
    texts = tf.data.Dataset.from_tensor_slices(lines).batch(options.batch_size)
    times = []

    class Clock(keras.callbacks.Callback):
        """Notes when the measured steps begin and when they end."""

        def on_train_batch_end(self, batch, logs=None):
            if batch + 1 == options.warmup:
                times.append(now())

        def on_train_end(self, logs=None):
            times.append(now())

    model.fit(texts.take(options.warmup + options.steps), callbacks=[Clock()], verbose=0)
    masks = (
        preprocessor(batch)[0]["padding_mask"]
        for batch in texts.skip(options.warmup).take(options.steps)
    )
    return measured(options, sum(int(mask.numpy().sum()) for mask in masks), *times)


def measured(
    options: argparse.Namespace, tokens: int, began: tuple, ended: tuple
) -> dict[str, float]:
    cells = options.steps * options.batch_size * LENGTH
    return {"tokens": tokens, "cells": cells, **between(began, ended)}


WORKERS = {
    "keras_bert": lambda options: ours(options, packed=False),
    "keras_bert, packed": lambda options: ours(options, packed=True),
    "keras_hub": lambda options: keras_hub(options, jit=False),
    "keras_hub, XLA": lambda options: keras_hub(options, jit="auto"),
    "limit": limit,
}


if __name__ == "__main__":
    main()
