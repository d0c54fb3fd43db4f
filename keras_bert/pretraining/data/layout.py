"""Where the tokens of a plan stand in a row: index arithmetic, in the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from keras_bert.pretraining.data.example_index import EpochPlan, PackedPlan
from keras_bert.text.vocabulary import Vocabulary


class Layout(NamedTuple):
    """A batch of rows, all `[B, T]`.

    Attributes:
        index: int64, number of the token of text that stands here, 0 where none does.
        special: int32, the id that stands here instead, or -1.
        segment_ids: int32.
        document_ids: int32, number of the document in its row from 1, 0 at padding.
    """

    index: tf.Tensor
    special: tf.Tensor
    segment_ids: tf.Tensor
    document_ids: tf.Tensor


def plan_columns(plan: EpochPlan | PackedPlan) -> dict[str, tf.Tensor]:
    """What a plan is made of, as tensors."""
    return {name: tf.constant(column) for name, column in vars(plan).items()}


def arrange(
    plan: Mapping[str, tf.Tensor], number: tf.Tensor, length: int, vocabulary: Vocabulary
) -> Layout:
    """Lays out examples.

    Args:
        plan: its columns.
        number: `[B]` int64, of the examples, ascending and without gaps; the last one may be
            repeated.
        length: T.
        vocabulary: for the special tokens.
    """
    arranged = _packed if "row_splits" in plan else _texts
    return arranged(plan, number, tf.range(length, dtype=tf.int64), vocabulary)


def _texts(
    plan: Mapping[str, tf.Tensor], number: tf.Tensor, position: tf.Tensor, vocabulary: Vocabulary
) -> Layout:
    """One text, `[CLS] a [SEP]`, or two, `[CLS] a [SEP] b [SEP]`."""
    example = {name: tf.gather(column, number)[:, tf.newaxis] for name, column in plan.items()}
    a_end = example["a_length"] + 1  # where the first [SEP] stands
    b_length = example["b_length"]
    end = tf.where(b_length > 0, a_end + b_length + 1, a_end)  # where the last one does
    special = _special_ids(vocabulary, position, end, (position == a_end) | (position == end))
    a_index = example["a_start"] + position - 1
    index = tf.where(position <= a_end, a_index, example["b_start"] + position - a_end - 1)
    inside = position <= end
    return Layout(
        index=tf.where(special < 0, index, 0),
        special=special,
        segment_ids=tf.cast((position > a_end) & inside, tf.int32),
        document_ids=tf.cast(inside, tf.int32),
    )


def _packed(
    plan: Mapping[str, tf.Tensor], number: tf.Tensor, position: tf.Tensor, vocabulary: Vocabulary
) -> Layout:
    """Several texts, `[CLS] a [SEP] [CLS] b [SEP]`, and so on."""
    splits = plan["row_splits"]
    first, last = splits[number[0]], splits[number[-1] + 1]
    cell = number[:, tf.newaxis] * tf.size(position, tf.int64) + position  # [B, T]
    # Which stretch of the batch a cell belongs to: the last that begins before it or in it.
    begins = plan["cell"][first:last]
    stretch = tf.searchsorted(begins, tf.reshape(cell, [-1]), side="right", out_type=tf.int64) - 1
    stretch = tf.reshape(stretch, tf.shape(cell))
    inner = cell - tf.gather(begins, stretch)  # position within it
    stretch += first
    end = tf.gather(plan["length"], stretch) + 1
    special = _special_ids(vocabulary, inner, end, inner == end)
    index = tf.gather(plan["start"], stretch) + inner - 1
    document = stretch - tf.gather(splits, number)[:, tf.newaxis] + 1
    return Layout(
        index=tf.where(special < 0, index, 0),
        special=special,
        segment_ids=tf.zeros_like(special),
        document_ids=tf.cast(tf.where(inner <= end, document, 0), tf.int32),
    )


def _special_ids(
    vocabulary: Vocabulary, position: Any, end: tf.Tensor, is_separator: tf.Tensor
) -> tf.Tensor:
    """`[B, T]` int32: `[CLS]` at 0, padding after the end, separators where told, -1 elsewhere."""
    ids = tf.where(is_separator, vocabulary.separator_id, -1)
    ids = tf.where(position == 0, vocabulary.cls_id, ids)
    return tf.where(position > end, vocabulary.pad_id, ids)
