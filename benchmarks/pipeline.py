"""Measure how many masked examples of 128 tokens one core makes per second from raw text.

    python benchmarks/pipeline.py VOCABULARY TEXT [--peer-python PYTHON] [--rounds 3]

keras_bert reads, tokenizes, packs and masks with `keras_bert.pretraining`: "ours" has the text in
one block, "blocks" streams it in blocks of a million tokens. The peer is Hugging Face's fast
tokenizer with run_mlm's packing and DataCollatorForLanguageModeling. The collator runs with NumPy
and, if torch is installed, with torch; the faster one is compared. `--peer-python` names a Python
with transformers, if this one has none.

Measurements run in turns, each in a process of its own on one core. Imports and a warm-up on a part
of the text are not measured. The time is processor time, which other processes on the machine
disturb least.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

LENGTH, BATCH = 128, 256
BLOCK = 2**20  # tokens


def ours(vocabulary, text, block_tokens):
    import tensorflow as tf

    from keras_bert import Vocabulary, WordPiece
    from keras_bert.pretraining.data.input_pipeline import Examples
    from keras_bert.pretraining.data.masking import TokenMasking
    from keras_bert.pretraining.data.sources import open_source
    from keras_bert.pretraining.data.stream import ExampleStream, Place
    from keras_bert.pretraining.objectives.registry import OBJECTIVES

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tokenizer = WordPiece(Vocabulary.from_file(vocabulary))
    vocabulary = tokenizer.vocabulary
    masking = TokenMasking(
        mask_id=vocabulary.mask_id,
        special_ids=vocabulary.special_ids,
        is_continuation=tokenizer.is_continuation,
    )

    def run(path):
        stream = ExampleStream(
            open_source([path], tokenizer, block_tokens=block_tokens),
            lambda corpus: Examples(
                corpus=corpus,
                vocabulary=vocabulary,
                masking=masking,
                sequence_length=LENGTH,
                objective=OBJECTIVES["mlm"],
            ),
        )
        examples = 0
        for block in stream.blocks(Place()):
            for _ in block.dataset(BATCH):
                pass
            examples += len(block)
            if block.next_place.epoch:
                break
        return examples

    return run


def huggingface(vocabulary, text, kind):
    from peers import wordpiece
    from transformers import DataCollatorForLanguageModeling

    if kind == "pt":
        import torch

        torch.set_num_threads(1)
    tokenizer = wordpiece.load(vocabulary)
    collator = DataCollatorForLanguageModeling(tokenizer, return_tensors=kind)
    inside = LENGTH - 2

    def run(path):
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip()]
        tokens = []
        for start in range(0, len(lines), 1000):
            encoded = tokenizer(lines[start : start + 1000], add_special_tokens=False)
            tokens.extend(itertools.chain.from_iterable(encoded["input_ids"]))
        rows = [
            {"input_ids": [tokenizer.cls_token_id, *tokens[i : i + inside], tokenizer.sep_token_id]}
            for i in range(0, len(tokens) - inside + 1, inside)
        ]
        for start in range(0, len(rows), BATCH):
            collator(rows[start : start + BATCH])
        return len(rows)

    return run


def measure(worker, vocabulary, text):
    """Prints examples per second of processor time."""
    make = {
        "ours": lambda *paths: ours(*paths, 2**26),
        "blocks": lambda *paths: ours(*paths, BLOCK),
        "np": lambda *paths: huggingface(*paths, "np"),
        "pt": lambda *paths: huggingface(*paths, "pt"),
    }[worker]
    run = make(vocabulary, text)
    run(text + ".warmup")
    began = time.process_time()
    examples = run(text)
    print(json.dumps(examples / (time.process_time() - began)))


def in_process(python, worker, vocabulary, text):
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [python, __file__, vocabulary, text, "--worker", worker]
    result = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )
    if result.returncode:
        return result.stderr.strip().splitlines()[-1]
    return float(result.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocabulary", help="vocab.txt of an uncased model")
    parser.add_argument("text", help="plain text, one paragraph a line")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=("ours", "blocks", "np", "pt"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        measure(options.worker, options.vocabulary, options.text)
        return
    warmup = options.text + ".warmup"
    with open(options.text, encoding="utf-8") as file, open(warmup, "w", encoding="utf-8") as part:
        part.writelines(itertools.islice(file, 500))
    pythons = dict.fromkeys(("ours", "blocks"), sys.executable)
    pythons |= dict.fromkeys(("np", "pt"), options.peer_python)
    speeds = {worker: [] for worker in pythons}
    try:
        for _ in range(options.rounds):
            for worker, python in pythons.items():
                speed = in_process(python, worker, options.vocabulary, options.text)
                if isinstance(speed, str):
                    print(f"{worker}: {speed}")
                else:
                    speeds[worker].append(speed)
    finally:
        os.remove(warmup)
    for worker, values in speeds.items():
        if values:
            print(f"{worker:8s} {statistics.median(values):8.0f} examples/s per core (median)")
    peers = [values for worker, values in speeds.items() if worker in ("np", "pt") and values]
    if not peers or not speeds["ours"]:
        sys.exit("Nothing to compare with: give --peer-python a Python that has transformers.")
    peer = max(peers, key=statistics.median)
    ratios = [a / b for a, b in zip(speeds["blocks"], speeds["ours"], strict=True)]
    print(f"median ratio of blocks to ours {statistics.median(ratios):.2f}")
    ratios = [a / b for a, b in zip(speeds["ours"], peer, strict=True)]
    print(f"median ratio to the faster peer {statistics.median(ratios):.1f}")


if __name__ == "__main__":
    main()
