"""Batches on their way to the replicas."""

from collections.abc import Iterator

import tensorflow as tf

from keras_bert.pretraining.data.example_index import Plan
from keras_bert.pretraining.data.examples import Examples


def distributed_batches(
    strategy: tf.distribute.Strategy,
    examples: Examples,
    batch_size: int,
    *,
    epoch: int = 0,
    start: int = 0,
    plan: Plan | None = None,
    limit: int | None = None,
) -> Iterator:
    """The batches of an epoch, every replica of every worker getting its part, in order.

    Args:
        strategy: whose replicas.
        examples: of all of them; a worker makes its own part only.
        batch_size: over all replicas.
        epoch: number of the epoch.
        start: number of the first example.
        plan: `examples.plan(epoch)`, if it is at hand.
        limit: number of examples, from the beginning of the epoch; None means all.
    """
    replicas = strategy.num_replicas_in_sync

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = replicas // context.num_input_pipelines
        return examples.dataset(
            batch_size,
            epoch=epoch,
            start=start,
            limit=limit,
            plan=plan,
            parts=replicas,
            first_part=context.input_pipeline_id * local,
            local_parts=local,
        )

    return iter(strategy.distribute_datasets_from_function(dataset))
