"""Readers and a writer of one directory: each load must be of one save.

    python -m tests.checkpoints.race --seconds 60 --readers 20 --format native

Save number k has k as the value of every weight, in its label's name and in its vocabulary, and 1
or 2 layers. Prints the number of saves, of loads, and of loads that mix two saves or fail.
"""

import argparse
import collections
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np

import keras_bert as kb
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.tokenizer import WordPiece

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def make(number):
    """The model of a save."""
    config = kb.EncoderConfig(
        vocabulary_size=8,
        hidden_size=16,
        num_layers=1 + number % 2,
        num_heads=2,
        intermediate_size=32,
        max_positions=16,
        activation="gelu_tanh",
    )
    encoder = kb.Encoder(config)
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a", "b", f"save{number}"])
    preprocessor = Preprocessor(WordPiece(vocabulary, lowercase=True), 16)
    model = kb.SequenceClassifier(
        encoder, labels=[f"save{number}", "other"], preprocessor=preprocessor
    )
    for weight in model.weights:
        weight.assign(np.full(weight.shape, number, "float32"))
    return model


def is_of_one_save(model):
    numbers = {float(value) for weight in model.weights for value in np.unique(weight)}
    number = int(min(numbers))
    return (
        numbers == {number}
        and model.config.num_layers == 1 + number % 2
        and model.labels[0] == f"save{number}"
        and f"save{number}" in model.preprocessor.vocabulary.tokens
    )


def write(directory, format, seconds, ready, counts):
    models = [make(number) for number in range(4)]
    ready.wait()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for model in models:
            kb.save(model, directory, format=format)
            counts.put("saves")


def read(directory, seconds, ready, counts):
    kb.load(directory)
    ready.wait()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            model = kb.load(directory)
        except Exception as error:
            counts.put(f"failed: {type(error).__name__}: {error}"[:200])
        else:
            counts.put("of one save" if is_of_one_save(model) else "MIXED")


def race(seconds, readers, format):
    """Outcome to its count."""
    context = multiprocessing.get_context("fork")  # without TensorFlow's import for each
    counts, ready = context.Queue(), context.Barrier(1 + readers)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "model"
        first = context.Process(target=lambda: kb.save(make(0), directory, format=format))
        first.start()
        first.join()
        arguments = (seconds, ready, counts)
        processes = [context.Process(target=write, args=(directory, format, *arguments))]
        for _ in range(readers):
            processes.append(context.Process(target=read, args=(directory, *arguments)))
        for process in processes:
            process.start()
        found = collections.Counter()
        while any(process.is_alive() for process in processes) or not counts.empty():
            if counts.empty():
                time.sleep(0.05)
            else:
                found[counts.get()] += 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--format", default="native", choices=("native", "huggingface", "google"))
    options = parser.parse_args()
    found = race(options.seconds, options.readers, options.format)
    for outcome, count in sorted(found.items()):
        print(f"{count:6d} {outcome}")
    failed = [outcome for outcome in found if outcome not in ("saves", "of one save")]
    raise SystemExit(1 if failed or not found["of one save"] else 0)


if __name__ == "__main__":
    main()
