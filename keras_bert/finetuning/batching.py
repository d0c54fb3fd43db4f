"""Batches of rows and targets, sorted so that texts of similar length share a batch.

The batches of all epochs are planned before training; the TensorFlow graph only gathers and pads
rows. Every epoch has all examples. Their order depends only on (seed, epoch), so a resumed run
can begin at any epoch.

An element of a batch is one row or, if rows form groups, one group of rows: for example, a text
with each of its choices.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.finetuning.jobs.job import PerToken, Targets
from keras_bert.layers.crf import IGNORED
from keras_bert.text.rows import Rows, splits_of

ACCELERATOR_STEP = 8
"""On accelerators, the length of a batch is a multiple of this number: kernels are faster then."""

NOISE = 2
"""Number of batches by which chance can move a text in the order of the lengths."""


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    """Plan of the batches of some epochs: a sequence of S elements, divided into steps.

    Args:
        elements: index of each element, int64 `[S]`.
        weights: weight of each element in the loss, float32 `[S]`.
        splits: borders of the steps, int64 `[steps + 1]`. Step i has the elements from `splits[i]`
            to `splits[i + 1] - 1`.
    """

    elements: np.ndarray
    weights: np.ndarray
    splits: np.ndarray

    @property
    def steps(self) -> int:
        """Number of steps in all epochs together."""
        return len(self.splits) - 1


def epoch_batches(
    lengths: np.ndarray, batch_size: int, rng: np.random.Generator, *, length_buckets: bool = True
) -> list[np.ndarray]:
    """Returns the indices of all elements in random order, as batches. One batch may be smaller.

    Args:
        lengths: length of each element, int `[E]`.
        batch_size: elements per batch.
        rng: random generator that decides the order.
        length_buckets: whether elements of similar length share a batch. The elements are sorted by
            length, in random order if lengths are equal, and each one is moved by at most `NOISE`
            batches. A smaller batch comes from any place of this order, because its elements have
            more weight than others. Then the batches are shuffled. The largest batch, with padding,
            comes first, so that a run that lacks memory fails at once.
    """
    order = rng.permutation(len(lengths))
    if not length_buckets:
        return _cut(order, batch_size)
    order = order[np.argsort(-lengths[order], kind="stable")]
    # Without noise, the longest texts of a small set would share a batch in every epoch.
    noise = rng.uniform(0, NOISE * batch_size, len(order))
    order = order[np.argsort(np.arange(len(order)) + noise)]
    full, rest = divmod(len(order), batch_size)
    smaller = batch_size * rng.integers(full + 1)
    parts = np.split(order, [smaller, smaller + rest])
    batches = [batch for part in parts for batch in _cut(part, batch_size)]
    batches = [batches[index] for index in rng.permutation(len(batches))]
    largest = np.argmax([len(batch) * lengths[batch].max() for batch in batches])
    batches.insert(0, batches.pop(largest))
    return batches


def plan_batches(
    rows: Rows,
    targets: Targets,
    weights: np.ndarray | None = None,
    *,
    batch_size: int,
    epochs: Iterable[int],
    seed: int,
    length_buckets: bool = True,
    replicas: int = 1,
    gradient_accumulation_steps: int = 1,
) -> BatchPlan:
    """Plans the elements and weights of every step of some epochs.

    A batch takes `gradient_accumulation_steps` steps, and each step runs on `replicas` devices. So
    a batch has `gradient_accumulation_steps * replicas` parts, of the same number of elements.
    Missing elements of the last parts are filled with copies of an element with weight 0. The
    weights make the mean of the parts' losses equal to the loss of the whole batch, even if the
    parts differ in their number of targets.

    Args:
        rows: R rows, E = R / `rows.group` elements.
        targets: targets of the elements.
        weights: weight of each element in the loss, float32 `[E]`; None for 1.
        batch_size: elements per batch.
        epochs: numbers of the epochs. Each epoch has its own order.
        seed: seed of the order.
        length_buckets: see `epoch_batches`.
        replicas: number of devices.
        gradient_accumulation_steps: steps per batch.
    """
    lengths = rows.lengths.reshape(-1, rows.group).max(axis=1)
    weights = np.ones(len(lengths), np.float32) if weights is None else weights
    parts = replicas * gradient_accumulation_steps
    counts = _divisors(rows, targets)
    elements, scales, sizes = list[np.ndarray](), list[np.ndarray](), [0]
    for epoch in epochs:
        rng = np.random.default_rng([seed, epoch])
        for batch in epoch_batches(lengths, batch_size, rng, length_buckets=length_buckets):
            size = -(-len(batch) // parts)  # of a part
            fill = (0, size * parts - len(batch))
            filled = np.pad(batch, fill, mode="edge")
            # Keras divides each part's sum by the part's size, which counts fillers.
            total = counts[batch].sum()
            divisors = np.repeat(counts[filled].reshape(parts, size).sum(axis=1), size)
            elements.append(filled)
            scales.append(np.pad(weights[batch], fill) * divisors * parts / max(total, 1))
            sizes += [size * replicas] * gradient_accumulation_steps
    return BatchPlan(
        np.concatenate(elements), np.concatenate(scales).astype(np.float32), np.cumsum(sizes)
    )


def batches(rows: Rows, targets: Targets, plan: BatchPlan) -> tf.data.Dataset:
    """Returns the batches of a plan, one after the other.

    Returns:
        `(inputs, targets, weights)`. Inputs are `token_ids`, `segment_ids` and `padding_mask`,
        int32 `[B, T]` or, if rows form groups of C, `[B, C, T]`. Targets are the given ones of
        the batch; `PerToken` targets are padded to int32 `[B, T]`. Weights are float32 `[B]`, or
        `[B, 1]` for a mean over tokens.
    """
    multiple = length_step()
    with tf.device("cpu:0"):
        flat = {name: tf.constant(rows.flat[name]) for name in ("token_ids", "segment_ids")}
        flat["padding_mask"] = tf.ones_like(flat["token_ids"])
        splits, lengths = tf.constant(rows.splits), tf.constant(rows.lengths)
        values = tf.nest.map_structure(tf.constant, targets.values)
        elements, weights = tf.constant(plan.elements), tf.constant(plan.weights)
        steps = tf.constant(plan.splits)

    def batch(step: tf.Tensor) -> tuple[Any, Any, tf.Tensor]:
        inside = slice(steps[step], steps[step + 1])
        chosen = elements[inside]
        row = tf.reshape(chosen[:, None] * rows.group + np.arange(rows.group), [-1])
        length = tf.gather(lengths, row)
        longest = -(-tf.reduce_max(length) // multiple) * multiple
        position = tf.range(tf.minimum(longest, rows.longest))
        mask = position < length[:, None]
        source = tf.where(mask, tf.gather(splits, row)[:, None] + position, 0)

        def padded(tokens: tf.Tensor, fill: int) -> tf.Tensor:
            array = tf.where(mask, tf.gather(tokens, source), fill)
            return (
                tf.reshape(array, [-1, rows.group, tf.size(position)]) if rows.group > 1 else array
            )

        fills = {"token_ids": rows.pad_id}
        inputs = {name: padded(tokens, fills.get(name, 0)) for name, tokens in flat.items()}
        weight = weights[inside]
        if not isinstance(targets, PerToken):
            chosen_values = tf.nest.map_structure(lambda value: tf.gather(value, chosen), values)
            return inputs, chosen_values, weight
        # Keras multiplies the weights with a mask `[B, T]`.
        return (
            inputs,
            padded(values, IGNORED),
            weight if targets.mean == "rows" else weight[:, None],
        )

    return tf.data.Dataset.range(plan.steps).map(batch, num_parallel_calls=tf.data.AUTOTUNE)


def length_step() -> int:
    """Returns a number that divides the length of every batch: 1 if there are only CPUs."""
    accelerated = any(device.device_type != "CPU" for device in tf.config.list_logical_devices())
    return ACCELERATOR_STEP if accelerated else 1


def _divisors(rows: Rows, targets: Targets) -> np.ndarray:
    """Returns the number of terms that each element adds to the mean loss, int `[E]`."""
    if not isinstance(targets, PerToken) or targets.mean == "rows":
        return np.ones(len(rows) // rows.group, np.int64)
    so_far = splits_of(targets.values != IGNORED)
    return np.diff(so_far[rows.splits]).reshape(-1, rows.group).sum(axis=1)


def _cut(values: np.ndarray, size: int) -> list[np.ndarray]:
    return [values[start : start + size] for start in range(0, len(values), size)]
