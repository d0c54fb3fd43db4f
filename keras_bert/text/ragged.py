"""What tf.RaggedTensor does with too much memory."""

from __future__ import annotations

import tensorflow as tf


def row_ids(ragged: tf.RaggedTensor) -> tf.Tensor:
    """The row of each value, as `value_rowids`, `[values]` of the type of the splits.

    `value_rowids` makes a matrix of all rows by the longest one on its way, which one long word
    among many makes larger than the memory.
    """
    values = tf.range(ragged.row_splits[-1])
    return tf.searchsorted(ragged.row_splits[1:], values, side="right", out_type=values.dtype)
