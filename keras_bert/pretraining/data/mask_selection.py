"""Selects the tokens to predict: at random, and the same tokens for the same keys."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.pretraining.data.random_bits import Purpose, random_bits, uniform


class MaskingUnit(NamedTuple):
    """Unit of masking: spans of whole words, or of tokens."""

    lengths: tuple[float, ...] = (1.0,)
    """Relative frequencies of spans of 1, 2, ... words."""
    of_words: bool = True
    """Whether a word is taken as a whole, or every token is a word of its own."""
    replaced_together: bool = False
    """Whether all tokens of a span become `[MASK]`, or are all replaced or all kept."""


MASKING_UNITS = {
    # BERT (https://arxiv.org/abs/1810.04805), and its whole-word masking of 2019.
    "token": MaskingUnit(of_words=False),
    "word": MaskingUnit(),
    # ALBERT (https://arxiv.org/abs/1909.11942): n-grams with p(n) ~ 1/n.
    "ngram": MaskingUnit(lengths=(1, 1 / 2, 1 / 3)),
    # SpanBERT (https://arxiv.org/abs/1907.10529): geometric(0.2), clipped at 10; 3.8 on average.
    "span": MaskingUnit(lengths=tuple(0.8**n for n in range(10)), replaced_together=True),
}
"""Units of masking by name."""


def select_masked_tokens(
    unit: MaskingUnit,
    candidate: tf.Tensor,
    continues: tf.Tensor,
    row: tf.Tensor,
    count: tf.Tensor,
    max_predictions_per_seq: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Selects `count` tokens of each example, or a few less if no other word fits.

    Args:
        unit: unit of masking.
        candidate: bool `[B, T]`, tokens that may be selected.
        continues: bool `[B, T]`, tokens that continue a word.
        row: `[B, 1]`, keys of the examples' random numbers.
        count: `[B, 1]` int32, at most `max_predictions_per_seq`.
        max_predictions_per_seq: number P of positions.

    Returns:
        positions `[B, P]` int32; bool `[B, P]`, true for selected ones; and numbers `[B, P]` that
        tell the spans of an example apart.
    """
    if not unit.of_words:
        return _select_tokens(candidate, row, count, max_predictions_per_seq)
    return _select_words(unit, candidate, continues, row, count, max_predictions_per_seq)


def _select_tokens(
    candidate: tf.Tensor, row: tf.Tensor, count: tf.Tensor, max_predictions_per_seq: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Selects the positions with the highest random scores."""
    score = tf.where(candidate, _score(row, tf.range(candidate.shape[1])), -1)
    _, positions = tf.math.top_k(score, max_predictions_per_seq)
    return positions, tf.range(max_predictions_per_seq) < count, positions


def _select_words(
    unit: MaskingUnit,
    candidate: tf.Tensor,
    continues: tf.Tensor,
    row: tf.Tensor,
    count: tf.Tensor,
    max_predictions_per_seq: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Selects spans in random order until `count` tokens are taken; cuts the last one to fit.

    If every word exceeds the prediction limit, treats each token as a word.
    """
    length = candidate.shape[1]
    first = ~candidate | ~continues
    first |= ~tf.pad(candidate, [[0, 0], [1, 0]])[:, :length]  # what follows a special token
    _, size = _number_words(first, candidate)
    some_fit = tf.reduce_any((size > 0) & (size <= max_predictions_per_seq), axis=1, keepdims=True)
    word, size = _number_words(first | ~some_fit, candidate)
    score = score_words(unit, size > 0, row)
    taken = _first_that_fit(score, size, count, min(2 * max_predictions_per_seq, length))
    score = tf.where(candidate, tf.gather(tf.where(taken, score, 0), word, batch_dims=1), 0)
    # In the order of the text.
    rank = tf.where(score > 0, length - tf.range(length), 0)
    rank, positions = tf.math.top_k(rank, max_predictions_per_seq)
    span = tf.gather(score, positions, batch_dims=1) // _WORDS
    return positions, rank > 0, span


def _number_words(first: tf.Tensor, candidate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The number of each token's word, and at i the tokens of word i, both int32 `[B, T]`.

    There are 0 in a special token, and after the last word.
    """
    word = tf.cumsum(tf.cast(first, tf.int32), axis=1) - 1
    return word, _sum_by_number(tf.cast(candidate, tf.int32), word)


_WORDS = 16
"""A score is a random number times this, plus the words that are left of the span (up to 15)."""


def score_words(unit: MaskingUnit, is_word: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
    """Scores `[B, T]` of words by their number, 0 where `is_word` `[B, T]` is false.

    A span of random length and score begins at every word. Its first word has its score,
    the next ones a little less; where spans overlap, a word belongs to the highest.
    """
    number = tf.range(is_word.shape[1])
    lengths = np.cumsum(unit.lengths)
    boundaries = (lengths / lengths[-1])[:-1].tolist()
    left = 1 + tf.raw_ops.Bucketize(
        input=uniform(row, Purpose.LENGTH, number), boundaries=boundaries
    )  # words of the span that begins here
    span = tf.where(is_word, _score(row, number) * _WORDS + left, 0)
    score = span
    for _ in boundaries:
        # The spans that began a word earlier; they end at what is not a word.
        span = tf.pad(span, [[0, 0], [1, 0]])[:, :-1]
        goes_on = is_word & (span % _WORDS > 1)
        span = tf.where(goes_on, span - 1, 0)
        score = tf.maximum(score, span)
    return score


def _score(row: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """int32 in [0, 2²⁶), keyed by example and position."""
    return tf.cast(tf.bitwise.right_shift(random_bits(row, Purpose.SCORE, position), 6), tf.int32)


def _sum_by_number(values: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """`[B, T]`: at i, the sum of those `values` `[B, T]` of the row whose `number` is i."""
    rows, length = tf.shape(values)[0], values.shape[1]
    flat = number + length * tf.range(rows)[:, tf.newaxis]
    return tf.reshape(tf.math.unsorted_segment_sum(values, flat, rows * length), [-1, length])


def _first_that_fit(score: tf.Tensor, size: tf.Tensor, count: tf.Tensor, most: int) -> tf.Tensor:
    """bool `[B, T]`: words by falling score that have at most `count` `[B, 1]` tokens together.

    After the first word that does not fit, those that do follow; that is done three times. Only
    the first `most` words are looked at.
    """
    _, order = tf.math.top_k(score, most)
    size = tf.gather(size, order, batch_dims=1)  # [B, most]
    taken = tf.zeros_like(size, tf.bool)
    for _ in range(3):
        left = count - tf.reduce_sum(tf.where(taken, size, 0), axis=1, keepdims=True)
        fits = ~taken & (size > 0) & (size <= left)
        taken |= fits & (tf.cumsum(tf.where(fits, size, 0), axis=1) <= left)
    rows = tf.zeros_like(order) + tf.range(tf.shape(order)[0])[:, tf.newaxis]
    return tf.scatter_nd(tf.stack([rows, order], -1), taken, tf.shape(score))
