"""Tokens per second of one thread: our tokenizers in the graph beside Hugging Face's `tokenizers`.

python benchmarks/tokenization.py TEXT_FILE TOKENIZER...

A tokenizer is a vocab.txt, a directory with vocab.json and merges.txt, or a SentencePiece model.
"""

import os
import sys
import time
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tensorflow as tf
import tokenizers

from keras_bert import Preprocessor
from keras_bert.text.files import iterate_lines
from keras_bert.text.loading import load_tokenizer
from keras_bert.text.sentencepiece_model import SentencePieceModel

BATCH = 256
REPETITIONS = 3


def wordpiece(path):
    return tokenizers.BertWordPieceTokenizer(str(path), lowercase=True)


def byte_pair(path):
    return tokenizers.ByteLevelBPETokenizer(str(path / "vocab.json"), str(path / "merges.txt"))


def sentencepiece(path):
    model = SentencePieceModel.from_bytes(path.read_bytes())
    scores = list(zip(model.pieces, model.scores, strict=True))
    peer = tokenizers.Tokenizer(tokenizers.models.Unigram(scores, unk_id=model.unknown_id))
    peer.normalizer = tokenizers.normalizers.Sequence(
        [
            tokenizers.normalizers.Strip(),
            tokenizers.normalizers.Precompiled(model.character_map),
            tokenizers.normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
        ]
    )
    peer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    return peer


PEERS = {"wordpiece": wordpiece, "byte_pair": byte_pair, "sentencepiece": sentencepiece}


def seconds(function, batches):
    function(batches[0])
    durations = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        for batch in batches:
            function(batch)
        durations.append(time.process_time() - start)
    return min(durations)


def measure(path, lines):
    texts = [lines[i : i + BATCH] for i in range(0, len(lines), BATCH)]
    tensors = [tf.constant(batch) for batch in texts]
    tokenizer = load_tokenizer(path)
    peer = PEERS[tokenizer.kind](path)
    total = sum(int(tf.size(tokenizer.tokenize(batch).values)) for batch in tensors)
    signature = [tf.TensorSpec([None], tf.string)]
    ours = {
        "tokenize": tokenizer.tokenize,
        "tokenize_with_offsets": tokenizer.tokenize_with_offsets,
        "Preprocessor, 128 tokens": Preprocessor(tokenizer, 128),
    }
    durations = {
        name: seconds(tf.function(lambda x, f=f: f(x), input_signature=signature), tensors)
        for name, f in ours.items()
    }
    durations["tokenizers encode_batch"] = seconds(peer.encode_batch, texts)
    print(f"{path}: {type(tokenizer).__name__}, {total:,} tokens")
    for name, duration in durations.items():
        ratio = durations["tokenizers encode_batch"] / duration
        print(f"  {name:26s} {total / duration / 1e6:6.2f} million tokens/s {ratio:6.1f} x")


def main(text_file, *paths):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = [line for line in iterate_lines(text_file) if line]
    print(f"{len(lines):,} lines in batches of {BATCH}, CPU time of one thread")
    for path in paths:
        measure(Path(path), lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
