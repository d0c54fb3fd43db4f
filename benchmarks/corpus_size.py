"""Measure memory and the time to the first batch for corpora of several sizes.

    python benchmarks/corpus_size.py --sentences 1e6 1e7 1e8 1e9 [--objective mlm+nsp] [--text]
    python benchmarks/corpus_size.py --sentences 1e6 1e7 --before CLONE

The corpus is one shard of random tokens under many names (hard links), or with `--text` one file of
random words under many names. So a corpus of 1,000 million sentences needs no disk, and a run
reads it as any other corpus. A process of its own measures each size. Its memory is the peak, less
the memory before the corpus is opened, of 10 batches from each of the first blocks. `--before`
reads with the package in a clone of commit 18970f0, which has no blocks.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SENTENCES = 600_000  # in a shard, as in 64 MB of text
LENGTH = 24.5  # tokens of a sentence
IN_DOCUMENT = 30  # sentences
VOCABULARY = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--objective", default="mlm+nsp")
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--text", action="store_true", help="raw text in place of records")
    parser.add_argument("--blocks", type=int, default=3, help="number of blocks to read")
    parser.add_argument("--before", metavar="CLONE", help="clone of a commit without blocks")
    parser.add_argument("--measure", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options)
        return
    print("| sentences | text | seconds to the first batch | MB at the first batch | peak MB |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        write_part(Path(folder), options.text)
        for sentences in options.sentences:
            names = write_corpus(Path(folder), round(sentences / SENTENCES) or 1, options.text)
            command = [sys.executable, __file__, *sys.argv[1:], "--measure", folder]
            path = {"PYTHONPATH": options.before} if options.before else {}
            done = subprocess.run(command, env=os.environ | path, capture_output=True, check=True)
            row = json.loads(done.stdout)
            shown = [f"{len(names) * SENTENCES:,}", "raw" if options.text else "records"]
            shown += [f"{row['seconds']:.1f}", f"{row['first']:,}", f"{row['peak']:,}"]
            print("|", " | ".join(shown), "|", flush=True)


def write_part(folder: Path, as_text: bool) -> None:
    """Writes the vocabulary, and the file that the corpus has many times."""
    import numpy as np

    from keras_bert.pretraining.data.corpus import Lines
    from keras_bert.pretraining.data.records import write_shard

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"word{number}" for number in range(VOCABULARY - len(special))]
    (folder / "vocab.txt").write_text("\n".join([*special, *words]) + "\n")
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 2 * LENGTH, SENTENCES).astype(np.int32)
    tokens = rng.integers(len(special), VOCABULARY, lengths.sum()).astype(np.int32)
    breaks = np.arange(IN_DOCUMENT, SENTENCES + 1, IN_DOCUMENT, np.int32)
    if not as_text:
        write_shard(folder / "part", Lines(tokens, lengths, breaks), 0)
        return
    with open(folder / "part", "w") as file:
        for number, line in enumerate(np.split(tokens, np.cumsum(lengths)[:-1]), start=1):
            file.write(" ".join(words[token - len(special)] for token in line) + "\n")
            file.write("\n" * (number % IN_DOCUMENT == 0))


def write_corpus(folder: Path, parts: int, as_text: bool) -> list[str]:
    """Gives the part more names; returns the names of all parts."""
    from keras_bert.pretraining.data import records
    from keras_bert.text.tokenizer import load_tokenizer

    names = [f"part-{number:06d}.txt" for number in range(parts)]
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for name in names:
        if not (corpus / name).exists():
            os.link(folder / "part", corpus / name)
    if not as_text:
        entries = [records.entry(corpus / names[0]) | {"name": name} for name in names]
        tokenizer = records.fingerprint(load_tokenizer(folder / "vocab.txt"))
        manifest = {"tokenizer": tokenizer, "shards": entries}
        (corpus / records.SOURCE).write_text("{}")
        (corpus / records.MANIFEST).write_text(json.dumps(manifest))
    return names


def measure(options: argparse.Namespace) -> None:
    """Prints seconds and memory of a process that reads the first blocks."""
    import tensorflow as tf

    from keras_bert.pretraining.config import PretrainingConfig
    from keras_bert.pretraining.resolve import resolve
    from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor

    tf.zeros(1)
    corpus = f"{options.measure}/corpus"
    data = {"corpus": f"{corpus}/*.txt" if options.text else corpus, "packed": options.packed}
    data |= {"vocabulary": f"{options.measure}/vocab.txt", "sequence_length": 128}
    objective = {"name": "mlm" if options.packed else options.objective}
    config = PretrainingConfig(
        output="unused", data=data, objective=objective, schedule={"steps": 1}
    )
    config = resolve(config)
    before, began = memory(), time.monotonic()
    examples, _ = make_examples(config, make_preprocessor(config))
    row = {}
    for part in [examples] if options.before else first_blocks(examples, options.blocks):
        for _ in part.dataset(256).take(10):
            row = row or {"seconds": time.monotonic() - began, "first": memory() - before}
    print(json.dumps(row | {"peak": memory() - before}))


def first_blocks(stream, number: int):
    """Yields the first blocks of the first epoch."""
    from keras_bert.pretraining.data.stream import Place

    for _, block in zip(range(number), stream.blocks(Place()), strict=False):
        yield block


def memory() -> int:
    """Returns the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000


if __name__ == "__main__":
    main()
