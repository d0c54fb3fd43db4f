"""Which tokens a masked language model must guess (BERT, section 3.1, task 1)."""

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.pretraining.data.mask_selection import MASKING_UNITS, select_masked_tokens
from keras_bert.pretraining.data.random_bits import Purpose, random_bits, uniform


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TokenMasking:
    """Chooses tokens and replaces them: 80 % by `[MASK]`, 10 % by a random token, 10 % not at all.

    Every choice is a function of (seed, epoch, example, position): the size of the batch, the
    number of workers and a restart change nothing.

    Of the ordinary tokens of an example, exactly `rate` are chosen on average: its number is
    rounded up or down at random. There is less only

    - if the number exceeds the prediction limit; `max_predictions` is enough for any example;
    - if no word that is left fits into the rest of the number, which needs a text in which nearly
      all words have several tokens.

    There is more in examples of a few tokens, because one is chosen at least.

    Args:
        mask_id: the id of `[MASK]`.
        special_ids: ids that are never chosen and never put in at random, padding among them.
        is_continuation: bool `[V]`, true for tokens that continue a word; every tokenizer tells.
        rate: ratio of the other tokens to predict.
        max_predictions_per_seq: number P of predictions per example; more are not made.
        unit: what is chosen at once: "token", "word" (all tokens of a word or none), "ngram" (one
            to three words) or "span" (one to ten words). If every word of an example exceeds the
            prediction limit, each token is a word.
        replacement: shares that `[MASK]` and a random token replace; the rest stays.
        seed: of the random choices.

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
                f"The unit of masking is {self.unit!r}, but must be of {list(MASKING_UNITS)}."
            )
        if min(self.replacement) < 0 or sum(self.replacement) > 1 + 1e-6:
            raise InputError(
                f"The shares of replaced tokens are {self.replacement}, but must be 0 or more and "
                "1 together at most."
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
        """Masks a batch.

        Args:
            token_ids: `[B, T]` int32.
            epoch: number of the epoch.
            example: `[B]`, what tells the examples of an epoch apart.

        Returns:
            `token_ids` `[B, T]` int32 with tokens replaced; `positions` `[B, P]` int32, `labels`
            `[B, P]` int32 (the tokens that stood there) and `weights` `[B, P]` float32, 1 for a
            prediction and 0 for an unused one, whose position and label are 0.
        """
        max_predictions_per_seq = min(self.max_predictions_per_seq, token_ids.shape[1])
        row = random_bits(self.seed, epoch, example)[:, tf.newaxis]  # [B, 1]
        candidate = tf.gather(self._is_ordinary, token_ids)  # [B, T]
        count = self._count(candidate, row, max_predictions_per_seq)
        positions, chosen, span = select_masked_tokens(
            MASKING_UNITS[self.unit],
            candidate,
            tf.gather(self._continues, token_ids),
            row,
            count,
            max_predictions_per_seq,
        )
        positions = tf.where(chosen, positions, 0)
        labels = tf.where(chosen, tf.gather(token_ids, positions, batch_dims=1), 0)
        read = self._replace(labels, row, positions, span)
        return {
            "token_ids": _put(token_ids, positions, chosen, read),
            "positions": positions,
            "labels": labels,
            "weights": tf.cast(chosen, tf.float32),
        }

    def _count(
        self, candidate: tf.Tensor, row: tf.Tensor, max_predictions_per_seq: int
    ) -> tf.Tensor:
        """Predictions per example `[B, 1]`: `rate` of the candidates, rounded up or down at random.

        So the share is exact on average. As in BERT, at least one where there is a candidate.
        """
        candidates = tf.reduce_sum(tf.cast(candidate, tf.int32), axis=1, keepdims=True)
        expected = self.rate * tf.cast(candidates, tf.float32)
        count = tf.cast(tf.floor(expected + uniform(row, Purpose.COUNT)), tf.int32)
        return tf.minimum(tf.maximum(count, 1), tf.minimum(candidates, max_predictions_per_seq))

    def _replace(
        self, labels: tf.Tensor, row: tf.Tensor, positions: tf.Tensor, span: tf.Tensor
    ) -> tf.Tensor:
        """What is read in place of the labels, `[B, P]` int32."""
        together = MASKING_UNITS[self.unit].replaced_together
        action = uniform(row, Purpose.ACTION, span if together else positions)
        number = tf.cast(tf.size(self._ordinary_ids), tf.uint32)
        drawn = tf.cast(random_bits(row, Purpose.REPLACEMENT, positions) % number, tf.int32)
        drawn = tf.gather(self._ordinary_ids, drawn)
        mask, random = self.replacement
        kept_or_drawn = tf.where(action < mask + random, drawn, labels)
        return tf.where(action < mask, self.mask_id, kept_or_drawn)


def max_predictions(rate: float, sequence_length: int) -> int:
    """Slots enough for `rate` of a full sequence: 20 for BERT's 15 % of 128."""
    return math.ceil(rate * sequence_length)


def _put(x: tf.Tensor, positions: tf.Tensor, chosen: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """`[B, T]` with `values` `[B, P]` at the chosen positions."""
    length = x.shape[1]
    column = tf.where(
        chosen, positions, length
    )  # empty max_predictions_per_seq write beyond the end
    rows = tf.zeros_like(column) + tf.range(tf.shape(x)[0])[:, tf.newaxis]
    padded = tf.pad(x, [[0, 0], [0, 1]])
    return tf.tensor_scatter_nd_update(padded, tf.stack([rows, column], -1), values)[:, :length]
