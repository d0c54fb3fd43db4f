"""Whether every objective learns: a table and curves, from one file of text.

    python benchmarks/objectives.py novels.txt --output build/objectives [--only rtd] [--steps 500]

Small models on short sequences; each part takes some minutes on two cores and can be run alone, and
a part that is run again continues or is only read. The parts:

    mlm            masked tokens, against the entropy of a model that knows only how frequent
                   each token is (RoBERTa's way: full sentences, dynamic masks)
    mlm+nsp        the same and the next sentence (BERT)
    mlm+sop        the same and the order of two stretches (ALBERT)
    rtd            replaced tokens, embeddings shared (ELECTRA)
    rtd+gdes       replaced tokens, gradients disentangled (DeBERTa-v3)
    distillation   a student of half the layers, taught by the model of `mlm`, against the same
                   student trained alone for the same steps

Balanced accuracy of replaced tokens is the mean of the shares of replaced and of original tokens
that are found, so a model that calls every token original has 0.5.
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import keras_bert as kb
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.curves import plot_runs
from keras_bert.pretraining.trainer import make_examples, make_preprocessor, pretrain

SIZES = {
    "num_layers": 4,
    "hidden_size": 128,
    "num_heads": 2,
    "intermediate_size": 512,
    "embedding_size": 128,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
COMMON = {
    "sequence_length": 64,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "validation_share": 0.05,
    "validation_examples": 1024,
    "steps_per_loop": 20,
    "encoder": SIZES,
}
PARTS = {
    "mlm": {"family": "roberta", "steps": 2400, "across_documents": True},
    "mlm+nsp": {"family": "bert", "steps": 2400},
    "mlm+sop": {"family": "albert", "steps": 2400, "masking": "ngram"},
    "rtd": {"family": "electra", "steps": 1600, "generator_size": 0.5},
    "rtd+gdes": {"family": "deberta-v2", "steps": 1000, "generator_size": 0.5},
    "distillation": {"family": "roberta", "objective": "distillation-masked", "steps": 1200},
    "alone": {"family": "roberta", "objective": "mlm", "steps": 1200},
}
GOALS = {
    "mlm+sop": ("sop_accuracy", 0.6),
    "rtd": ("rtd_balanced_accuracy", 0.6),
    "rtd+gdes": ("rtd_balanced_accuracy", 0.6),
}
CURVES = ("loss", "accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--output", type=Path, default=Path("build/objectives"))
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--steps", type=int, help="of every part, in place of its own")
    parser.add_argument("--vocabulary-size", type=int, default=4096)
    options = parser.parse_args()

    vocabulary = options.output / "vocab.txt"
    if not vocabulary.exists():
        options.output.mkdir(parents=True, exist_ok=True)
        kb.learn_vocabulary([options.corpus], options.vocabulary_size).save(vocabulary)
    parts = list(options.only)
    if "distillation" in parts:
        parts = [*dict.fromkeys(["mlm", *parts, "alone"])]  # what it needs, and what it beats
    rows = []
    for part in parts:
        config = make_config(part, options)
        began = time.monotonic()
        results = pretrain(config, progress=sys.stderr.isatty())
        unigram = unigram_loss(config)
        levels = {"mlm_loss": {"unigram": unigram}}
        if part in GOALS:
            levels[GOALS[part][0]] = {"goal": GOALS[part][1]}
        picture = options.output / f"{part}.png"
        plot_runs({part: config.output}, picture, levels=levels)
        minutes = (time.monotonic() - began) / 60
        rows.append([part, config, minutes, results["after"], unigram])
        print_table(rows)
    if "distillation" in parts:
        runs = {part: options.output / part for part in ("distillation", "alone")}
        picture = options.output / "distillation-or-alone.png"
        plot_runs(runs, picture, measures=["mlm_loss", "mlm_accuracy"])


def make_config(part: str, options: argparse.Namespace) -> PretrainingConfig:
    values = COMMON | PARTS[part]
    if part in ("distillation", "alone"):
        values["encoder"] = SIZES | {"num_layers": SIZES["num_layers"] // 2}
    if part == "distillation":
        values["teacher"] = str(options.output / "mlm" / "model")
        values["preset"] = "bert_tiny"  # whose sizes are all overridden
    steps = options.steps or values["steps"]
    return PretrainingConfig.from_dict(
        values
        | {
            "corpus": [options.corpus],
            "vocabulary": str(options.output / "vocab.txt"),
            "output": str(options.output / part),
            "steps": steps,
            "warmup_steps": steps // 20,
            "evaluate_every": max(steps // 8, 1),
            "checkpoint_every": max(steps // 2, 1),
        }
    )


def unigram_loss(config: PretrainingConfig) -> float:
    """Of the frequencies in the training text, on the same masked tokens as the evaluations."""
    training, validation = make_examples(config, make_preprocessor(config))
    counts = np.bincount(training.corpus.tokens, minlength=len(training.vocabulary)) + 1.0
    losses = -np.log(counts / counts.sum())
    batches = -(-config.validation_examples // config.batch_size)
    total = np.zeros(2)
    for _, y, w in validation.dataset(config.batch_size).take(batches).as_numpy_iterator():
        labels, weights = (v["mlm_logits"] if isinstance(v, dict) else v for v in (y, w))
        total += (losses[labels] * weights).sum(), weights.sum()
    return float(total[0] / total[1])


def print_table(rows: list) -> None:
    after = {part: measures for part, _, _, measures, _ in rows}
    print("\n| part | family | steps | minutes | held-out MLM loss | goal | reached |")
    print("|---|---|---|---|---|---|---|")
    for part, config, minutes, measures, unigram in rows:
        goals = [(f"below unigram {unigram:.3f}", measures["mlm_loss"] < unigram)]
        if part in GOALS:
            name, least = GOALS[part]
            goals.append((f"{name} {measures[name]:.3f} > {least}", measures[name] > least))
        if "nsp_accuracy" in measures:
            goals.append((f"nsp_accuracy {measures['nsp_accuracy']:.3f} > 0.5", True))
        if part == "distillation" and "alone" in after:
            alone = after["alone"]["mlm_loss"]
            goals.append((f"below alone {alone:.3f}", measures["mlm_loss"] < alone))
        said = "; ".join(text for text, _ in goals)
        reached = "yes" if all(holds for _, holds in goals) else "no"
        print(
            f"| {part} | {config.family} | {config.steps} | {minutes:.1f} "
            f"| {measures['mlm_loss']:.3f} | {said} | {reached} |"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
