"""Tokens per second of one thread: tokenizers in the graph beside those of other libraries.

python benchmarks/tokenization.py TEXT_FILE [wordpiece=VOCAB_TXT] [byte_pair=DIRECTORY]
"""

import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import keras_hub
import tensorflow as tf
import tokenizers

from keras_bert import Preprocessor, Vocabulary, WordPiece
from keras_bert.text.byte_pair import BytePair
from keras_bert.text.byte_pair_learning import SPECIAL_TOKENS
from keras_bert.text.files import iterate_lines

BATCH = 256
REPETITIONS = 3


def wordpiece(path):
    """Our tokenizer, and what others call theirs: name to function of texts."""
    peer = tokenizers.BertWordPieceTokenizer(path, lowercase=True)
    hub = keras_hub.tokenizers.WordPieceTokenizer(path, lowercase=True)
    return WordPiece(Vocabulary.from_file(path)), peer.encode_batch, hub


def byte_pair(path):
    files = f"{path}/vocab.json", f"{path}/merges.txt"
    peer = tokenizers.ByteLevelBPETokenizer(*files)
    hub = keras_hub.tokenizers.BytePairTokenizer(*files)
    return BytePair.load(path, special_tokens=SPECIAL_TOKENS), peer.encode_batch, hub


KINDS = {"wordpiece": wordpiece, "byte_pair": byte_pair}
"""Kind to a function of its files that returns our tokenizer, `tokenizers`' and KerasHub's."""


def seconds(function, batches):
    """Of the first pass, when no library remembers the words, and of the best of all."""
    function(batches[0][:1])
    durations = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        for batch in batches:
            function(batch)
        durations.append(time.process_time() - start)
    return durations[0], min(durations)


def in_graph(function):
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(lambda texts: function(texts), input_signature=signature)


def main(text_file, *files):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = [line for line in iterate_lines(text_file) if line]
    texts = [lines[i : i + BATCH] for i in range(0, len(lines), BATCH)]
    tensors = [tf.constant(batch) for batch in texts]
    print(f"{len(lines):,} lines, batches of {BATCH}, million tokens/s, first and best pass")
    for kind, path in (argument.split("=", 1) for argument in files):
        tokenizer, peer, hub = KINDS[kind](path)
        total = sum(int(tf.size(tokenizer.tokenize(batch).values)) for batch in tensors)
        runs = {
            "tokenize": (in_graph(tokenizer.tokenize), tensors),
            "tokenize_with_offsets": (in_graph(tokenizer.tokenize_with_offsets), tensors),
            "Preprocessor, 128 tokens": (in_graph(Preprocessor(tokenizer, 128)), tensors),
            "tokenizers encode_batch": (peer, texts),
            "KerasHub": (in_graph(hub), tensors),
        }
        for name, (function, batches) in runs.items():
            first, best = (total / duration / 1e6 for duration in seconds(function, batches))
            print(f"{kind:14s} {name:26s} {first:6.2f} {best:6.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
