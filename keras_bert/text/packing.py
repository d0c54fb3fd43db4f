"""`[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, at a fixed length.

Some families have two separators between A and B.

Index arithmetic on whole batches: for every position of the result, the index of the token that
stands there; one gather then fetches them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.text.vocabulary import Vocabulary


class Layout(NamedTuple):
    """Source of each position of a packed batch, all int32 `[N, length]`."""

    source: tf.Tensor
    """Index into the segments' flat values one after the other, then `cls, separator, pad`."""
    segment_ids: tf.Tensor
    padding_mask: tf.Tensor

    def gather(self, segments: Sequence[tf.RaggedTensor], special: Sequence[int]) -> tf.Tensor:
        """Values at every position, int32 `[N, length]`; `special` are cls, separator, pad."""
        values = [tf.cast(segment.values, tf.int32) for segment in segments]
        return tf.gather(tf.concat([*values, tf.constant(special, tf.int32)], 0), self.source)


def pack(
    segments: Sequence[tf.RaggedTensor],
    length: int,
    vocabulary: Vocabulary,
    *,
    separators_in_pair: int = 1,
) -> dict[str, tf.Tensor]:
    """Packs one segment, or two, of token ids int32 `[N, (tokens)]`.

    Args:
        segments: the ids.
        length: of the result.
        vocabulary: says which ids the special tokens have.
        separators_in_pair: how many separators stand between two segments.

    Returns:
        `token_ids`, `segment_ids` and `padding_mask`, int32 `[N, length]`.

    Raises:
        InputError: if `length` leaves no room for a token of each segment.
    """
    arranged = layout(segments, length, separators_in_pair)
    special = (vocabulary.cls_id, vocabulary.separator_id, vocabulary.pad_id)
    return {
        "token_ids": arranged.gather(segments, special),
        "segment_ids": arranged.segment_ids,
        "padding_mask": arranged.padding_mask,
    }


def layout(segments: Sequence[tf.RaggedTensor], length: int, separators_in_pair: int = 1) -> Layout:
    """Lays out one segment or two, cut longest first where they are too long.

    Raises:
        InputError: if there are more, or `length` leaves no room for a token of each.
    """
    if len(segments) not in (1, 2):
        raise InputError(f"Expected one text or a pair of texts, got {len(segments)}.")
    separators = [separators_in_pair, 1][-len(segments) :]  # after each segment
    room = length - sum(separators) - 1
    if room < len(segments):
        raise InputError(
            f"A sequence length of {length} leaves no room for text: "
            f"it must be at least {len(segments) + sum(separators) + 1}."
        )
    sizes = [tf.size(segment.values, out_type=tf.int32) for segment in segments]
    cls = tf.add_n(sizes)
    separator, pad = cls + 1, cls + 2

    position = tf.range(length)[tf.newaxis]  # [1, T]
    source = tf.where(position == 0, cls, pad)
    segment_ids = tf.zeros_like(position)
    start, first = tf.ones([1, 1], tf.int32), tf.constant(0)
    kept = _kept_lengths([tf.cast(s.row_lengths(), tf.int32) for s in segments], room)
    for number, segment in enumerate(segments):
        rows = tf.cast(segment.row_starts(), tf.int32)[:, tf.newaxis] + first  # [N, 1]
        end = start + kept[number][:, tf.newaxis]  # the position of the first separator
        after = end + separators[number]
        inside = (position >= start) & (position < after)
        token = tf.where(position >= end, separator, rows + position - start)
        source = tf.where(inside, token, source)
        segment_ids = tf.where(inside, number, segment_ids)
        start, first = after, first + sizes[number]
    return Layout(source, segment_ids, tf.cast(position < start, tf.int32))


def _kept_lengths(lengths: Sequence[tf.Tensor], room: int) -> list[tf.Tensor]:
    """Tokens `[N]` kept of each segment: the longer one gives first, the second at a tie.

    The same as removing one token at a time from the end (`_truncate_seq_pair` of BERT).
    """
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    kept_second = tf.minimum(second, tf.maximum(room // 2, room - first))
    return [tf.minimum(first, room - kept_second), kept_second]
