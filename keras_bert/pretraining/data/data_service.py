"""Makes batches on other hosts, by `tf.data` service, in the same order as on this machine.

One dispatcher with many workers gives batches in any order, and a worker that comes back begins
anew. Here every host has a dispatcher and a worker of its own, and the hosts make the batches in
turn: their order is the plan's, whatever the hosts are, and a run may be continued at any batch.

TensorFlow's servers have no option for an address: they listen on all interfaces. They ask for no
password and run any graph that they receive, including a graph that reads and writes files.
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
    """A dispatcher and its only worker, in this process, until it is stopped.

    Args:
        port: port of the dispatcher, which runs name; 0 means any port.
        worker_port: port of the worker; 0 means any port.
        host: name of this machine for other hosts. It does not limit who can connect.
        listen_on_all_interfaces: consent to TensorFlow's only way of listening. Whoever reaches the
            ports can read and write files as this user, so a firewall must protect the ports.

    Raises:
        InputError: without the consent.
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
                "TensorFlow's data service listens on all network interfaces, and whoever reaches "
                "its ports can read and write files as this user. Let a firewall protect the "
                "ports, then add --listen-on-all-interfaces (listen_on_all_interfaces=True)."
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
            "Ports %d and %d are open on all network interfaces, not only on %s: whoever reaches "
            "them can read and write files as this user.",
            port,
            worker_port,
            host,
        )

    def stop(self) -> None:
        """Stops both servers. A run that reads from them waits for a host, and ends then."""
        self._worker._stop()
        self._dispatcher._stop()


def map_on_hosts(
    indices: tf.data.Dataset, make: Callable[[tf.Tensor], Any], hosts: Sequence[str]
) -> tf.data.Dataset:
    """Computes `indices.map(make)` on hosts in turn, in the order of the indices.

    Args:
        indices: int64, ascending one by one.
        make: function of an index. Everything that it captures is sent to the hosts.
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
def fed_by(hosts: Sequence[str]) -> Iterator[None]:
    """Raises one clear error if a data host fails within the block.

    Args:
        hosts: addresses of `DataHost`s; empty if the batches are made here.

    Raises:
        WorkerLostError: if a host fails.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError:  # memory, of this process or of its device
        raise
    except tf.errors.OpError as error:
        if not hosts:
            raise
        raise WorkerLostError(
            f"A data host has stopped or begun anew, or training failed ({first_sentence(error)}); "
            f"see that {', '.join(hosts)} run and start the run again: it goes on from the last "
            "checkpoint."
        ) from error
