"""Examples to batches, as one chain."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.finetuning.examples import Examples
from keras_bert.text.strings import to_strings

LENGTH_STEP = 16  # few different lengths, so that few graphs are compiled


def batches(
    preprocessor: Any,
    examples: Examples,
    targets: np.ndarray | None = None,
    *,
    batch_size: int = 32,
    shuffle_seed: int | None = None,
) -> tf.data.Dataset:
    """Batches of the encoder's inputs, each as long as its longest text needs.

    Args:
        preprocessor: texts to inputs; its `sequence_length` is the longest.
        examples: N examples.
        targets: `[N, ...]`, or None.
        batch_size: examples per batch; the last one has what is left.
        shuffle_seed: another order for every epoch, the same for the same seed; None keeps the
            order.

    Returns:
        `(inputs, targets)` or `(inputs,)`; inputs are int32 `[B, T]` by name.
    """
    columns = (examples.texts,) if examples.pairs is None else (examples.texts, examples.pairs)
    texts = tuple(to_strings(list(column)) for column in columns)

    def prepare(*values: Any) -> Any:
        strings = values[: len(texts)]
        inputs = preprocessor(strings if len(texts) == 2 else strings[0])
        return (trim(inputs), *values[len(texts) :])

    dataset = tf.data.Dataset.from_tensor_slices(texts if targets is None else (*texts, targets))
    if shuffle_seed is not None:
        dataset = dataset.shuffle(len(examples), seed=shuffle_seed, reshuffle_each_iteration=True)
    dataset = dataset.batch(batch_size).map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def trim(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Drops columns `[B, T]` that are padding in every row, down to a multiple of 16."""
    longest = tf.reduce_max(tf.reduce_sum(inputs["padding_mask"], axis=1))
    length = -(-longest // LENGTH_STEP) * LENGTH_STEP
    return {name: array[:, :length] for name, array in inputs.items()}
