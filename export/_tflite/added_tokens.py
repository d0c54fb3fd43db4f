"""Finds added tokens in texts as `text.added_tokens` does, with operators that TFLite has."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.text.characters import row_ids

_DEAD, _ROOT = 0, 1


class Parts(NamedTuple):
    """Texts divided into added tokens and the text between them."""

    data: tf.RaggedTensor
    """Bytes of each part, int32 `[P, (bytes)]`."""
    tokens: tf.Tensor
    """Id of the added token that begins at each byte, int32 `[B]`; -1 if none does."""
    is_inside: tf.Tensor
    """Whether each byte belongs to an added token, bool `[B]`."""


class AddedTokens:
    """Finds tokens from left to right. If several tokens match, the longest one wins.

    Args:
        ids: id of each token, one token or more. The tokens are in UTF-8.
    """

    def __init__(self, ids: Mapping[bytes, int]) -> None:
        # A trie: the tokens' beginnings are its states. All bytes in no token are one class.
        used = sorted(set(b"".join(ids)))
        self._classes = np.zeros(256, np.int32)
        self._classes[used] = np.arange(1, len(used) + 1)
        rows = [np.zeros(len(used) + 1, np.int32) for _ in (_DEAD, _ROOT)]
        found = [-1, -1]
        for token, token_id in ids.items():
            state = _ROOT
            for symbol in self._classes[[*token]]:
                if not rows[state][symbol]:
                    rows[state][symbol] = len(rows)
                    rows.append(np.zeros_like(rows[0]))
                    found.append(-1)
                state = rows[state][symbol]
            found[state] = token_id
        self._next = np.array(rows)
        self._ids = np.array(found, np.int32)
        self._longest = max(map(len, ids))

    def cut(self, parts: Parts) -> Parts:
        """Divides the parts that are not yet added tokens."""
        data = parts.data
        size = tf.size(data.values)
        lengths, ids = self._matches(data)
        lengths = tf.where(parts.is_inside, 0, lengths)
        begins = _reached(lengths) & (lengths > 0)
        starts = tf.cast(tf.where(begins), tf.int32)
        ends = starts + tf.gather_nd(lengths, starts)[:, tf.newaxis]
        # Each place, and the place after the last byte.
        opens, closes = (
            tf.scatter_nd(places, tf.ones_like(places[:, 0]), [size + 1])
            for places in (starts, ends)
        )
        splits = tf.cast(data.row_splits, tf.int32)[:, tf.newaxis]
        borders = tf.scatter_nd(splits, tf.ones_like(splits[:, 0]), [size + 1]) + opens + closes
        return Parts(
            tf.RaggedTensor.from_row_splits(
                data.values, tf.where(borders > 0)[:, 0], validate=False
            ),
            tf.where(begins, ids, parts.tokens),
            parts.is_inside | (tf.cumsum(opens - closes)[:-1] > 0),
        )

    def _matches(self, data: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the longest token at each byte: length and id, int32 `[B]`; 0 and -1 if none."""
        size = tf.size(data.values)
        # One more byte, because LiteRT's loop cannot return empty tensors.
        index = tf.range(size + 1)
        ends = tf.gather(tf.cast(data.row_splits[1:], tf.int32), row_ids(data))
        ends = tf.concat([ends, [0]], axis=0)
        symbols = tf.concat([tf.gather(self._classes, data.values), [0]], axis=0)

        def turn(
            step: tf.Tensor, states: tf.Tensor, lengths: tf.Tensor, ids: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            place = index + step
            symbol = tf.gather(symbols, tf.minimum(place, size))
            states = tf.gather_nd(self._next, tf.stack([states, symbol], axis=1))
            states = tf.where(place < ends, states, _DEAD)
            found = tf.gather(self._ids, states)
            lengths = tf.where(found >= 0, step + 1, lengths)
            return step + 1, states, lengths, tf.where(found >= 0, found, ids)

        before = (tf.fill([size + 1], value) for value in (_ROOT, 0, -1))
        _, _, lengths, ids = tf.while_loop(
            lambda step, *_: step < self._longest, turn, (tf.constant(0), *before)
        )
        return lengths[:-1], ids[:-1]


def _reached(lengths: tf.Tensor) -> tf.Tensor:
    """Returns whether a search from left to right tries each byte, bool `[B]`.

    From a byte with a token, it goes on after the token; from the others, at the next byte. The
    jumps get twice as long in each turn, so that a text of B bytes takes log2(B) turns.
    """
    size = tf.size(lengths)
    index = tf.range(size + 1)
    jumps = tf.concat([tf.range(size) + tf.maximum(lengths, 1), [size]], axis=0)

    def turn(
        length: tf.Tensor, jumps: tf.Tensor, reached: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        more = tf.scatter_nd(jumps[:, tf.newaxis], reached, [size + 1])
        return 2 * length, tf.gather(jumps, jumps), tf.minimum(reached + more, 1)

    _, _, reached = tf.while_loop(
        lambda length, *_: length <= size,
        turn,
        (tf.constant(1), jumps, tf.cast(tf.equal(index, 0), tf.int32)),
    )
    return reached[:-1] > 0
