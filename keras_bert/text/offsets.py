"""From bytes of normalised text to characters of the text that the user gave."""

from __future__ import annotations

import tensorflow as tf

from keras_bert.text.ragged import row_ids


def to_characters(
    texts: tf.Tensor, byte_map: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Character spans in `texts` `[N]` of byte spans in their normalised form.

    Args:
        texts: the original texts, UTF-8.
        byte_map: int64 `[N, (bytes + 1)]`, for each byte of the normalised text the byte of the
            original that it comes from.
        starts: `[N, (tokens)]`, first byte in the normalised text.
        ends: `[N, (tokens)]`, the byte after the last.

    Returns:
        Starts and ends in characters (code points), int32 `[N, (tokens)]`. Characters that the
        normalisation drops belong to a token only where they stand inside it.
    """
    rows = row_ids(starts)
    map_row = tf.gather(byte_map.row_starts(), rows)
    text_row = tf.gather(tf.cumsum(tf.strings.length(texts), exclusive=True), rows)
    data = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    begins_character = (data & 0xC0) != 0x80
    characters = tf.cumsum(tf.cast(begins_character, tf.int32))  # up to and with each byte
    before_text = tf.gather(tf.pad(characters, [[1, 0]]), text_row)

    def character(byte: tf.Tensor) -> tf.Tensor:
        original = tf.cast(tf.gather(byte_map.values, map_row + byte), tf.int32)
        return tf.gather(characters, text_row + original) - before_text

    return (
        starts.with_values(character(tf.cast(starts.values, tf.int64)) - 1),
        ends.with_values(character(tf.cast(ends.values, tf.int64) - 1)),
    )
