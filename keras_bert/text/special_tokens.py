"""Special tokens that a user writes into the text, such as the `[MASK]` of fill-mask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text


class Parts(NamedTuple):
    """Texts cut at special tokens; all ragged `[N, (parts)]`."""

    plain: tf.RaggedTensor
    """Strings; empty for a special token."""
    special_ids: tf.RaggedTensor
    """int32; -1 for plain text."""
    starts: tf.RaggedTensor
    """int32, the first character in the text."""
    ends: tf.RaggedTensor
    """int32, the character after the last."""


def split_at_special_tokens(texts: tf.Tensor, ids: Mapping[str, int]) -> Parts:
    """Cuts texts `[N]` before and after each of the special tokens, whose ids are given."""
    pattern = "|".join(re.escape(token) for token in sorted(ids, key=len, reverse=True))
    texts = tf.strings.regex_replace(texts, r"\x00", "\x01")  # NUL ends a string in regex_split
    parts = tf_text.regex_split(texts, pattern, pattern)
    matches = parts.values[:, tf.newaxis] == list(ids)  # [parts, special tokens]
    is_special = tf.reduce_any(matches, axis=1)
    special_ids = tf.gather(list(ids.values()), tf.argmax(matches, axis=1))

    ends = tf.cumsum(tf.strings.length(parts.values, unit="UTF8_CHAR"))
    starts = tf.pad(ends, [[1, 0]])
    before_text = tf.gather(starts, tf.gather(parts.row_starts(), parts.value_rowids()))
    return Parts(
        parts.with_values(tf.where(is_special, "", parts.values)),
        parts.with_values(tf.where(is_special, special_ids, -1)),
        parts.with_values(starts[:-1] - before_text),
        parts.with_values(ends - before_text),
    )


def insert_special_tokens(
    parts: Parts, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Puts the special tokens back among the pieces `[parts, (pieces)]` of all the plain parts.

    Returns:
        Ids, starts and ends in characters of the whole texts, int32 `[N, (tokens)]`.
    """
    special = parts.special_ids.values >= 0
    counts = tf.cast(special, tf.int64)
    first = tf.gather(parts.starts.values, starts.value_rowids())

    def joined(pieces: tf.RaggedTensor, of_parts: tf.RaggedTensor) -> tf.RaggedTensor:
        alone = tf.RaggedTensor.from_row_lengths(of_parts.values[special], counts)
        return parts.plain.with_values(tf.concat([pieces, alone], axis=1)).merge_dims(1, 2)

    return (
        joined(ids, parts.special_ids),
        joined(starts.with_values(starts.values + first), parts.starts),
        joined(ends.with_values(ends.values + first), parts.ends),
    )
