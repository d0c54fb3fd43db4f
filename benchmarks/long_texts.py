"""Classify long documents whose label depends on their last words, with windows and cut.

    python benchmarks/long_texts.py [--seeds 1 2 3]

A document has 2,000 tokens: random words, and at its end 30 words of its label. Half of the
documents have each of two labels. The encoder is small and starts from random weights. A row is at
most 128 tokens long, so a cut document has none of the words that tell its label. All sides have
the same documents and settings. The score is the accuracy of 200 test documents after the last
epoch.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import keras_bert as kb
from keras_bert.finetuning import Recipe, TextExamples, fine_tune

SIDES = {"max": "windows, max", "mean": "windows, mean", None: "cut"}
LABELS = ("left", "right")
TOKENS, LENGTH, WORDS_AT_END = 2000, 128, 30
FILLERS = [f"word{n}" for n in range(500)]
SIGNALS = {label: [f"{label}{n}" for n in range(20)] for label in LABELS}
SETTINGS = {"epochs": 6, "batch_size": 8, "learning_rate": 3e-3, "baseline": False}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--train", type=int, default=400, help="number of training documents")
    parser.add_argument("--test", type=int, default=200, help="number of test documents")
    options = parser.parse_args()
    print("| side | mean accuracy | each seed | seconds per run |")
    print("|---|---|---|---|")
    for windows, name in SIDES.items():
        scores, seconds = [], []
        for seed in options.seeds:
            start = time.perf_counter()
            scores.append(accuracy(windows, seed, options.train, options.test))
            seconds.append(time.perf_counter() - start)
        each = ", ".join(f"{score:.3f}" for score in scores)
        mean, slowest = statistics.mean(scores), max(seconds)
        print(f"| {name} | {mean:.3f} | {each} | {slowest:.0f} |", flush=True)


def accuracy(windows: str | None, seed: int, train: int, test: int) -> float:
    rng = np.random.default_rng(seed)
    examples = documents(rng, train + test)
    keras.utils.set_random_seed(seed)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FILLERS]
    tokens += [word for words in SIGNALS.values() for word in words]
    encoder = kb.Encoder(
        kb.EncoderConfig(
            vocabulary_size=len(tokens),
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            intermediate_size=64,
            max_positions=LENGTH,
        )
    )
    model = kb.SequenceClassifier(
        encoder,
        labels=LABELS,
        pooling="mean",
        windows=windows,
        preprocessor=kb.Preprocessor(kb.WordPiece(kb.Vocabulary(tokens)), LENGTH),
    )
    parts = [examples.take(range(train)), None, examples.take(range(train, train + test))]
    result = fine_tune(model, *parts, recipe=Recipe(seed=seed, **SETTINGS), verbose=0)
    return result.test["accuracy"]


def documents(rng: np.random.Generator, count: int) -> TextExamples:
    labels = [LABELS[n % 2] for n in rng.permutation(count)]
    texts = tuple(
        " ".join(
            [
                *rng.choice(FILLERS, TOKENS - WORDS_AT_END - 2),
                *rng.choice(SIGNALS[label], WORDS_AT_END),
            ]
        )
        for label in labels
    )
    return TextExamples(
        path="documents", lines=tuple(range(1, count + 1)), texts=texts, labels=tuple(labels)
    )


if __name__ == "__main__":
    main()
