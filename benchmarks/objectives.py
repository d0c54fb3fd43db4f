"""Show that every objective learns: a table and curves, from one file of text.

    python benchmarks/objectives.py novels.txt --output build/objectives [--only rtd] [--steps 500]

Small models train on short sequences. Each part takes some minutes on two cores and can be run
alone. If a part was interrupted, it continues; if it was finished, its results are read. The parts:

    mlm            masked tokens, with full sentences and dynamic masks (RoBERTa)
    mlm+nsp        masked tokens and the next sentence (BERT)
    mlm+sop        masked tokens and the order of two spans (ALBERT)
    rtd            replaced tokens, embeddings shared (ELECTRA)
    rtd+gdes       replaced tokens, gradients disentangled (DeBERTa-v3)
    distillation   a student of half the layers, taught by the model of `mlm`
    alone          the same student for the same steps without a teacher

The table compares the loss of masked tokens with two baselines, "unigram" and "no context": see
`baselines`. Balanced accuracy is the mean of two shares: found replaced tokens and found original
tokens. A model that calls every token original has 0.5.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import keras_bert as kb
from keras_bert.options import set_option
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.resolve import resolve
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.trainer import pretrain
from keras_bert.visualize.curves import plot_runs

SIZES = {
    "num_layers": 2,
    "hidden_size": 128,
    "num_heads": 2,
    "intermediate_size": 512,
    "embedding_size": 128,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    # With the published 0.02, all losses stayed long at the loss of token frequencies. Perhaps
    # attention then hardly differs between tokens at first, because the layers are narrow.
    "initializer_range": 0.08,
}
TEACHER = SIZES | {"num_layers": 4}
# The larger DeBERTa-v2 have a convolution beside the first layer. It sees neighbors from the first
# step. Probably neighbors show which tokens are replaced, and attention learns this late.
REPLACED = SIZES | {"convolution_size": 3}
COMMON = {
    "data.sequence_length": 32,
    "schedule.batch_size": 64,
    "optimizer.learning_rate": 1e-3,
    "data.validation_ratio": 0.05,
    "data.validation_examples": 1024,
    "logging.steps_per_loop": 20,
    "model.encoder": SIZES,
}
_REPLACED = {
    "model.encoder": REPLACED,
    "data.masking_rate": 0.4,  # if few tokens are replaced, few get a probability above one half
    "objective.generator_size": 0.25,
    "objective.generator_depth": 0.5,
}
PARTS = {
    "mlm": {
        "model.family": "roberta",
        "schedule.steps": 4000,
        "data.across_documents": True,
        "model.encoder": TEACHER,
    },
    "mlm+nsp": {"model.family": "bert", "schedule.steps": 3000, "data.sequence_length": 64},
    "mlm+sop": {"model.family": "albert", "schedule.steps": 3000, "data.masking": "ngram"},
    "rtd": {
        "model.family": "electra",
        "schedule.steps": 3000,
        "optimizer.learning_rate": 1.5e-3,
        **_REPLACED,
    },
    "rtd+gdes": {"model.family": "deberta-v2", "schedule.steps": 2000, **_REPLACED},
    "distillation": {
        "model.family": "roberta",
        "objective.name": "distillation-masked",
        "schedule.steps": 2000,
    },
    "alone": {"model.family": "roberta", "objective.name": "mlm", "schedule.steps": 2000},
}
GOALS = {
    "mlm+nsp": ("nsp_accuracy", 0.5),
    "mlm+sop": ("sop_accuracy", 0.6),
    "rtd": ("rtd_balanced_accuracy", 0.6),
    "rtd+gdes": ("rtd_balanced_accuracy", 0.6),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--output", type=Path, default=Path("build/objectives"))
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--steps", type=int, help="steps of every part; default: its own number")
    parser.add_argument("--vocabulary-size", type=int, default=2048)
    options = parser.parse_args()

    vocabulary = options.output / "vocab.txt"
    if not vocabulary.exists():
        options.output.mkdir(parents=True, exist_ok=True)
        kb.learn_vocabulary([options.corpus], options.vocabulary_size).save(vocabulary)
    parts = list(options.only)
    if "distillation" in parts:
        # `mlm` trains the teacher, and `alone` is the student without a teacher.
        parts = [*dict.fromkeys(["mlm", *parts, "alone"])]
    rows = []
    for part in parts:
        config = make_config(part, options)
        began = time.monotonic()
        results = pretrain(config, progress=sys.stderr.isatty())
        if results["model"] is None:
            sys.exit(f"{part} was interrupted; the same command continues it.")
        levels = {"mlm_loss": baselines(config)}
        if part in GOALS:
            levels[GOALS[part][0]] = {"goal": GOALS[part][1]}
        picture = options.output / f"{part}.png"
        plot_runs({part: config.output}, picture, levels=levels)
        minutes = (time.monotonic() - began) / 60
        rows.append([part, config, minutes, results["after"], levels["mlm_loss"]])
        print_table(rows)
    if "distillation" in parts:
        runs = {part: options.output / part for part in ("distillation", "alone")}
        picture = options.output / "distillation-or-alone.png"
        plot_runs(runs, picture, measures=["mlm_loss", "mlm_accuracy"])


def make_config(part: str, options: argparse.Namespace) -> PretrainingConfig:
    values = COMMON | PARTS[part]
    if part in ("distillation", "alone"):
        values["data.across_documents"] = True  # as for the teacher
    if part == "distillation":
        values["objective.teacher"] = str(options.output / "mlm" / "model")
        values["model.preset"] = "bert_tiny"  # `model.encoder` overrides all of its sizes
    steps = options.steps or values["schedule.steps"]
    values |= {
        "data.corpus": [options.corpus],
        "data.vocabulary": str(options.output / "vocab.txt"),
        "output": str(options.output / part),
        "schedule.steps": steps,
        "schedule.warmup_steps": steps // 20,
        "logging.evaluate_every": max(steps // 5, 1),
        "logging.checkpoint_every": max(steps // 2, 1),
    }
    grouped: dict[str, Any] = {}
    for name, value in values.items():
        set_option(grouped, name, value)
    return resolve(PretrainingConfig.from_dict(grouped))


def baselines(config: PretrainingConfig) -> dict[str, float]:
    """Returns the masked LM losses of two simple guesses, on the tokens of the evaluations.

    "unigram" guesses by the frequency of a token in the training text. "no context" also looks at
    the masked position itself: if it is not `[MASK]`, its token may be the original. A model with
    a lower loss than "no context" has learned from the context.
    """
    stream, validation = make_examples(config, make_preprocessor(config))
    training = stream.examples
    counts = np.bincount(training.corpus.tokens, minlength=len(training.vocabulary)) + 1.0
    share = counts / counts.sum()
    masked, random = OBJECTIVES[config.objective.name].replacement
    # A token that is not `[MASK]` stayed unchanged, or is a random replacement.
    kept = (1 - masked - random) * share
    stayed = kept / np.maximum(kept + random / len(share), 1e-30)  # 0 / 0 if all are `[MASK]`
    batches = -(-config.data.validation_examples // config.schedule.batch_size)
    total = np.zeros(3)
    for x, y, w in validation.dataset(config.schedule.batch_size).take(batches).as_numpy_iterator():
        labels, weights = (v["mlm_logits"] if isinstance(v, dict) else v for v in (y, w))
        seen = np.take_along_axis(x["token_ids"], x["masked_positions"], 1)
        trust = np.where(seen == training.vocabulary.mask_id, 0, stayed[seen])
        informed = trust * (seen == labels) + (1 - trust) * share[labels]
        losses = -np.log(share[labels]), -np.log(np.maximum(informed, 1e-30))
        total += *((loss * weights).sum() for loss in losses), weights.sum()
    return {"unigram": total[0] / total[2], "no context": total[1] / total[2]}


def print_table(rows: list) -> None:
    after = {part: measures for part, _, _, measures, _ in rows}
    print("\n| part | family | steps | minutes | held-out MLM loss | no context | goal | reached |")
    print("|---|---|---|---|---|---|---|---|")
    for part, config, minutes, measures, levels in rows:
        unigram = levels["unigram"]
        goals = [(f"below unigram {unigram:.3f}", measures["mlm_loss"] < unigram)]
        if part in GOALS:
            name, least = GOALS[part]
            goals.append((f"{name} {measures[name]:.3f} > {least}", measures[name] > least))
        if part == "distillation" and "alone" in after:
            alone = after["alone"]["mlm_loss"]
            goals.append((f"below alone {alone:.3f}", measures["mlm_loss"] < alone))
        said = "; ".join(text for text, _ in goals)
        reached = "yes" if all(holds for _, holds in goals) else "no"
        print(
            f"| {part} | {config.model.family} | {config.schedule.steps} | {minutes:.1f} "
            f"| {measures['mlm_loss']:.3f} | {levels['no context']:.3f} | {said} | {reached} |"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
