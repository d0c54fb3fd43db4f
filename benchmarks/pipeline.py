"""Measure how many masked examples of 128 tokens one core makes per second from raw text.

    python benchmarks/pipeline.py VOCABULARY TEXT [--peer-python PYTHON] [--rounds 3]
    python benchmarks/pipeline.py VOCABULARY TEXT --before CLONE    # beside an earlier commit

keras_bert reads, tokenizes, packs and masks with `keras_bert.pretraining`. The sides are:

- ours: the text in one block. By default, a block has up to 45 million tokens.
- blocks: blocks of a million tokens.
- before: "ours" of another clone of this repository.
- tf_data: tf.data with TensorFlow Text's own tokenizer and masking.
- np, pt: Hugging Face's fast tokenizer, run_mlm's packing and DataCollatorForLanguageModeling, with
  NumPy and with torch.
- streaming: "np" with the package datasets, which reads the text as a stream.

"np", "pt" and "streaming" need `--peer-python`: a Python with transformers, torch and datasets.

Measurements run in turns, each in a process of its own on one core. Imports and a warm-up on a part
of the text are not measured. The time is processor time, which other processes on the machine
disturb least. Printed are medians of the rounds, and of their ratios.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

LENGTH, BATCH = 128, 256
BLOCK = 2**20  # tokens
LINES = 1000
"""Lines that a peer tokenizes together."""


def ours(vocabulary, block_tokens):
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


def huggingface(vocabulary, kind, streaming=False):
    from peers import wordpiece
    from transformers import DataCollatorForLanguageModeling

    if kind == "pt":
        import torch

        torch.set_num_threads(1)
    tokenizer = wordpiece.load(vocabulary)
    collator = DataCollatorForLanguageModeling(tokenizer, return_tensors=kind)
    inside = LENGTH - 2

    def tokens_of(lines):
        encoded = tokenizer(lines, add_special_tokens=False)
        return itertools.chain.from_iterable(encoded["input_ids"])

    def rows_of(tokens):
        return [
            [tokenizer.cls_token_id, *tokens[i : i + inside], tokenizer.sep_token_id]
            for i in range(0, len(tokens) - inside + 1, inside)
        ]

    def run_in_memory(path):
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip()]
        tokens = []
        for start in range(0, len(lines), LINES):
            tokens.extend(tokens_of(lines[start : start + LINES]))
        rows = rows_of(tokens)
        for start in range(0, len(rows), BATCH):
            collator([{"input_ids": row} for row in rows[start : start + BATCH]])
        return len(rows)

    def run_streaming(path):
        import datasets

        lines = datasets.load_dataset("text", data_files=path, split="train", streaming=True)
        rows = lines.map(
            lambda batch: {"input_ids": rows_of([*tokens_of([x for x in batch["text"] if x])])},
            batched=True,
            batch_size=LINES,
            remove_columns=["text"],
        )
        examples = 0
        for batch in rows.iter(BATCH):
            collator([{"input_ids": row} for row in batch["input_ids"]])
            examples += len(batch["input_ids"])
        return examples

    return run_streaming if streaming else run_in_memory


def tensorflow_text(vocabulary):
    """Packs and masks as TensorFlow's guide to BERT's preprocessing with TF Text does."""
    import tensorflow as tf
    import tensorflow_text as tf_text

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    with open(vocabulary, encoding="utf-8") as file:
        tokens = file.read().splitlines()
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = tf_text.FastBertTokenizer(tokens, lower_case_nfd_strip_accents=True)
    inside = LENGTH - 2
    selector = tf_text.RandomItemSelector(
        max_selections_per_batch=round(0.15 * LENGTH),
        selection_rate=0.15,
        unselectable_ids=[ids["[CLS]"], ids["[SEP]"]],
    )
    chooser = tf_text.MaskValuesChooser(len(tokens), ids["[MASK]"])

    def rows_of(lines):
        tokens = tokenizer.tokenize(lines).flat_values
        rows = tf.reshape(tokens[: tf.size(tokens) // inside * inside], (-1, inside))
        rows = tf.pad(rows, [[0, 0], [1, 0]], constant_values=ids["[CLS]"])
        return tf.pad(rows, [[0, 0], [0, 1]], constant_values=ids["[SEP]"])

    def masked(rows):
        return tf_text.mask_language_model(
            tf.RaggedTensor.from_tensor(rows), item_selector=selector, mask_values_chooser=chooser
        )

    def run(path):
        lines = tf.data.TextLineDataset(path).filter(lambda line: tf.strings.length(line) > 0)
        rows = lines.batch(LINES).map(rows_of).rebatch(BATCH)
        return sum(batch[0].nrows().numpy() for batch in rows.map(masked))

    return run


WORKERS = {
    "ours": lambda vocabulary: ours(vocabulary, 2**26),
    "blocks": lambda vocabulary: ours(vocabulary, BLOCK),
    "tf_data": tensorflow_text,
    "np": lambda vocabulary: huggingface(vocabulary, "np"),
    "pt": lambda vocabulary: huggingface(vocabulary, "pt"),
    "streaming": lambda vocabulary: huggingface(vocabulary, "np", streaming=True),
}
HUGGING_FACE = ("np", "pt", "streaming")


def measure(worker, vocabulary, text):
    """Prints examples per second of processor time."""
    run = WORKERS[worker](vocabulary)
    run(text + ".warmup")
    began = time.process_time()
    examples = run(text)
    print(json.dumps(examples / (time.process_time() - began)))


def in_process(python, script, worker, vocabulary, text):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(script).resolve().parent.parent),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [python, script, vocabulary, text, "--worker", worker]
    result = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )
    if result.returncode:
        sys.exit(f"{worker} failed:\n{result.stderr[-3000:]}")
    return float(result.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocabulary", help="vocab.txt of an uncased model")
    parser.add_argument("text", help="plain text, one paragraph a line")
    parser.add_argument("--peer-python", metavar="PYTHON")
    parser.add_argument("--before", metavar="CLONE", help="another clone of this repository")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        measure(options.worker, options.vocabulary, options.text)
        return
    sides = {name: (sys.executable, __file__, name) for name in ("ours", "blocks", "tf_data")}
    if options.before:
        script = str(Path(options.before, "benchmarks", "pipeline.py"))
        sides["before"] = (sys.executable, script, "ours")
    if options.peer_python:
        sides |= {name: (options.peer_python, __file__, name) for name in HUGGING_FACE}
    warmup = options.text + ".warmup"
    with open(options.text, encoding="utf-8") as file, open(warmup, "w", encoding="utf-8") as part:
        part.writelines(itertools.islice(file, 500))
    speeds = {name: [] for name in sides}
    try:
        for _ in range(options.rounds):
            for name, side in sides.items():
                speeds[name].append(in_process(*side, options.vocabulary, options.text))
    finally:
        os.remove(warmup)
    for name, values in speeds.items():
        ratio = statistics.median(a / b for a, b in zip(speeds["ours"], values, strict=True))
        speed = f"{statistics.median(values):8.0f} examples/s per core"
        print(f"{name:10s}{speed}; ours is {ratio:.2f} times as fast")


if __name__ == "__main__":
    main()
