"""Characters of texts in a graph: code points, and offsets in characters."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

MOST_BYTES = 4
"""Largest number of bytes in a character."""
WHITE_SPACE = r"\s\v\p{Z}\x{85}"
"""All of Unicode's white space, as the inside of `[...]` in a regular expression."""


class Characters(NamedTuple):
    """Characters of texts `[N]`, with a space after each text and one more space at the end."""

    code_points: tf.Tensor
    """Code points, int32 `[C]`."""
    begins: tf.Tensor
    """Index in `code_points` of each text's first character, and C - 1, int32 `[N + 1]`."""

    def pieces(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns the strings `[X]` from `starts` to before `ends`, indices int32 `[X]`."""
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
    """Returns the characters of texts `[N]`, UTF-8.

    In texts that are not valid UTF-8, every byte that can begin a character begins one.
    """
    joined = tf.strings.reduce_join(tf.strings.join([texts, " "]))
    # One more space, so that there is a character in an empty batch.
    data = tf.io.decode_raw(tf.strings.join([joined, " "]), tf.uint8)
    text_begins = tf.pad(tf.cumsum(tf.strings.length(texts) + 1), [[1, 0]])
    starts = tf.where(begins_character(data))[:, 0]
    padded = tf.pad(tf.cast(data, tf.int32), [[0, MOST_BYTES]])
    return Characters(code_points(padded, starts), tf.gather(characters_before(data), text_begins))


def begins_character(data: tf.Tensor) -> tf.Tensor:
    """Returns whether each byte begins a character in UTF-8, bool `[B]`."""
    data = tf.cast(data, tf.int32)  # TFLite compares no uint8
    return (data < 0x80) | (data >= 0xC0)


def characters_before(data: tf.Tensor) -> tf.Tensor:
    """Returns the number of characters that begin before each byte, int32 `[B + 1]`."""
    return tf.pad(tf.cumsum(tf.cast(begins_character(data), tf.int32)), [[1, 0]])


def code_points(data: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns the code points int32 `[X]` of characters in UTF-8.

    Args:
        data: bytes, int32, with at least three more bytes after the last character.
        places: positions of the characters' first bytes, int64 `[X]`.
    """
    lead = tf.gather(data, places)
    # `x % 64`, and not `x & 0x3F`, because TFLite has no operator for it.
    b, c, d = (tf.gather(data, places + i) % 64 for i in range(1, MOST_BYTES))
    two = lead % 32 * 64 + b
    three = (lead % 16 * 64 + b) * 64 + c
    four = ((lead % 8 * 64 + b) * 64 + c) * 64 + d
    longer = tf.where(lead < 0xE0, two, tf.where(lead < 0xF0, three, four))
    return tf.where(lead < 0x80, lead, longer)


def to_characters(
    texts: tf.Tensor, byte_map: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Converts byte spans in normalized texts to character spans in the original texts `[N]`.

    Args:
        texts: original texts, UTF-8.
        byte_map: int64 `[N, (bytes + 1)]`, position in the original text for each byte of the
            normalized text.
        starts: `[N, (tokens)]`, position of the token's first byte in the normalized text.
        ends: `[N, (tokens)]`, position after the token's last byte.

    Returns:
        Starts and ends in characters (code points), int32 `[N, (tokens)]`. The normalization drops
        some characters. If such a character is between a token's own characters, the token
        includes it.
    """
    text_start = tf.cumsum(tf.strings.length(texts), exclusive=True)
    return follow(
        byte_map, starts, ends, row_ids(starts), text_start, characters_before(_joined(texts))
    )


def follow(
    byte_map: tf.RaggedTensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    rows: tf.Tensor,
    text_start: tf.Tensor,
    characters: tf.Tensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Does the work of `to_characters`, for N texts that are joined to one text of B bytes.

    Args:
        byte_map: as in `to_characters`.
        starts: as in `to_characters`.
        ends: as in `to_characters`.
        rows: index of each token's text, `[tokens]`.
        text_start: position of each text's first byte, `[N]`.
        characters: number of characters that begin before each byte, int32 `[B + 1]`.
    """
    map_row = tf.gather(byte_map.row_starts(), rows)
    text_row = tf.gather(text_start, rows)
    before_text = tf.gather(characters, text_row)

    def character(byte: tf.Tensor) -> tf.Tensor:
        byte = tf.cast(byte, map_row.dtype)
        original = tf.cast(tf.gather(byte_map.values, map_row + byte), text_row.dtype)
        return tf.gather(characters, text_row + original + 1) - before_text

    return (
        starts.with_values(character(starts.values) - 1),
        ends.with_values(character(ends.values - 1)),
    )


def bytes_to_characters(
    texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Converts spans `[N, (tokens)]` in bytes of texts `[N]` to spans in characters, int32."""
    characters = characters_before(_joined(texts))
    before_text = tf.cumsum(tf.strings.length(texts), exclusive=True)
    text_start = tf.gather(before_text, row_ids(starts))

    def character(byte: tf.Tensor) -> tf.Tensor:
        place = text_start + tf.cast(byte, tf.int32)
        return tf.gather(characters, place) - tf.gather(characters, text_start)

    return starts.with_values(character(starts.values)), ends.with_values(character(ends.values))


def character_spans(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns where each character's bytes start and end, int64 `[N, (characters)]` each."""
    data = _joined(texts)
    first = tf.where(begins_character(data))[:, 0]
    after = tf.pad(first, [[0, 1]], constant_values=tf.size(data, tf.int64))[1:]
    text_splits = tf.pad(tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64)), [[1, 0]])
    splits = tf.searchsorted(first, text_splits, out_type=tf.int64)
    starts = tf.RaggedTensor.from_row_splits(first, splits, validate=False)
    begin = tf.gather(text_splits, row_ids(starts))
    return starts.with_values(first - begin), starts.with_values(after - begin)


def spans_through(
    spans: tuple[tf.RaggedTensor, tf.RaggedTensor],
    ids: tf.RaggedTensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Converts spans of tokens in normalized texts to spans in the original texts.

    Args:
        spans: start and end in the original text of each normalized character,
            `[N, (characters)]` each.
        ids: token ids `[N, (tokens)]`.
        starts: position of each token's first character in the normalized text.
        ends: position after each token's last character in the normalized text.
    """
    first, after = spans
    begin = tf.gather(tf.cast(first.row_starts(), tf.int32), row_ids(ids))
    places = tf.gather(first.values, begin + starts.values)
    last = tf.maximum(ends.values - 1, starts.values)
    until = tf.maximum(tf.gather(after.values, begin + last), places)
    until = tf.where(starts.values == ends.values, places, until)  # a space that was trimmed
    return ids, starts.with_values(places), ends.with_values(until)


def _joined(texts: tf.Tensor) -> tf.Tensor:
    """Returns the bytes of all texts, uint8 `[B]`."""
    return tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)


def row_ids(ragged: tf.RaggedTensor) -> tf.Tensor:
    """Returns the row of each value, `[values]`, with the dtype of the splits.

    `RaggedTensor.value_rowids` makes a matrix and pads all rows to the length of the longest row.
    If one of many rows is very long, this matrix does not fit into memory. This function uses
    only operators that TFLite has.
    """
    splits = ragged.row_splits
    begins = splits[1:-1, tf.newaxis]
    steps = tf.scatter_nd(begins, tf.ones_like(begins[:, 0]), [splits[-1] + 1])
    return tf.cumsum(steps)[:-1]
