"""Compare BERT mini and a ModernBERT with as many parameters, pretrained on the same text.

    python benchmarks/pretraining_families.py novels.txt --output build/families

Both see the same rows of 128 tokens with the same masks. The learning rate stays constant after the
warm-up, so each point of a curve is the end of a shorter run. Each model has its family's
optimizer. The models take turns, so that other programs slow down both. The tables compare the
held-out loss at equal tokens and at equal time, and OUTPUT/curves.png shows it. Time is the number
of tokens divided by the median speed of all loops, without evaluations and starts.

The same command continues an interrupted run.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import keras_bert as kb
from keras_bert.options import set_option
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.training.run_log import LOG, read_log
from keras_bert.pretraining.training.trainer import pretrain
from keras_bert.visualize.curves import plot_runs

ROWS, LENGTH = 8, 128
COMMON = {
    "model.preset": "bert_mini",
    "objective.name": "mlm",
    "data.sequence_length": LENGTH,
    "data.packed": True,
    "data.masking_rate": 0.3,
    "data.validation_ratio": 0.05,
    "data.validation_examples": 128,
    "schedule.batch_size": ROWS,
    "schedule.warmup_steps": 50,
    "schedule.lr_schedule": "constant",
    "optimizer.learning_rate": 1e-3,
    "optimizer.beta_2": 0.98,
    "logging.steps_per_loop": 8,
}
ENCODER = {"initializer_range": 0.04, "hidden_dropout": 0.0, "attention_dropout": 0.0}
MODELS: dict[str, dict[str, Any]] = {
    "BERT mini": {"model.encoder": ENCODER},
    "ModernBERT": {
        "model.family": "modernbert",
        "optimizer.name": "stable_adamw",
        "optimizer.global_clipnorm": None,
        # As many parameters as BERT mini. The window is an eighth of a row, as in the paper.
        "model.encoder": ENCODER | {"intermediate_size": 736, "attention_window": 8},
    },
}
PARAMETERS_DIFFER_BY = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--output", type=Path, default=Path("build/families"))
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=2, help="number of turns of each model")
    parser.add_argument("--vocabulary-size", type=int, default=4096)
    options = parser.parse_args()

    vocabulary = options.output / "vocab.txt"
    if not vocabulary.exists():
        options.output.mkdir(parents=True, exist_ok=True)
        kb.learn_vocabulary([options.corpus], options.vocabulary_size).save(vocabulary)
    outputs = {name: options.output / name.replace(" ", "-").lower() for name in MODELS}
    for turn in range(1, options.rounds + 1):
        for name in list(MODELS) if turn % 2 else list(reversed(MODELS)):
            steps = options.steps * turn // options.rounds
            config = make_config(name, options, outputs[name], steps)
            if pretrain(config, progress=sys.stderr.isatty())["model"] is None:
                sys.exit(f"{name} was interrupted; the same command continues it.")
    plot_runs(outputs, options.output / "curves.png", measures=["mlm_loss", "mlm_accuracy"])
    parameters = {name: kb.load(path / "model").count_params() for name, path in outputs.items()}
    print_tables({name: read_log(path / LOG) for name, path in outputs.items()}, parameters)


def make_config(
    name: str, options: argparse.Namespace, output: Path, steps: int
) -> PretrainingConfig:
    """Returns the configuration of a model's run up to the end of a turn."""
    values = COMMON | MODELS[name]
    values |= {
        "data.corpus": [options.corpus],
        "data.vocabulary": str(options.output / "vocab.txt"),
        "output": str(output),
        "schedule.steps": steps,
        "logging.evaluate_every": max(options.steps // options.rounds // 2, 1),
    }
    grouped: dict[str, Any] = {}
    for option, value in values.items():
        set_option(grouped, option, value)
    return PretrainingConfig.from_dict(grouped)


def print_tables(logs: dict[str, list[dict[str, Any]]], parameters: dict[str, int]) -> None:
    """Prints the speed of each model and its held-out loss at equal tokens and equal time."""
    counts = list(parameters.values())
    if max(counts) / min(counts) - 1 > PARAMETERS_DIFFER_BY:
        sys.exit(f"The models do not have equally many parameters: {parameters}.")
    tokens, losses, speeds = {}, {}, {}
    print("| model | parameters | tokens/s, median | lowest, highest |\n|---|---|---|---|")
    for name, log in logs.items():
        rows = [row for row in log if row["event"] == "validation"]
        tokens[name] = np.array([row["step"] * ROWS * LENGTH for row in rows], float)
        losses[name] = np.array([row["mlm_loss"] for row in rows])
        found = [row["tokens_per_second"] for row in log if row["event"] == "train"]
        speeds[name] = statistics.median(found)
        spread = f"{min(found):.0f}, {max(found):.0f}"
        print(f"| {name} | {parameters[name]:,} | {speeds[name]:.0f} | {spread} |")
    names = list(logs)
    print(f"\n| tokens | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for index, number in enumerate(tokens[names[0]]):
        print(f"| {number:,.0f} | {' | '.join(f'{losses[n][index]:.3f}' for n in names)} |")
    seconds = {name: tokens[name] / speeds[name] for name in names}
    print(f"\n| minutes | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for time in np.linspace(0, min(times[-1] for times in seconds.values()), 9):
        cells = (f"{np.interp(time, seconds[n], losses[n]):.3f}" for n in names)
        print(f"| {time / 60:.2f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
