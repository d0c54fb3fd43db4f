"""Measure packed, masked rows of 128 tokens per second, from text and from records.

    python benchmarks/packing.py VOCABULARY TEXT [--cores 1 2] [--rounds 1]

First prints the share of padding, with and without packing, for TEXT as it is and for TEXT with
each line as a document.

Then prints the speed. For text, the time includes reading and tokenizing. For records, which are
tokenized before, the time includes opening them. Each measurement runs in a process of its own on
the given number of cores. Imports and a warm-up on a part of the text are not measured. The first
number is by processor time, which other processes on the machine disturb least, the second by the
clock.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LENGTH, BATCH = 128, 256


def run(vocabulary, source, packed=True):
    """Makes all rows of an epoch; returns their number and their share of padding."""
    from keras_bert.pretraining.config import PretrainingConfig
    from keras_bert.pretraining.resolve import resolve
    from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor

    config = PretrainingConfig(
        output="unused",
        data={
            "corpus": str(source),
            "vocabulary": str(vocabulary),
            "packed": packed,
            "sequence_length": LENGTH,
            "validation_ratio": 0.0,
        },
        objective={"name": "mlm"},
        schedule={"steps": 1},
    )
    config = resolve(config)
    examples = make_examples(config, make_preprocessor(config))[0].examples
    index = examples.example_index(0)
    for _ in examples.dataset(BATCH, example_index=index):
        pass
    spans = len(index.start) if packed else len(index)
    tokens = len(examples.corpus.tokens) + 2 * spans
    return len(index), 1 - tokens / (len(index) * LENGTH)


def measure(vocabulary, source, cores):
    """Prints rows per second by processor time and by the clock."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    run(vocabulary, source + ".warmup")
    processor, clock = time.process_time(), time.perf_counter()
    rows, _ = run(vocabulary, source)
    print(
        json.dumps([rows / (time.process_time() - processor), rows / (time.perf_counter() - clock)])
    )


def in_process(arguments, cores):
    result = subprocess.run(
        [sys.executable, __file__, *map(str, arguments), "--worker", str(cores)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, range(cores)),
    )
    return json.loads(result.stdout.splitlines()[-1])


def tokenized(vocabulary, text, output):
    from keras_bert.pretraining.data.tokenization import MEGABYTE, tokenize
    from keras_bert.text.tokenizer import load_tokenizer

    options = {"workers": 1, "shard_size": 8 * MEGABYTE, "progress": False}
    return tokenize(text, load_tokenizer(vocabulary), output, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocabulary", help="vocab.txt of an uncased model")
    parser.add_argument("text", help="plain text, one paragraph a line")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        measure(options.vocabulary, options.text, options.worker)
        return
    with tempfile.TemporaryDirectory() as folder:
        text, lines = Path(folder, "text"), Path(folder, "lines")
        with open(options.text, encoding="utf-8") as file:
            content = file.readlines()
        text.write_text("".join(content))
        Path(folder, "text.warmup").write_text("".join(content[:500]))
        lines.write_text("\n".join(content))
        for name, path in (("as it is", text), ("each line a document", lines)):
            for packed in (False, True):
                rows, padding = run(options.vocabulary, path, packed)
                how = "packed" if packed else "alone"
                print(f"{name}, {how}: {rows} rows, {padding:.1%} padding", flush=True)
        records = Path(folder, "records")
        tokenized(options.vocabulary, text, records)
        tokenized(options.vocabulary, f"{text}.warmup", f"{records}.warmup")
        for source in (text, records):
            for cores, _ in itertools.product(options.cores, range(options.rounds)):
                per_processor, per_second = in_process([options.vocabulary, source], cores)
                print(
                    f"{source.name}, cores {cores}: {per_processor:.0f} rows/s of processor time, "
                    f"{per_second:.0f} by the clock, load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
