"""Pretrain a small BERT on two cores in about two hours, and measure what it has learned.

    python benchmarks/real_pretraining.py novels.txt.gz SST2 --output build/real

Learns a vocabulary from the text and runs the recipes "fast_short" and "fast" (BERT mini). Every
47th document is held out. SST2 is a folder with train.tsv and dev.tsv. OUTPUT/results.md shows:

- the perplexity of held-out text over time, as a picture,
- masks that the model fills,
- the accuracy on SST-2 of the pretrained and of the untrained model, both fine-tuned with the same
  three seeds.

The same command continues an interrupted run.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

import keras_bert as kb
from keras_bert.atomic import replacing
from keras_bert.finetuning import Recipe, evaluate, fine_tune, label_names, read_examples
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.recipes import read_config
from keras_bert.pretraining.training.run_log import LOG, read_log
from keras_bert.pretraining.training.trainer import pretrain
from keras_bert.tasks.fill_mask import fill_mask
from keras_bert.text.files import iterate_lines
from keras_bert.visualize.plotting import panels, save_figure

MASKED = [
    "She opened the [MASK] and looked out at the garden.",
    "He put on his [MASK] and went out into the rain.",
    '"I do not [MASK] you," said the captain angrily.',
    "They sat by the fire and drank [MASK] until midnight.",
    "The king and the [MASK] were married in the spring.",
    "He had been a soldier for twenty [MASK].",
]
FINE_TUNING = Recipe(epochs=2, batch_size=32, learning_rate=3e-4, warmup=0.1)
SEEDS = (1, 2, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("sst2", type=Path)
    parser.add_argument("--output", type=Path, default=Path("build/real"))
    parser.add_argument("--steps", type=int, nargs=2, help="steps of the two recipes")
    parser.add_argument("--vocabulary-size", type=int, default=8192)
    parser.add_argument(
        "--examples", type=int, help="number of examples of SST-2, to try the script"
    )
    options = parser.parse_args()
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)

    texts = {part: folder / f"{part}.txt" for part in ("training", "held_out")}
    if not texts["training"].exists():  # this file is written last
        hold_out(options.corpus, *texts.values())
    vocabulary = folder / "vocab.txt"
    if not vocabulary.exists():
        kb.learn_vocabulary([texts["training"]], options.vocabulary_size).save(vocabulary)
    beginnings = {
        "fast_short": [f"data.vocabulary={vocabulary}"],
        "fast": ["model.preset=null", f"model.init_checkpoint={folder / 'fast_short' / 'model'}"],
    }
    runs = {}
    lengths = options.steps or (None, None)
    for (name, beginning), steps in zip(beginnings.items(), lengths, strict=True):
        given = [
            f"data.corpus={texts['training']}",
            f"data.validation={texts['held_out']}",
            f"output={folder / name}",
            "logging.evaluate_every=250",
            "logging.checkpoint_every=250",
        ]
        if steps:
            given.append(f"schedule.steps={steps}")
        config = read_config(name, given + beginning)
        results = pretrain(config, progress=sys.stderr.isatty())
        if not results["finished"]:
            sys.exit("Interrupted; the same command continues the run.")
        runs[f"{name}, {config.data.sequence_length} tokens"] = config
    measures = held_out_measures(runs)
    draw(measures, folder / "perplexity.png")
    pretrained, untrained = kb.load(results["model"]), folder / "untrained"
    keras.utils.set_random_seed(config.seed)
    kb.save(
        kb.MaskedLanguageModel(
            kb.Encoder(pretrained.encoder.config), preprocessor=pretrained.preprocessor
        ),
        untrained,
    )
    sections = [
        "# A pretraining of BERT mini",
        pretraining_table(measures),
        "![perplexity](perplexity.png)",
        mask_table(pretrained),
        accuracy_table({"pretrained": results["model"], "untrained": untrained}, options),
    ]
    page = "\n\n".join(sections) + "\n"
    (folder / "results.md").write_text(page, encoding="utf-8")
    print(page)


def hold_out(corpus: str, training: Path, held_out: Path) -> None:
    """Divides a text into training documents and held-out documents (every 47th)."""
    with (
        replacing(training) as learned,
        replacing(held_out) as kept,
        learned.open("w", encoding="utf-8") as learned_file,
        kept.open("w", encoding="utf-8") as kept_file,
    ):
        documents = 0
        for line in iterate_lines(corpus):
            file = kept_file if documents % 47 == 46 else learned_file
            file.write(line + "\n")
            documents += not line
        if documents < 47:
            sys.exit(
                f"{corpus} has {documents} documents, each ended by a blank line; give 47 or more, "
                "since every 47th is held out."
            )


def held_out_measures(runs: dict[str, PretrainingConfig]) -> list[dict[str, Any]]:
    """Returns the held-out measures of the log, with the minutes of training before each."""
    found, minutes = [], 0.0
    for name, config in runs.items():
        before = 0
        for row in read_log(Path(config.output) / LOG):
            if row["event"] == "train":
                tokens = (row["step"] - before) * row["batch_size"] * config.data.sequence_length
                minutes += tokens * (1 - row["padding"]) / row["tokens_per_second"] / 60
                before = row["step"]
            elif row["event"] == "validation":
                found.append(row | {"run": name, "minutes": minutes})
    return found


def pretraining_table(measures: list[dict[str, Any]]) -> str:
    rows = [
        "| recipe | step | minutes | held-out perplexity | accuracy of masked tokens |",
        "|---|---|---|---|---|",
    ]
    rows += [
        f"| {row['run']} | {row['step']} | {row['minutes']:.0f} | {row['mlm_perplexity']:.1f} "
        f"| {row['mlm_accuracy']:.3f} |"
        for row in measures
    ]
    return "\n".join(rows)


def draw(measures: list[dict[str, Any]], picture: Path) -> None:
    figure, axes = panels(2, height=3.6)
    for axis, name in zip(axes, ("mlm_perplexity", "mlm_accuracy"), strict=True):
        for run in dict.fromkeys(row["run"] for row in measures):
            points = [(row["minutes"], row[name]) for row in measures if row["run"] == run]
            axis.plot(*zip(*points, strict=True), marker=".", label=run)
        axis.set(title=f"{name.replace('_', ' ')}, held out", xlabel="minutes of training")
        axis.legend()
    axes[0].set_yscale("log")
    save_figure(figure, picture)


def mask_table(model: keras.Model) -> str:
    rows = ["| text | most likely tokens |", "|---|---|"]
    for text, (guesses, *_) in zip(MASKED, fill_mask(model, MASKED), strict=True):
        said = ", ".join(f"{guess['token']} {guess['score']:.2f}" for guess in guesses)
        rows.append(f"| {text} | {said} |")
    return "\n".join(rows)


def accuracy_table(models: dict[str, str | Path], options: argparse.Namespace) -> str:
    train, test = (read_examples(options.sst2 / f"{part}.tsv") for part in ("train", "dev"))
    if options.examples:
        train = train.take(range(min(options.examples, len(train))))
    labels = label_names(train, "single_label")
    rows = [
        f"| SST-2, {FINE_TUNING.epochs} epochs | mean accuracy on dev | each seed |",
        "|---|---|---|",
    ]
    for name, directory in models.items():
        found = []
        for seed in SEEDS:
            keras.utils.set_random_seed(seed)
            model = kb.load(directory, task="classifier", labels=labels)
            fine_tune(model, train, recipe=FINE_TUNING.model_copy(update={"seed": seed}), verbose=0)
            found.append(evaluate(model, test)["accuracy"])
        each = ", ".join(f"{accuracy:.4f}" for accuracy in found)
        rows.append(f"| {name} | {statistics.mean(found):.4f} | {each} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
