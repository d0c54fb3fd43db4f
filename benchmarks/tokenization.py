"""Tokens per second of one thread: `WordPiece` in the graph beside Hugging Face's `tokenizers`.

python benchmarks/tokenization.py VOCABULARY TEXT_FILE
"""

import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tensorflow as tf
from tokenizers import BertWordPieceTokenizer

from keras_bert import Preprocessor, Vocabulary, WordPiece
from keras_bert.text.files import iterate_lines

BATCH = 256
REPETITIONS = 3


def seconds(function, batches):
    function(batches[0])
    durations = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        for batch in batches:
            function(batch)
        durations.append(time.process_time() - start)
    return min(durations)


def main(vocabulary, text_file):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = [line for line in iterate_lines(text_file) if line]
    texts = [lines[i : i + BATCH] for i in range(0, len(lines), BATCH)]
    tensors = [tf.constant(batch) for batch in texts]
    tokenizer = WordPiece(Vocabulary.from_file(vocabulary))
    peer = BertWordPieceTokenizer(vocabulary, lowercase=True)
    total = sum(int(tf.size(tokenizer.tokenize(batch).values)) for batch in tensors)

    signature = [tf.TensorSpec([None], tf.string)]
    ours = {
        "WordPiece.tokenize": tokenizer.tokenize,
        "WordPiece.tokenize_with_offsets": tokenizer.tokenize_with_offsets,
        "Preprocessor, 128 tokens": Preprocessor(tokenizer, 128),
    }
    results = {
        name: seconds(tf.function(lambda x, f=f: f(x), input_signature=signature), tensors)
        for name, f in ours.items()
    }
    results["tokenizers encode_batch"] = seconds(peer.encode_batch, texts)
    print(f"{total:,} tokens in {len(lines):,} lines, batches of {BATCH}, CPU time of one thread")
    for name, duration in results.items():
        print(f"{name:32s} {total / duration / 1e6:6.2f} million tokens/s")


if __name__ == "__main__":
    main(*sys.argv[1:])
