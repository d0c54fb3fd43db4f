"""Masking: selects the tokens to predict and replaces them (BERT, section 3.1, task 1)."""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.pretraining.data.random_bits import Purpose, random_bits, uniform


class MaskingUnit(NamedTuple):
    """Unit of masking: a token, a word, or a span of words."""

    lengths: tuple[float, ...] = (1.0,)
    """Relative frequencies of spans with 1, 2, ... words."""
    of_words: bool = True
    """Whether all tokens of a word are masked together. If not, every token counts as a word."""
    replaced_together: bool = False
    """Whether all tokens of a span are treated alike: all masked, all random or all kept."""


MASKING_UNITS = {
    # BERT (https://arxiv.org/abs/1810.04805), and its whole-word masking of 2019.
    "token": MaskingUnit(of_words=False),
    "word": MaskingUnit(),
    # ALBERT (https://arxiv.org/abs/1909.11942): n-grams with p(n) ~ 1/n.
    "ngram": MaskingUnit(lengths=(1, 1 / 2, 1 / 3)),
    # SpanBERT (https://arxiv.org/abs/1907.10529): geometric(0.2), at most 10; 3.8 on average.
    "span": MaskingUnit(lengths=tuple(0.8**n for n in range(10)), replaced_together=True),
}
"""Units of masking by name."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TokenMasking:
    """Selects tokens and replaces 80 % by `[MASK]` and 10 % by a random token; keeps 10 %.

    Every selection depends only on (seed, epoch, example, position). So the selection is the same
    for any batch size and any number of workers, and after a restart.

    Ordinary tokens are all tokens except special tokens. On average, exactly the ratio `rate` of
    the ordinary tokens is selected, because the number for an example is rounded up or down at
    random. Fewer tokens are selected only in two cases:

    - The number exceeds the prediction limit. A limit from the function `max_predictions` is enough
      for any example.
    - No other word fits into the remaining number, because nearly all words have several tokens.

    At least one token of each example is selected, so the ratio of a short example may be larger.

    Args:
        mask_id: id of `[MASK]`.
        special_ids: ids that are never selected and never random replacements, such as padding.
        is_continuation: bool `[V]`, true for tokens that continue a word; see `Tokenizer`.
        rate: ratio of the ordinary tokens to predict.
        max_predictions_per_seq: prediction limit P, the largest number of predictions per example.
        unit: unit of masking: "token", "word" (all tokens of a word), "ngram" (one to three words)
            or "span" (one to ten words). If every word of an example exceeds the prediction limit,
            each token counts as a word.
        replacement: ratios of the selected tokens that become `[MASK]` and a random token.
        seed: seed of the random choices.

    Raises:
        InputError: if an option is unknown or out of range.
    """

    mask_id: int
    special_ids: tuple[int, ...]
    is_continuation: np.ndarray
    rate: float = 0.15
    max_predictions_per_seq: int = 20
    unit: str = "token"
    replacement: tuple[float, float] = (0.8, 0.1)
    seed: int = 0
    _is_ordinary: tf.Tensor = dataclasses.field(init=False, repr=False)
    _ordinary_ids: tf.Tensor = dataclasses.field(init=False, repr=False)
    _continues: tf.Tensor = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise InputError(f"The masking rate is {self.rate}, but must be between 0 and 1.")
        if self.max_predictions_per_seq < 1:
            raise InputError(
                f"max_predictions_per_seq is {self.max_predictions_per_seq}, but must be 1 or more."
            )
        if self.unit not in MASKING_UNITS:
            raise InputError(
                f"The unit of masking is {self.unit!r}, but must be one of {list(MASKING_UNITS)}."
            )
        if min(self.replacement) < 0 or sum(self.replacement) > 1 + 1e-6:
            raise InputError(
                f"The ratios of replaced tokens are {self.replacement}, but must be 0 or more, and "
                "their sum at most 1."
            )
        ordinary = np.ones(len(self.is_continuation), bool)
        ordinary[list(self.special_ids)] = False
        tables = {
            "_is_ordinary": tf.constant(ordinary),
            "_ordinary_ids": tf.constant(np.flatnonzero(ordinary).astype(np.int32)),
            "_continues": tf.constant(np.asarray(self.is_continuation, bool)),
        }
        for name, table in tables.items():
            object.__setattr__(self, name, table)

    def __call__(self, token_ids: tf.Tensor, epoch: Any, example: tf.Tensor) -> dict[str, Any]:
        """Masks a batch of token ids.

        Args:
            token_ids: `[B, T]` int32.
            epoch: number of the epoch.
            example: `[B]`, numbers of the examples in the epoch.

        Returns:
            `token_ids` `[B, T]` int32 with replaced tokens; `positions` `[B, P]` int32 of the
            predictions; `labels` `[B, P]` int32, the original tokens; and `weights` `[B, P]`
            float32, 1 for a prediction. An unused prediction has weight, position and label 0.
        """
        max_predictions_per_seq = min(self.max_predictions_per_seq, token_ids.shape[1])
        row = random_bits(self.seed, epoch, example)[:, tf.newaxis]  # [B, 1]
        candidate = tf.gather(self._is_ordinary, token_ids)  # [B, T]
        count = self._count(candidate, row, max_predictions_per_seq)
        positions, selected, span = select_masked_tokens(
            MASKING_UNITS[self.unit],
            candidate,
            tf.gather(self._continues, token_ids),
            row,
            count,
            max_predictions_per_seq,
        )
        positions = tf.where(selected, positions, 0)
        labels = tf.where(selected, tf.gather(token_ids, positions, batch_dims=1), 0)
        read = self._replace(labels, row, positions, span)
        return {
            "token_ids": _put(token_ids, positions, selected, read),
            "positions": positions,
            "labels": labels,
            "weights": tf.cast(selected, tf.float32),
        }

    def _count(
        self, candidate: tf.Tensor, row: tf.Tensor, max_predictions_per_seq: int
    ) -> tf.Tensor:
        """Returns the number of predictions for each example, `[B, 1]`: `rate` of the candidates.

        Rounds up or down at random, so that the rate is exact on average. As in BERT, an example
        with candidates has at least one prediction.
        """
        candidates = tf.reduce_sum(tf.cast(candidate, tf.int32), axis=1, keepdims=True)
        expected = self.rate * tf.cast(candidates, tf.float32)
        count = tf.cast(tf.floor(expected + uniform(row, Purpose.COUNT)), tf.int32)
        return tf.minimum(tf.maximum(count, 1), tf.minimum(candidates, max_predictions_per_seq))

    def _replace(
        self, labels: tf.Tensor, row: tf.Tensor, positions: tf.Tensor, span: tf.Tensor
    ) -> tf.Tensor:
        """Returns the tokens that replace the labels, `[B, P]` int32."""
        together = MASKING_UNITS[self.unit].replaced_together
        action = uniform(row, Purpose.ACTION, span if together else positions)
        number = tf.cast(tf.size(self._ordinary_ids), tf.uint32)
        drawn = tf.cast(random_bits(row, Purpose.REPLACEMENT, positions) % number, tf.int32)
        drawn = tf.gather(self._ordinary_ids, drawn)
        mask, random = self.replacement
        drawn_or_same = tf.where(action < mask + random, drawn, labels)
        return tf.where(action < mask, self.mask_id, drawn_or_same)


def max_predictions(rate: float, sequence_length: int) -> int:
    """Returns the largest number of predictions for a sequence: 20 for BERT's 15 % of 128."""
    return math.ceil(rate * sequence_length)


