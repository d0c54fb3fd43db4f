"""Columns of texts, and `tf.data` pipelines that make a model's inputs of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from keras_bert.columns import is_strings, to_arrays, to_list
from keras_bert.errors import InputError
from keras_bert.text.tokenizer import to_strings

BATCH_SIZE = 32
"""Default number of texts in a batch, as in Keras."""


def text_columns(x: Any) -> tuple[tf.Tensor, ...] | None:
    """Returns columns of strings, `[N]` or for lists of choices `[N, C]`; None if `x` has no texts.

    Args:
        x: a column of texts, or a tuple of columns: pairs, groups, or texts and their choices.

    Raises:
        InputError: if the columns differ in length, an element is not a string, or lists of choices
            differ in length.
    """
    columns = x if isinstance(x, tuple) and any(map(is_strings, x)) else (x,)
    if not any(map(is_strings, columns)):
        return None
    sizes = [len(column) for column in columns]
    if len(set(sizes)) > 1:
        raise InputError(
            f"The columns of texts have {' and '.join(map(str, sizes))} texts, but must have the "
            "same number."
        )
    return tuple(map(_column, columns))


def text_dataset(
    columns: tuple[tf.Tensor, ...],
    rest: Sequence[Any],
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    repeat: bool = False,
) -> tf.data.Dataset:
    """Returns batches of texts and of `rest`: targets and, if there are any, sample weights.

    Args:
        columns: columns of strings, `[N]` or `[N, C]`.
        rest: arrays `[N, ...]`, or dictionaries of such arrays.
        batch_size: number of texts in a batch; by default `BATCH_SIZE`.
        shuffle: whether to shuffle the examples again in each epoch.
        repeat: whether to repeat the examples without end.

    Raises:
        InputError: if there are more or fewer targets or weights than texts.
    """
    count, arrays = len(columns[0]), [to_arrays(part) for part in rest]
    for size in map(len, tf.nest.flatten(arrays)):
        if size != count:
            raise InputError(
                f"There are {count:,} texts, but {size:,} targets or weights; give one for each."
            )
    dataset = tf.data.Dataset.from_tensor_slices((columns, *arrays))
    dataset = dataset.shuffle(max(count, 1)) if shuffle else dataset
    dataset = dataset.repeat() if repeat else dataset
    return dataset.batch(batch_size or BATCH_SIZE)


def holds_texts(x: Any) -> bool:
    """Returns whether `x` is a dataset of texts.

    Raises:
        InputError: if the dataset has single texts instead of batches.
    """
    if not isinstance(x, tf.data.Dataset):
        return False
    first = tf.nest.flatten(_parts(x.element_spec)[0])
    if not all(getattr(spec, "dtype", None) == tf.string for spec in first):
        return False
    if any(spec.shape.rank == 0 for spec in first):
        raise InputError("The dataset has single texts, but needs batches: dataset.batch(32).")
    return True


def with_inputs(
    dataset: tf.data.Dataset,
    inputs_of: Callable[[tuple[tf.Tensor, ...]], Any],
    labels: Sequence[str] | None = (),
) -> tf.data.Dataset:
    """Returns a dataset with inputs in place of texts, and ids in place of the names of labels.

    Args:
        dataset: batches of texts, or tuples of texts, targets and sample weights.
        inputs_of: makes a model's inputs of columns of strings.
        labels: names of the labels, by id. Strings as targets must be such names. None means that
            targets have no names.

    Raises:
        InputError: if targets are strings, but have no names.
    """
    targets = tf.nest.flatten(_parts(dataset.element_spec)[1:2])
    if labels is None and any(getattr(each, "dtype", None) == tf.string for each in targets):
        raise InputError(
            "The targets of the dataset are strings, but a multi-label model's targets must be "
            "rows of 0 and 1."
        )
    ids = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            list(labels or [""]), tf.range(max(len(labels or ()), 1)), tf.string, tf.int32
        ),
        default_value=-1,
    )

    def prepare(*parts: Any) -> Any:
        texts, *rest = parts
        inputs = inputs_of(texts if isinstance(texts, tuple) else (texts,))
        if rest and getattr(rest[0], "dtype", None) == tf.string:
            targets = ids.lookup(rest[0])
            known = tf.debugging.Assert(
                tf.reduce_all(targets >= 0), ["A target is not a label of the model:", rest[0]], 100
            )
            with tf.control_dependencies([known]):
                rest[0] = tf.identity(targets)
        return (inputs, *rest) if rest else inputs

    return dataset.map(prepare, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def grouped(columns: Sequence[tf.Tensor], inputs_of: Callable[..., Any]) -> dict[str, tf.Tensor]:
    """Returns the inputs `[B, C, T]` of groups of C texts, or of C pairs of texts.

    Args:
        columns: strings `[B, C]`, or `[B, 1]` if the texts of a group have this text in common.
        inputs_of: makes inputs `[N, T]` of columns of strings `[N]`.
    """
    shape = functools.reduce(tf.broadcast_dynamic_shape, map(tf.shape, columns))
    flat = [tf.reshape(tf.broadcast_to(column, shape), [-1]) for column in columns]
    return {
        name: tf.ensure_shape(
            tf.reshape(values, tf.concat([shape, tf.shape(values)[1:]], 0)),
            [None, columns[-1].shape[1], values.shape[1]],
        )
        for name, values in inputs_of(tuple(flat)).items()
    }


def _parts(spec: Any) -> tuple[Any, ...]:
    return spec if isinstance(spec, tuple) else (spec,)


def _column(values: Any) -> tf.Tensor:
    if tf.is_tensor(values):
        return values
    values = to_list(values)
    if not values or not isinstance(values[0], (list, tuple)):
        return to_strings(values)
    sizes = {len(each) for each in values}
    if len(sizes) > 1:
        raise InputError(
            f"The lists of choices have {min(sizes)} to {max(sizes)} choices, but must all have "
            "the same number."
        )
    return tf.reshape(to_strings([text for each in values for text in each]), (len(values), -1))
