"""Learning a byte-level byte-pair vocabulary, with the trainer of `wordpiece/training.py`."""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping

import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.text.byte_pair.files import BYTE_CHARACTERS
from keras_bert.text.byte_pair.splitting import split_words
from keras_bert.text.byte_pair.tokenizer import BytePair, in_alphabet
from keras_bert.text.files import iterate_lines
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.training import import_tokenizers, train_merges

SPECIAL_TOKENS = {
    "cls": "<s>",
    "pad": "<pad>",
    "separator": "</s>",
    "unknown": "<unk>",
    "mask": "<mask>",
}
"""RoBERTa's, in the order of their ids."""

_LINES_PER_BATCH = 4096
_LONGEST_WORD = 100  # bytes; longer ones teach nothing, and the trainer is slow on them

_logger = logging.getLogger(__name__)


def learn_byte_pair(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    size: int,
    *,
    special_tokens: Mapping[str, str] = SPECIAL_TOKENS,
    min_frequency: int = 2,
    add_prefix_space: bool = False,
) -> BytePair:
    """Learns which bytes to merge from text files; the same files, the same result.

    Args:
        files: names or globs of text files, plain or gzip.
        size: tokens to learn, special ones and the 256 bytes among them; fewer come of a small
            corpus.
        special_tokens: role to token, in the order of their ids.
        min_frequency: how often two tokens must stand together to be merged.
        add_prefix_space: as of `BytePair`.

    Raises:
        InputError: for files that cannot be used, a size too small for the bytes, or if
            `tokenizers` is not installed.
    """
    import_tokenizers()
    special = list(special_tokens.values())
    smallest = len(special) + len(BYTE_CHARACTERS)
    if size < smallest:
        raise InputError(
            f"A vocabulary of {size} tokens cannot hold all bytes: at least {smallest}."
        )
    tokens, merges = train_merges(
        count_words(iterate_lines(files), add_prefix_space=add_prefix_space),
        size - len(special),
        BYTE_CHARACTERS,
        min_frequency=min_frequency,
    )
    vocabulary = Vocabulary([*special, *tokens], **special_tokens)
    if len(vocabulary) < size:
        _logger.warning(
            "The text holds %d tokens that occur often enough, not %d.", len(vocabulary), size
        )
    return BytePair(vocabulary, merges, add_prefix_space=add_prefix_space)


def count_words(lines: Iterable[str], *, add_prefix_space: bool = False) -> Counter[str]:
    """How often each word, in the bytes' alphabet, occurs in lines of text."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def words_of(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.unique_with_counts(in_alphabet(split_words(texts).values))[::2]

    total: Counter[bytes] = Counter()
    lines = (f" {line}" if add_prefix_space and line else line for line in lines)
    while batch := list(itertools.islice(lines, _LINES_PER_BATCH)):
        words, counts = words_of(tf.constant(batch))
        for word, count in zip(words.numpy(), counts.numpy().tolist(), strict=True):
            if len(word) <= _LONGEST_WORD:
                total[word] += count
    return Counter({word.decode(): count for word, count in total.items()})
