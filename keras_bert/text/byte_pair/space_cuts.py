r"""Texts cut at their spaces, without a change to the words that GPT-2's splitting finds in them.

The splitting (`gpt2_splitting.py`) begins a word at a space that has no white space before it, and
at one that has none after it, and looks at nothing beyond. So what such spaces begin can be split
by itself: once for all its occurrences in a batch.
"""

from __future__ import annotations

import tensorflow as tf

from keras_bert.text.wordpiece.splitting import WHITE_SPACE

_BEGINS_TEXT = "\x01"
_INSIDE_WHITE = f"[{WHITE_SPACE}] ([{WHITE_SPACE}]|$)"  # a space that may begin no word
_UNCUT = rf"\C*({_BEGINS_TEXT}|{_INSIDE_WHITE})\C*"  # \C is any byte


def cut_at_spaces(texts: tf.Tensor) -> tf.RaggedTensor:
    """Chunks `[N, (chunks)]` of texts `[N]`, without their space and with a mark where it lacks.

    A text that cannot be cut at every space stays whole.
    """
    marked = tf.strings.join([_BEGINS_TEXT, texts])
    uncut = tf.strings.regex_full_match(texts, _UNCUT)
    chunks = tf.strings.split(tf.where(uncut, _BEGINS_TEXT, marked), " ")
    chunks = chunks.with_row_splits_dtype(tf.int64)
    whole = tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(marked, uncut), tf.cast(uncut, tf.int64), validate=False
    )
    return tf.concat([chunks, whole], axis=1)


def restore_spaces(chunks: tf.Tensor) -> tf.Tensor:
    """What chunks `[X]` were in their texts."""
    begins_text = tf.strings.substr(chunks, 0, 1) == _BEGINS_TEXT
    with_space = tf.strings.join([" ", chunks])
    left_out = tf.where(begins_text, 2, 0)
    return tf.strings.substr(with_space, left_out, tf.strings.length(with_space) - left_out)
