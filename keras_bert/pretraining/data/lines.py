"""Lines of text as tokens, and where in long ones units may be cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.text.rows import numbers_of
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

LINES_PER_BATCH = 1024
SENTENCE_END = (".", "!", "?", "…", "。", "！", "？", "۔", "।")
CLOSING = ('"', "'", ")", "]", "}", "”", "’", "»", "」", "』", "）")


class Lines(NamedTuple):
    """A text, or a part of one that is cut at lines; lines without tokens count as none.

    Attributes:
        tokens: `[N]` int32, those of all lines one after the other.
        lengths: `[L]` int32, tokens per line.
        breaks: `[K]` int32, numbers of the lines before which a document ends; L where one ends
            with the last line.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    breaks: np.ndarray


def tokenize_lines(lines: Iterable[str], tokenizer: Tokenizer) -> Lines:
    """Tokenizes lines; `""` ends a document."""

    def batches() -> Iterator[list[bytes]]:
        iterator = iter(lines)
        while batch := list(islice(iterator, LINES_PER_BATCH)):
            yield [line.encode("utf-8", "replace") for line in batch]

    def tokenize_batch(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        ids = tokenizer.tokenize(batch)
        return ids.flat_values, ids.row_lengths(), tf.equal(batch, "")

    # An error raised in a generator would reach the caller wrapped by TensorFlow.
    failures: list[Exception] = []

    def guarded() -> Iterator[list[bytes]]:
        try:
            yield from batches()
        except InputError as error:
            failures.append(error)

    dataset = tf.data.Dataset.from_generator(
        guarded, output_signature=tf.TensorSpec([None], tf.string)
    )
    dataset = dataset.map(tokenize_batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    parts = list(dataset.as_numpy_iterator())
    if failures:
        raise failures[0]
    if not parts:
        return Lines(*np.zeros((3, 0), np.int32))
    tokens, lengths, blank = (np.concatenate(column) for column in zip(*parts, strict=True))
    breaks = np.cumsum(lengths > 0)[blank]
    return Lines(tokens, lengths[lengths > 0].astype(np.int32), breaks.astype(np.int32))


def unit_starts(
    lines: Lines, line_starts: np.ndarray, tokenizer: Tokenizer, max_tokens: int
) -> np.ndarray:
    """Indices `[U]` at which units begin: at lines, inside long lines also at sentences."""
    tokens = lines.tokens
    word_start = ~tokenizer.is_continuation[tokens]
    length = np.diff(line_starts, append=len(tokens))
    is_long = np.repeat(length > max_tokens, length)
    starts = is_long & word_start & _after_sentence(tokens, tokenizer.vocabulary)
    starts[line_starts] = True
    positions = np.flatnonzero(starts)

    length = np.diff(positions, append=len(tokens))
    pieces = -(-length // max_tokens)
    offset = np.repeat(length, pieces) * numbers_of(pieces) // np.repeat(pieces, pieces)
    cuts = np.repeat(positions, pieces) + offset
    words = np.flatnonzero(word_start | starts)
    before = words[np.searchsorted(words, cuts, side="right") - 1]
    # A word as long as a unit has to be cut itself.
    return np.unique(np.where(cuts - before < max_tokens, before, cuts))


def _after_sentence(tokens: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """`[N]` bool: tokens that follow final punctuation and the quotes and brackets it closes."""
    final = _is_one_of(tokens, SENTENCE_END, vocabulary)
    closing = _is_one_of(tokens, CLOSING, vocabulary)
    ended = final.copy()
    ended[1:] |= closing[1:] & final[:-1]
    result = np.zeros(len(tokens), bool)
    result[1:] = ended[:-1] & ~(final | closing)[1:]
    return result


def _is_one_of(tokens: np.ndarray, marks: Sequence[str], vocabulary: Vocabulary) -> np.ndarray:
    table = np.zeros(len(vocabulary), bool)
    table[[vocabulary.id_of(mark) for mark in marks if mark in vocabulary]] = True
    return table[tokens]
