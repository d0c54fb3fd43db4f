"""Which tokens a masked language model must guess (BERT, section 3.1, task 1)."""

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.pretraining.hashing import random_bits, uniform

# What a hash is keyed with, beside seed, epoch and example.
_SCORE, _COUNT, _ACTION, _REPLACEMENT = range(4)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TokenMasking:
    """Chooses tokens and replaces them, most by `[MASK]`.

    Every choice is a function of (seed, epoch, example, position): the size of the batch, the
    number of workers and a restart change nothing.

    Args:
        mask_id: the id of `[MASK]`.
        special_ids: ids that are never chosen and never put in at random, padding among them.
        is_continuation: bool `[V]`, true for pieces that continue a word.
        rate: share of the other tokens to choose.
        slots: number P of predictions per example; more are not made.
        whole_words: choose words instead of pieces, all pieces of a word or none.
        replacement: shares of the chosen tokens that become `[MASK]` and a random token; the rest
            stays as it is.
        seed: of the random choices.

    Raises:
        InputError: if the rate or the number of slots is out of range.
    """

    mask_id: int
    special_ids: tuple[int, ...]
    is_continuation: np.ndarray
    rate: float = 0.15
    slots: int = 20
    whole_words: bool = False
    replacement: tuple[float, float] = (0.8, 0.1)
    seed: int = 0
    _is_ordinary: tf.Tensor = dataclasses.field(init=False, repr=False)
    _ordinary_ids: tf.Tensor = dataclasses.field(init=False, repr=False)
    _continues: tf.Tensor = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise InputError(f"The masking rate is {self.rate}, but must be between 0 and 1.")
        if self.slots < 1:
            raise InputError(f"There are {self.slots} masking slots, but must be 1 or more.")
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
        """Masks a batch.

        Args:
            token_ids: `[B, T]` int32.
            epoch: number of the epoch.
            example: `[B]`, what tells the examples of an epoch apart.

        Returns:
            `token_ids` `[B, T]` int32 with tokens replaced; `positions` `[B, P]` int32, `labels`
            `[B, P]` int32 (the tokens that stood there) and `weights` `[B, P]` float32, 1 for a
            prediction and 0 for an empty slot, whose position and label are 0.
        """
        length = token_ids.shape[1]
        slots = min(self.slots, length)
        row = random_bits(self.seed, epoch, example)[:, tf.newaxis]  # [B, 1]
        candidate = tf.gather(self._is_ordinary, token_ids)  # [B, T]
        count = self._count(candidate, row, slots)
        if self.whole_words:
            score, count = self._score_words(token_ids, candidate, row, count, slots)
        else:
            score = tf.where(candidate, _score(row, tf.range(length)), -1)
        _, positions = tf.math.top_k(score, slots)  # [B, P]
        chosen = tf.range(slots) < count
        positions = tf.where(chosen, positions, 0)
        labels = tf.where(chosen, tf.gather(token_ids, positions, batch_dims=1), 0)
        return {
            "token_ids": _put(token_ids, positions, chosen, self._replace(labels, row, positions)),
            "positions": positions,
            "labels": labels,
            "weights": tf.cast(chosen, tf.float32),
        }

    def _count(self, candidate: tf.Tensor, row: tf.Tensor, slots: int) -> tf.Tensor:
        """Predictions per example `[B, 1]`: `rate` of the candidates, rounded up or down at random.

        So the share is exact on average. As in BERT, at least one where there is a candidate.
        """
        candidates = tf.reduce_sum(tf.cast(candidate, tf.int32), axis=1, keepdims=True)
        expected = self.rate * tf.cast(candidates, tf.float32)
        count = tf.cast(tf.floor(expected + uniform(row, _COUNT)), tf.int32)
        return tf.minimum(tf.maximum(count, 1), tf.minimum(candidates, slots))

    def _score_words(
        self, token_ids: tf.Tensor, candidate: tf.Tensor, row: tf.Tensor, count: Any, slots: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores `[B, T]` whose highest `[B, 1]` are whole words.

        Words are taken in random order until the next does not fit; words of one piece fill the
        rest, as they do in BERT's whole-word masking.
        """
        length = token_ids.shape[1]
        starts = ~tf.gather(self._continues, token_ids) | ~candidate
        start = _running_maximum(tf.where(starts, tf.range(length), 0))
        score = tf.where(candidate, _score(row, start), -1)  # the same for all pieces of a word
        ranked, _ = tf.math.top_k(score, min(slots + 1, length))
        ranked = tf.pad(ranked, [[0, 0], [0, slots + 1 - ranked.shape[1]]], constant_values=-1)
        left_out = tf.gather(ranked, count, batch_dims=1)  # [B, 1], the first that does not fit
        taken = candidate & (score > left_out)
        ends = tf.concat([starts[:, 1:], tf.ones_like(starts[:, :1])], axis=1)
        single = candidate & starts & ends & ~taken
        number_taken = tf.reduce_sum(tf.cast(taken, tf.int32), axis=1, keepdims=True)
        number_single = tf.reduce_sum(tf.cast(single, tf.int32), axis=1, keepdims=True)
        score = tf.where(taken, score + _HIGHEST, tf.where(single, score, -1))
        return score, tf.minimum(count, number_taken + number_single)

    def _replace(self, labels: tf.Tensor, row: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """What is read in place of the labels, `[B, P]` int32."""
        action = uniform(row, _ACTION, positions)
        number = tf.cast(tf.size(self._ordinary_ids), tf.uint32)
        drawn = tf.cast(random_bits(row, _REPLACEMENT, positions) % number, tf.int32)
        drawn = tf.gather(self._ordinary_ids, drawn)
        masked, replaced = self.replacement
        return tf.where(
            action < masked, self.mask_id, tf.where(action < masked + replaced, drawn, labels)
        )


def slots_for(rate: float, sequence_length: int) -> int:
    """Slots enough for `rate` of a full sequence: 20 for BERT's 15 % of 128."""
    return math.ceil(rate * sequence_length)


_HIGHEST = 2**30


def _score(row: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """int32 in [0, 2³⁰), keyed by example and position."""
    return tf.cast(random_bits(row, _SCORE, position) % tf.constant(_HIGHEST, tf.uint32), tf.int32)


def _running_maximum(x: tf.Tensor) -> tf.Tensor:
    """`[B, T]`: the largest value up to each position, in log2(T) steps."""
    shift, length = 1, x.shape[1]
    while shift < length:
        x = tf.maximum(x, tf.pad(x, [[0, 0], [shift, 0]])[:, :length])
        shift *= 2
    return x


def _put(x: tf.Tensor, positions: tf.Tensor, chosen: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """`[B, T]` with `values` `[B, P]` at the chosen positions."""
    length = x.shape[1]
    column = tf.where(chosen, positions, length)  # empty slots write beyond the end
    rows = tf.zeros_like(column) + tf.range(tf.shape(x)[0])[:, tf.newaxis]
    padded = tf.pad(x, [[0, 0], [0, 1]])
    return tf.tensor_scatter_nd_update(padded, tf.stack([rows, column], -1), values)[:, :length]
