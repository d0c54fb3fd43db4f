"""Measure tokens per second of tokenizers on one core, beside other libraries.

    python benchmarks/tokenization.py TEXT wordpiece=VOCAB byte_pair=DIRECTORY sentencepiece=MODEL

Each round runs all tokenizers on the same lines, so other work on the machine affects all of them.
In the first round, no library has seen the words before. The median is over the other rounds: there
a library can use its cache of words. Hugging Face's `encode_batch` always computes offsets, so also
compare it with "with offsets".
"""

import argparse
import os
import statistics
import time
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import keras_hub
import tensorflow as tf
import tokenizers

from keras_bert import Preprocessor, Vocabulary, WordPiece
from keras_bert.text.byte_pair.tokenizer import BytePair
from keras_bert.text.byte_pair.training import SPECIAL_TOKENS
from keras_bert.text.files import iterate_lines
from keras_bert.text.sentencepiece.tokenizer import SentencePiece

PACKED = 128


def wordpiece(path):
    peer = tokenizers.BertWordPieceTokenizer(path, lowercase=True)
    hub = keras_hub.tokenizers.WordPieceTokenizer(path, lowercase=True)
    return WordPiece(Vocabulary.from_file(path)), peer, hub


def byte_pair(path):
    files = f"{path}/vocab.json", f"{path}/merges.txt"
    peer = tokenizers.ByteLevelBPETokenizer(*files)
    hub = keras_hub.tokenizers.BytePairTokenizer(*files)
    return BytePair.load(path, special_tokens=SPECIAL_TOKENS), peer, hub


def sentencepiece(path):
    """Returns the three tokenizers; KerasHub's and ours both call tf.text's operation."""
    ours = SentencePiece(
        Path(path).read_bytes(),
        last_tokens=["[MASK]"],
        special_tokens={
            "pad": "[PAD]",
            "unknown": "[UNK]",
            "cls": "[CLS]",
            "separator": "[SEP]",
            "mask": "[MASK]",
        },
    )
    pieces = zip(ours._read.pieces, ours._read.scores, strict=True)
    model = tokenizers.models.Unigram(list(pieces), ours.vocabulary.unknown_id)
    peer = tokenizers.Tokenizer(model)
    peer.normalizer = tokenizers.normalizers.Precompiled(ours._read.character_map)
    peer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    return ours, peer, keras_hub.tokenizers.SentencePieceTokenizer(path)


KINDS = {"wordpiece": wordpiece, "byte_pair": byte_pair, "sentencepiece": sentencepiece}
"""Kind to a function that opens its file as our tokenizer, Hugging Face's and KerasHub's."""


def in_graph(function):
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(lambda texts: function(texts), input_signature=signature)


def durations(functions, batches, rounds):
    """Measures the seconds of each round: name of function to list."""
    found = {name: [] for name in functions}
    for function in functions.values():
        function(batches[0][:1])
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            for batch in batches:
                function(batch)
            found[name].append(time.process_time() - start)
    return found


def compare(kind, path, texts, rounds):
    """Prints the table of one kind of tokenizer."""
    ours, peer, hub = KINDS[kind](path)
    strings = {id(batch): [text.decode() for text in batch.numpy()] for batch in texts}
    functions = {
        "tokenize": in_graph(ours.tokenize),
        "with offsets": in_graph(ours.tokenize_with_offsets),
        f"packed to {PACKED}": in_graph(Preprocessor(ours, PACKED)),
        "Hugging Face encode_batch": lambda batch: peer.encode_batch(
            strings.get(id(batch)) or ["a"], add_special_tokens=False
        ),
        "KerasHub": in_graph(hub),
    }
    total = sum(int(tf.size(ours.tokenize(batch).values)) for batch in texts)
    seconds = durations(functions, texts, rounds)
    first, median = (
        {name: total / of(s) / 1e6 for name, s in seconds.items()}
        for of in (lambda s: s[0], lambda s: statistics.median(s[1:] or s))
    )
    print(f"{kind}: {total:,} tokens; million tokens a second, KerasHub's time / this time")
    print(f"  {'':26s} {'first':>8s} {'median':>8s} {'first':>8s} {'median':>8s}")
    for name in functions:
        ratios = first[name] / first["KerasHub"], median[name] / median["KerasHub"]
        print(
            f"  {name:26s} {first[name]:8.2f} {median[name]:8.2f} {ratios[0]:8.1f} {ratios[1]:8.1f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="a text file, plain or .gz; a line is a text")
    parser.add_argument(
        "tokenizers",
        nargs="+",
        metavar="KIND=FILE",
        help="wordpiece=VOCAB_TXT, byte_pair=DIRECTORY, sentencepiece=MODEL",
    )
    parser.add_argument(
        "--lines", type=int, default=2000, help="number of lines, without empty ones"
    )
    parser.add_argument("--batch", type=int, default=256, help="lines of a batch")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = [line for line in iterate_lines(options.text) if line][: options.lines]
    texts = [tf.constant(lines[i : i + options.batch]) for i in range(0, len(lines), options.batch)]
    print(f"{len(lines):,} lines, {options.batch} a batch, {options.rounds} rounds, one thread")
    for argument in options.tokenizers:
        compare(*argument.split("=", 1), texts, options.rounds)


if __name__ == "__main__":
    main()
