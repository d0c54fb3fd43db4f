"""Train on rows that are read from a CSV file while the model trains; print time and memory.

    python benchmarks/streaming.py --rows 5000000

Writes a CSV file of labeled texts of ten words, and fits a small classifier for one epoch with
`model.fit` on a `tf.data.Dataset` of batches of texts and names of labels. Prints rows per second
and the peak memory of the process, beside the memory before the training and the file's size.
"""

import argparse
import os
import random
import resource
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

WORDS = [f"word{number}" for number in range(1000)]
LABELS = ["odd", "even"]
BATCH_SIZE = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "rows.csv")
        write(path, options.rows)
        print(f"file: {path.stat().st_size / 1e6:,.0f} MB, {options.rows:,} rows")
        train(path, options.rows)


def write(path: Path, rows: int) -> None:
    """Writes texts whose label tells whether the number of their first word is even."""
    generator = random.Random(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write("text,label\n")
        for _ in range(rows):
            numbers = [int(1000 * generator.random()) for _ in range(10)]
            text = " ".join(WORDS[number] for number in numbers)
            file.write(f"{text},{LABELS[1 - numbers[0] % 2]}\n")


def train(path: Path, rows: int) -> None:
    import keras
    import tensorflow as tf

    import keras_bert as kb

    vocabulary = kb.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    config = kb.EncoderConfig(
        vocabulary_size=len(vocabulary),
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        intermediate_size=64,
    )
    model = kb.SequenceClassifier(kb.Encoder(config), labels=LABELS)
    model.preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary), sequence_length=16)
    model.compile(keras.optimizers.AdamW(1e-3), model.default_loss(), metrics=["accuracy"])
    data = tf.data.experimental.CsvDataset(str(path), [tf.string, tf.string], header=True)
    data = data.apply(tf.data.experimental.assert_cardinality(rows))
    data = data.shuffle(10_000).batch(BATCH_SIZE)
    model.fit(data.take(2), verbose=0)
    before, began = peak_megabytes(), time.monotonic()
    history = model.fit(data, verbose=0)
    seconds = time.monotonic() - began
    print(
        f"{rows / seconds:,.0f} rows/s, accuracy {history.history['accuracy'][-1]:.4f}, "
        f"peak memory {peak_megabytes():,.0f} MB, before the training {before:,.0f} MB"
    )


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
