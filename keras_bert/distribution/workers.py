"""Communication between the processes of a strategy."""

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError, WorkerLostError, first_sentence

_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)
"""Errors of an all-reduce after another worker has died. Failures of this worker may also raise
them."""


class Workers:
    """The processes of a strategy. The first process, the chief, writes files.

    Args:
        strategy: any strategy. Only a `MultiWorkerMirroredStrategy` has several processes.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        resolver = strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver else {}
        several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self.number = len(cluster["worker"]) if several else 1
        self.index = resolver.task_id if several else 0
        self._strategy = strategy
        self._add = tf.function(self._sum_of_replicas)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes files."""
        return self.index == 0

    def any_reduce(self, flag: bool) -> bool:
        """Returns whether the flag is true on at least one worker. All workers must call this."""
        return self._sum(int(flag)) > 0

    def barrier(self) -> None:
        """Waits until all workers reach this barrier.

        If a worker leaves a barrier and ends, it may cut off messages that others still receive.
        So there are two barriers: no worker leaves the second before all have left the first. A
        failure of the second barrier is ignored.
        """
        self._sum(0)
        with contextlib.suppress(*_LOST):
            self._sum(0)

    def check_same(self, number: int, what: str) -> None:
        """Checks that all workers have the same number.

        Raises:
            InputError: if the numbers differ; the message names `what`.
        """
        if self._sum(number) != number * self._strategy.num_replicas_in_sync:
            raise InputError(f"The workers do not have the same {what}.")

    def gather(self, numbers: Sequence[int]) -> list[list[int]]:
        """Returns the numbers of each worker. All workers must call this."""
        if self.number == 1:
            return [list(numbers)]
        table = np.zeros([self.number, len(numbers)], np.int64)
        table[self.index] = numbers
        result = self._strategy.experimental_local_results(self._add(tf.constant(table)))[0]
        return (result.numpy() // self._replicas).tolist()

    @property
    def _replicas(self) -> int:
        """Number of replicas of a worker."""
        return self._strategy.num_replicas_in_sync // self.number

    def _sum(self, number: int) -> int:
        """Sums a number over all replicas. Each replica adds the number of its worker."""
        return sum(of_worker[0] for of_worker in self.gather([number])) * self._replicas

    def _sum_of_replicas(self, numbers: tf.Tensor) -> tf.Tensor:
        def add() -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            # Copy the numbers to this device, so that `all_reduce` knows which device to use.
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(numbers))

        return self._strategy.run(add)

    @contextlib.contextmanager
    def on_worker_failure(self) -> Iterator[None]:
        """Raises one clear error if another worker is lost while the `with` block runs.

        Raises:
            WorkerLostError: if another worker is lost.
        """
        try:
            yield
        except _LOST as error:
            if self.number == 1:
                raise
            raise WorkerLostError(
                f"Worker {self.index} of {self.number} stops, because another one has stopped or "
                f"cannot be reached, or it failed itself ({first_sentence(error)}). Read the "
                "messages of the others, and start all of them again: they continue from the last "
                "checkpoint."
            ) from error