def _put(x: tf.Tensor, positions: tf.Tensor, selected: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns `[B, T]` with `values` `[B, P]` at the selected positions."""
    length = x.shape[1]
    column = tf.where(selected, positions, length)  # unused predictions write beyond the end
    rows = tf.zeros_like(column) + tf.range(tf.shape(x)[0])[:, tf.newaxis]
    padded = tf.pad(x, [[0, 0], [0, 1]])
    return tf.tensor_scatter_nd_update(padded, tf.stack([rows, column], -1), values)[:, :length]


def select_masked_tokens(
    unit: MaskingUnit,
    candidate: tf.Tensor,
    continues: tf.Tensor,
    row: tf.Tensor,
    count: tf.Tensor,
    max_predictions_per_seq: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Selects `count` tokens of each example, or fewer tokens if no other word fits.

    Takes spans in random order. If a span has too many words, takes only the words that fit. If
    every word exceeds the prediction limit, treats each token as a word.

    Args:
        unit: unit of masking.
        candidate: bool `[B, T]`, tokens that may be selected.
        continues: bool `[B, T]`, tokens that continue a word.
        row: `[B, 1]`, keys of the examples' random numbers.
        count: `[B, 1]` int32, at most `max_predictions_per_seq`.
        max_predictions_per_seq: number P of positions.

    Returns:
        Positions, `[B, P]` int32; whether each position is used, `[B, P]` bool; and a number for
        the span that each position belongs to, `[B, P]` int32.
    """
    length = candidate.shape[1]
    if not unit.of_words:  # the positions with the highest random scores
        score = tf.where(candidate, _score(row, tf.range(length)), -1)
        _, positions = tf.math.top_k(score, max_predictions_per_seq)
        return positions, tf.range(max_predictions_per_seq) < count, positions
    first = ~candidate | ~continues
    first |= ~tf.pad(candidate, [[0, 0], [1, 0]])[:, :length]  # begins after a special token, too
    _, size = _number_words(first, candidate)
    some_fit = tf.reduce_any((size > 0) & (size <= max_predictions_per_seq), axis=1, keepdims=True)
    word, size = _number_words(first | ~some_fit, candidate)
    score = score_words(unit, size > 0, row)
    taken = _first_that_fit(score, size, count, min(2 * max_predictions_per_seq, length))
    score = tf.where(candidate, tf.gather(tf.where(taken, score, 0), word, batch_dims=1), 0)
    # Sort the positions in the order of the text.
    rank = tf.where(score > 0, length - tf.range(length), 0)
    rank, positions = tf.math.top_k(rank, max_predictions_per_seq)
    span = tf.gather(score, positions, batch_dims=1) // _WORDS
    return positions, rank > 0, span


def _number_words(first: tf.Tensor, candidate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the number of each token's word, and the size of each word, both int32 `[B, T]`.

    Element i of the sizes belongs to word i. Special tokens, and elements after the last word,
    have size 0.
    """
    word = tf.cumsum(tf.cast(first, tf.int32), axis=1) - 1
    return word, _sum_by_number(tf.cast(candidate, tf.int32), word)


_WORDS = 16
"""Factor of the random number in a score. The span's remaining words (up to 15) are added."""


def score_words(unit: MaskingUnit, is_word: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
    """Returns the score of each word, `[B, T]`, 0 where `is_word` `[B, T]` is false.

    A span of random length and random score begins at every word. The span's first word gets the
    span's score, and the next words get slightly lower scores. If spans overlap, a word gets the
    highest of their scores.
    """
    number = tf.range(is_word.shape[1])
    lengths = np.cumsum(unit.lengths)
    boundaries = (lengths / lengths[-1])[:-1].tolist()
    left = 1 + tf.raw_ops.Bucketize(
        input=uniform(row, Purpose.LENGTH, number), boundaries=boundaries
    )  # number of words in the span that begins here
    span = tf.where(is_word, _score(row, number) * _WORDS + left, 0)
    score = span
    for _ in boundaries:
        # Continue the spans that began a word earlier. A span ends where there is no word.
        span = tf.pad(span, [[0, 0], [1, 0]])[:, :-1]
        goes_on = is_word & (span % _WORDS > 1)
        span = tf.where(goes_on, span - 1, 0)
        score = tf.maximum(score, span)
    return score


def _score(row: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """Returns a random int32 in [0, 2²⁶) for an example and a position."""
    return tf.cast(tf.bitwise.right_shift(random_bits(row, Purpose.SCORE, position), 6), tf.int32)


def _sum_by_number(values: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Sums the `values` that have the same `number`, in each row. All tensors are `[B, T]`.

    Element i of a row of the result is the sum of the values with number i.
    """
    rows, length = tf.shape(values)[0], values.shape[1]
    flat = number + length * tf.range(rows)[:, tf.newaxis]
    return tf.reshape(tf.math.unsorted_segment_sum(values, flat, rows * length), [-1, length])


def _first_that_fit(score: tf.Tensor, size: tf.Tensor, count: tf.Tensor, most: int) -> tf.Tensor:
    """Takes words with the highest scores, at most `count` `[B, 1]` tokens: bool `[B, T]`.

    If a word does not fit, skips it and takes later words that fit. Does this three times.
    Considers only the `most` words with the highest scores.
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
