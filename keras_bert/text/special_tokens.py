"""Special tokens that a user writes into the text, such as the `[MASK]` of fill-mask."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.ragged import row_ids
from keras_bert.text.splitting import WHITE_SPACE


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


def split_at_special_tokens(
    texts: tf.Tensor, ids: Mapping[str, int], *, taking_space: Sequence[str] = ()
) -> Parts:
    """Cuts texts `[N]` before and after each of the special tokens.

    Args:
        texts: UTF-8.
        ids: the special tokens, with their ids.
        taking_space: those of them to which the white space before them belongs; they start after
            it all the same.
    """
    longest_first = sorted(ids, key=len, reverse=True)
    space = f"[{WHITE_SPACE}]*"
    pattern = "|".join(
        f"{space if token in taking_space else ''}{re.escape(token)}" for token in longest_first
    )
    without_nul = tf.strings.regex_replace(texts, r"\x00", "\x01")  # NUL ends regex_split
    parts, first, last = tf_text.regex_split_with_offsets(without_nul, pattern, pattern)
    tokens = parts.values
    if taking_space:
        with_space = "|".join(map(re.escape, taking_space))
        tokens = tf.strings.regex_replace(tokens, f"^{space}({with_space})$", r"\1")
    matches = tokens[:, tf.newaxis] == list(ids)  # [parts, special tokens]
    is_special = tf.reduce_any(matches, axis=1)
    special_ids = tf.gather(list(ids.values()), tf.argmax(matches, axis=1))
    whole = tf.gather(texts, row_ids(parts))
    plain = tf.strings.substr(whole, first.values, last.values - first.values)

    ends = tf.cumsum(tf.strings.length(parts.values, unit="UTF8_CHAR"))
    begins = tf.pad(ends, [[1, 0]])
    before_text = tf.gather(begins, tf.gather(parts.row_starts(), row_ids(parts)))
    starts = ends - tf.strings.length(tokens, unit="UTF8_CHAR")  # after the space that is taken
    return Parts(
        parts.with_values(tf.where(is_special, "", plain)),
        parts.with_values(tf.where(is_special, special_ids, -1)),
        parts.with_values(starts - before_text),
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
    first = tf.gather(parts.starts.values, row_ids(starts))

    def joined(pieces: tf.RaggedTensor, of_parts: tf.RaggedTensor) -> tf.RaggedTensor:
        alone = tf.RaggedTensor.from_row_lengths(of_parts.values[special], counts)
        return parts.plain.with_values(tf.concat([pieces, alone], axis=1)).merge_dims(1, 2)

    return (
        joined(ids, parts.special_ids),
        joined(starts.with_values(starts.values + first), parts.starts),
        joined(ends.with_values(ends.values + first), parts.ends),
    )
