"""Splits long texts into overlapping windows, in a graph.

`keras_bert.text.rows.arrange` with the overlap "auto" makes the same rows, for a whole corpus and
without padding. Here the rows belong to one request and are padded to the same length.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_bert.text.characters import row_ids
from keras_bert.text.rows import LONGEST_FIRST

_ROWS_AT_ONCE = 32  # rows that the model computes at once, to limit the memory for a long text


class Windows(NamedTuple):
    """R windows of N texts. Each window is padded to T tokens, the length of the longest window."""

    inputs: dict[str, tf.Tensor]
    """`token_ids`, `segment_ids` and `padding_mask`, int32 `[R, T]`."""
    sample_ids: tf.Tensor
    """Index of each window's text, int32 `[R]`."""
    first: tf.Tensor
    """Index of each text's first window, int32 `[N]`."""
    starts: tf.Tensor
    """First character of each token of the text that is split, int32 `[R, T]`; -1 elsewhere."""
    ends: tf.Tensor
    """Character after each of these tokens, int32 `[R, T]`; -1 elsewhere."""
    is_max_context: tf.Tensor
    """Whether no other window shows the token with more context, bool `[R, T]`."""


def windows(preprocessor: Any, texts: tf.Tensor, first_texts: tf.Tensor | None = None) -> Windows:
    """Splits texts `[N]`, or the second texts of pairs, into windows.

    Args:
        preprocessor: the model's preprocessor.
        texts: texts to split, strings `[N]`.
        first_texts: first texts of pairs. Every window of a pair begins with the first text, cut to
            at most `LONGEST_FIRST` tokens and at most half of the text tokens in a window.
    """
    tokenizer, vocabulary = preprocessor.tokenizer, preprocessor.vocabulary
    length, at_end = preprocessor.sequence_length, int(preprocessor.separator_at_end)
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    if first_texts is None:
        before, kept, room = ids, tf.zeros_like(lengths), length - 1 - at_end
        segment_start = tf.ones_like(lengths)
        segment = 0
    else:
        before = tokenizer.tokenize(first_texts)
        room = length - 1 - at_end - preprocessor.separators_in_pair
        kept = tf.minimum(tf.cast(before.row_lengths(), tf.int32), min(LONGEST_FIRST, room // 2))
        segment_start = 1 + kept + preprocessor.separators_in_pair
        segment = min(1, max(preprocessor.num_segments - 1, 0))

    rooms = room - kept
    strides = rooms - rooms // 3
    counts = 1 + tf.maximum(-((rooms - lengths) // strides), 0)
    first = tf.cumsum(counts, exclusive=True)
    sample_ids = tf.repeat(tf.range(tf.size(lengths)), counts)
    begins = (tf.range(tf.size(sample_ids)) - tf.gather(first, sample_ids)) * tf.gather(
        strides, sample_ids
    )
    size = tf.minimum(tf.gather(lengths, sample_ids) - begins, tf.gather(rooms, sample_ids))
    begins, size = begins[:, tf.newaxis], size[:, tf.newaxis]

    def column(values: tf.Tensor) -> tf.Tensor:
        """Returns for each window the value of its text, `[R, 1]`, from values of texts `[N]`."""
        return tf.gather(tf.cast(values, tf.int32), sample_ids)[:, tf.newaxis]

    start = column(segment_start)
    longest = tf.reduce_max(tf.pad(start + size, [[0, 1], [0, 0]]))  # there may be no windows
    position = tf.range(longest + at_end)[tf.newaxis]  # [1, T]
    place = position - start  # index among the text's tokens in the window
    inside = (place >= 0) & (place < size)
    source = column(ids.row_starts()) + begins + place
    in_first = (position > 0) & (position <= column(kept))
    first_source = column(before.row_starts()) + position - 1

    token_ids = _pick(ids.values, inside, source, vocabulary.separator_id)
    token_ids = _pick(before.values, in_first, first_source, token_ids)
    token_ids = tf.where(position == 0, vocabulary.cls_id, token_ids)
    is_text = place < size + at_end  # the text and the separator after it
    inputs = {
        "token_ids": tf.where(is_text, token_ids, vocabulary.pad_id),
        "segment_ids": tf.where(is_text & (place >= 0), segment, 0),
        "padding_mask": tf.cast(is_text, tf.int32),
    }
    starts, ends = (_pick(places.values, inside, source, -1) for places in (starts, ends))
    is_max_context = _is_max_context(place, size, inside, source, tf.size(ids.values))
    return Windows(inputs, sample_ids, first, starts, ends, is_max_context)


def _pick(values: tf.Tensor, where: tf.Tensor, source: tf.Tensor, otherwise: Any) -> tf.Tensor:
    """Picks values `[tokens]` at the indices `source` where `where` is true, else `otherwise`."""
    values = tf.concat([tf.cast(values, tf.int32), [0]], axis=0)  # there may be no tokens
    return tf.where(where, tf.gather(values, tf.where(where, source, 0)), otherwise)


def _is_max_context(
    place: tf.Tensor, size: tf.Tensor, inside: tf.Tensor, source: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
    """Marks each token of the text in the window where it has the most context, bool `[R, T]`.

    The rule is the same as in `text.rows`: the window with the largest score wins, the token's
    distance to the nearer edge + 0.01 × the window's size. If scores are equal, the earlier window
    wins. `inside` marks tokens of the text.
    """
    rows = tf.size(size, tf.int64)
    nearer = tf.minimum(place, size - 1 - place)
    score = tf.cast(100 * nearer + size, tf.int64) * rows - tf.range(rows)[:, tf.newaxis]
    token = tf.where(inside, source, count)
    best = tf.math.unsorted_segment_max(score, token, count + 1)
    return inside & (tf.gather(best, token) == score)


def through(
    function: Callable[..., dict[str, tf.Tensor]], inputs: Sequence[tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Runs a function on a few rows at a time, and joins the outputs.

    Args:
        function: a `tf.function` with an input signature, from tensors `[R, ...]` to tensors
            `[R, ...]`.
        inputs: tensors with any number of rows, also 0.
    """
    named = function.get_concrete_function().structured_outputs  # type: ignore[attr-defined]
    steps = tf.maximum(-(-tf.shape(inputs[0])[0] // _ROWS_AT_ONCE), 1)
    arrays = {
        name: tf.TensorArray(spec.dtype, steps, infer_shape=False, element_shape=spec.shape)
        for name, spec in named.items()
    }

    def body(step: tf.Tensor, arrays: Any) -> tuple[tf.Tensor, Any]:
        rows = slice(step * _ROWS_AT_ONCE, (step + 1) * _ROWS_AT_ONCE)
        outputs = function(*(x[rows] for x in inputs))
        return step + 1, {name: arrays[name].write(step, outputs[name]) for name in named}

    _, arrays = tf.while_loop(
        lambda step, arrays: step < steps, body, (0, arrays), parallel_iterations=1
    )
    return {name: array.concat() for name, array in arrays.items()}


def row_of(splits: tf.Tensor) -> tf.Tensor:
    """Returns the row of each value, int32, for splits `[N + 1]`."""
    ragged = tf.RaggedTensor.from_row_splits(tf.range(splits[-1]), splits, validate=False)
    return tf.cast(row_ids(ragged), tf.int32)
