"""BERT's limit on the length of a word, in characters.

tf.text's operation limits bytes. Told a limit that no word of few enough characters exceeds, it
lets some longer words pass; their pieces are found here by adding up their characters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert.text.tokenizer import Pieces
from keras_bert.text.vocabulary import CONTINUATION

MOST_BYTES_PER_CHARACTER = 4


class WordLimit:
    """Puts one unknown token for all the pieces of a word of more than `limit` characters.

    Args:
        tokens: the vocabulary `[V]`.
        continues_word: bool `[V]`, which tokens are not the first of their word.
        unknown_id: what stands for a longer word.
        limit: the most characters of a word.
    """

    def __init__(
        self, tokens: Sequence[str], continues_word: np.ndarray, unknown_id: int, limit: int
    ) -> None:
        characters = [len(token.removeprefix(CONTINUATION)) for token in tokens]
        self._characters = tf.constant(characters, tf.int32)
        self._continues_word = tf.constant(continues_word)
        self._unknown_id = unknown_id
        self._limit = limit

    def __call__(
        self, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> Pieces:
        """The pieces, fewer where a word was too long."""
        continues = tf.gather(self._continues_word, ids.values)
        word = tf.cumsum(tf.cast(~continues, tf.int32)) - 1  # of each token
        lengths = tf.math.segment_sum(tf.gather(self._characters, ids.values), word)

        def unchanged() -> tuple[tf.Tensor, ...]:
            return ids.values, starts.values, ends.values, ids.row_splits

        def limited() -> tuple[tf.Tensor, ...]:
            too_long = tf.gather(lengths > self._limit, word)
            last_piece = tf.cumsum(tf.math.segment_sum(tf.ones_like(word), word)) - 1
            word_ends = tf.gather(ends.values, tf.gather(last_piece, word))
            kept = ~(continues & too_long)
            kept_before = tf.pad(tf.cumsum(tf.cast(kept, tf.int64)), [[1, 0]])
            return (
                tf.where(too_long, self._unknown_id, ids.values)[kept],
                starts.values[kept],
                tf.where(too_long, word_ends, ends.values)[kept],
                tf.gather(kept_before, ids.row_splits),
            )

        *flat, row_splits = tf.cond(tf.reduce_any(lengths > self._limit), limited, unchanged)
        ids, starts, ends = (
            tf.RaggedTensor.from_row_splits(values, row_splits, validate=False) for values in flat
        )
        return ids, starts, ends
