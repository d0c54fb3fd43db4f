"""Texts as the code points of their characters, in a graph."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from keras_bert.text.ragged import row_ids

MOST_BYTES = 4
"""Of a character."""


class Characters(NamedTuple):
    """The characters of texts `[N]`, with a space after each text."""

    code_points: tf.Tensor
    """Int32 `[C]`."""
    begins: tf.Tensor
    """Which of them are the first of the texts, int32 `[N + 1]`; the last one is C - 1."""

    def pieces(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Strings `[X]` of the characters from `starts` to before `ends`, int32 `[X]`."""
        lengths = tf.maximum(ends - starts, 0)
        ragged = tf.RaggedTensor.from_row_lengths(
            tf.range(tf.reduce_sum(lengths)), lengths, validate=False
        )
        shift = starts - tf.cast(ragged.row_starts(), tf.int32)
        places = ragged.values + tf.gather(shift, row_ids(ragged))
        return tf.strings.unicode_encode(
            ragged.with_values(tf.gather(self.code_points, places)), "UTF-8"
        )


def characters_of(texts: tf.Tensor) -> Characters:
    """The characters of texts `[N]`, UTF-8.

    In bytes that are not UTF-8 every byte that could begin a character does.
    """
    joined = tf.strings.reduce_join(tf.strings.join([texts, " "]))
    # One more space, so that there is a character in an empty batch.
    data = tf.io.decode_raw(tf.strings.join([joined, " "]), tf.uint8)
    is_first_byte = (data & 0xC0) != 0x80
    before = tf.pad(tf.cumsum(tf.cast(is_first_byte, tf.int32)), [[1, 0]])
    text_begins = tf.pad(tf.cumsum(tf.strings.length(texts) + 1), [[1, 0]])
    data = tf.pad(tf.cast(data, tf.int32), [[0, MOST_BYTES]])
    return Characters(
        code_points(data, tf.where(is_first_byte)[:, 0]), tf.gather(before, text_begins)
    )


def code_points(data: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Code points int32 `[X]` of the characters at some places in UTF-8.

    Args:
        data: the bytes, int32, and at least three more after the last character.
        places: where the characters begin, int64 `[X]`.
    """
    lead = tf.gather(data, places)
    b, c, d = (tf.gather(data, places + i) & 0x3F for i in range(1, MOST_BYTES))
    two = (lead & 0x1F) * 64 + b
    three = ((lead & 0x0F) * 64 + b) * 64 + c
    four = (((lead & 0x07) * 64 + b) * 64 + c) * 64 + d
    longer = tf.where(lead < 0xE0, two, tf.where(lead < 0xF0, three, four))
    return tf.where(lead < 0x80, lead, longer)
