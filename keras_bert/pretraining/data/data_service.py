"""Makes batches on other hosts, by `tf.data` service, in the same order as on this machine.

In `tf.data` service, one dispatcher with many workers gives batches in any order, and a restarted
worker starts from the beginning. Here every host has its own dispatcher with one worker, and the
hosts make the batches in turn. So the order of the batches does not depend on the hosts, and a run
can continue at any batch.

TensorFlow's servers always listen on all network interfaces. They ask for no password and run any
graph that they receive, including a graph that reads and writes files.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.data.experimental import service

from keras_bert.errors import InputError, WorkerLostError, first_sentence

_logger = logging.getLogger(__name__)

PROTOCOL = "grpc"


class DataHost:
    """A dispatcher and its only worker in this process. They run until `stop` is called.

    Args:
        port: port of the dispatcher, to which runs connect. 0 means any free port.
        worker_port: port of the worker. 0 means any free port.
        host: name of this machine for other hosts. The name does not limit who can connect.
        listen_on_all_interfaces: must be true, because TensorFlow's servers always listen on all
            interfaces. Anyone who can reach the ports can read and write files as this user, so a
            firewall must protect the ports.

    Raises:
        InputError: if `listen_on_all_interfaces` is false.
    """

    def __init__(
        self,
        port: int = 0,
        worker_port: int = 0,
        host: str = "localhost",
        *,
        listen_on_all_interfaces: bool = False,
    ):
        if not listen_on_all_interfaces:
            raise InputError(
                "TensorFlow's data service listens on all network interfaces, and anyone who can "
                "reach its ports can read and write files as this user. Protect the ports with a "
                "firewall, then add --listen-on-all-interfaces (listen_on_all_interfaces=True)."
            )
        self._dispatcher = service.DispatchServer(
            service.DispatcherConfig(port=port, protocol=PROTOCOL)
        )
        port = int(self._dispatcher.target.rpartition(":")[2])
        self._worker = service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=f"localhost:{port}",
                worker_address=f"{host}:%port%",
                port=worker_port,
                protocol=PROTOCOL,
            )
        )
        self.address = f"{PROTOCOL}://{host}:{port}"
        worker_port = int(self._worker._address.rpartition(":")[2])
        _logger.warning(
            "Ports %d and %d are open on all network interfaces, not only on %s. Anyone who can "
            "reach them can read and write files as this user.",
            port,
            worker_port,
            host,
        )

    def stop(self) -> None:
        """Stops both servers, so that a run that reads from them ends after a while."""
        self._worker._stop()
        self._dispatcher._stop()


def map_on_hosts(
    indices: tf.data.Dataset, make: Callable[[tf.Tensor], Any], hosts: Sequence[str]
) -> tf.data.Dataset:
    """Computes `indices.map(make)` on several hosts in turn, in the order of the indices.

    Args:
        indices: dataset of consecutive int64 numbers.
        make: function that makes the batch of an index. All tensors that it captures are sent to
            the hosts.
        hosts: addresses of `DataHost`s.
    """

    def numbered(index: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return index, make(index)

    def checked(index: tf.Tensor, answer: tuple[tf.Tensor, Any]) -> Any:
        number, made = answer
        message = "A data service gave another batch than was wanted; start the run again."
        with tf.control_dependencies([tf.debugging.assert_equal(number, index, message)]):
            return tf.nest.map_structure(tf.identity, made)

    parts = []
    for turn, host in enumerate(hosts):
        part = indices.shard(len(hosts), turn)
        part = part.map(numbered, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        address = host if "://" in host else f"{PROTOCOL}://{host}"
        parts.append(part.apply(service.distribute(service.ShardingPolicy.OFF, address)))
    turns = indices.enumerate().map(lambda number, _: number % len(hosts))
    made = tf.data.Dataset.choose_from_datasets(parts, turns, stop_on_empty_dataset=False)
    return tf.data.Dataset.zip(indices, made).map(checked)


@contextlib.contextmanager
def on_data_host_failure(hosts: Sequence[str]) -> Iterator[None]:
    """Raises one clear error if a data host fails while the `with` block runs.

    Args:
        hosts: addresses of `DataHost`s. Empty if this process makes the batches.

    Raises:
        WorkerLostError: if a host fails.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError:  # this process or its device lacks memory
        raise
    except tf.errors.OpError as error:
        if not hosts:
            raise
        raise WorkerLostError(
            "A data host has stopped or was restarted, or training failed "
            f"({first_sentence(error)}). Check that {', '.join(hosts)} are running and start the "
            "run again: it continues from the last checkpoint."
        ) from error
