"""Runs work with a tokenizer in several processes, of this machine or of a Ray cluster."""

from __future__ import annotations

import functools
import json
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any

from keras_bert.errors import InputError, KerasBertError
from keras_bert.extras import require
from keras_bert.text.tokenizer import Tokenizer, tokenizer_class

Work = Callable[..., Any]
"""Function of a tokenizer and of other arguments. It can be pickled."""

_MAX_RETRIES = 10
"""Number of times that Ray does the same work again because its process has died."""


def local(
    work: Work, tokenizer: Tokenizer, calls: Iterable[tuple], workers: int | None
) -> Generator[tuple[int, Any], None, None]:
    """Does work in processes of this machine. One worker needs no other process.

    Args:
        work: function that is called with the tokenizer and the arguments of a call.
        tokenizer: tokenizer for the work.
        calls: arguments of each call.
        workers: number of processes. By default, the number of processors.

    Yields:
        The index of a call and its result, as they come.

    Raises:
        InputError: if a process dies.
    """
    workers = workers or os.cpu_count() or 1
    if workers == 1:
        yield from enumerate(work(tokenizer, *call) for call in calls)
        return
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _end_with_parent, (reader,))
    kind, config = _description(tokenizer)
    try:
        yield from _results(pool.submit(_run, work, kind, config, *call) for call in calls)
    except BrokenProcessPool:
        raise InputError(
            "A worker process has died, perhaps for lack of memory. Give the same command with "
            "fewer workers to continue, or use smaller shards with another output."
        ) from None
    except BaseException:
        writer.close()  # ends the workers, whose work may take hours
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        writer.close()
        reader.close()


def on_ray(
    work: Work, tokenizer: Tokenizer, calls: Iterable[tuple], workers: int | None
) -> Generator[tuple[int, Any], None, None]:
    """Does work on a Ray cluster: that of `RAY_ADDRESS`, or a new one on this machine.

    If a process or a machine dies, others do its work again.

    Args:
        work: see `local`.
        tokenizer: see `local`.
        calls: see `local`.
        workers: number of processes of a new cluster. By default, the number of processors.

    Yields:
        The index of a call and its result, as they come.

    Raises:
        InputError: if Ray is missing or fails, or processes die again and again.
    """
    ray = require("ray", "ray", "The runner ray")
    is_ours = not ray.is_initialized()
    if is_ours:
        address = os.environ.get("RAY_ADDRESS") or "local"
        new = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **new)
        # RuntimeError: a cluster of another version. ValueError: an address without a port.
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(
                f"The Ray cluster {address!r} cannot be used: {str(error).splitlines()[0]} Start "
                "it, or unset RAY_ADDRESS for processes of this machine."
            ) from error
    task = ray.remote(num_cpus=1, max_retries=_MAX_RETRIES)(_run)
    kind, config = _description(tokenizer)
    begun: list[Any] = []
    try:
        stored = ray.put(config)
        begun += [task.remote(work, kind, stored, *call) for call in calls]
        yield from _results(reference.future() for reference in begun)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from (None if isinstance(error.cause, KerasBertError) else error)
    except ray.exceptions.RayError as error:
        raise InputError(
            f"The Ray cluster has failed: {str(error).splitlines()[0]} Give the same command to "
            "continue."
        ) from error
    finally:
        if is_ours:
            ray.shutdown()
        else:
            for reference in begun:
                ray.cancel(reference, force=True)


RUNNERS = {"local": local, "ray": on_ray}


def _results(futures: Iterable[Future]) -> Iterator[tuple[int, Any]]:
    numbers = {future: number for number, future in enumerate(futures)}
    for future in as_completed(numbers):
        yield numbers[future], future.result()


def _description(tokenizer: Tokenizer) -> tuple[str, str]:
    return tokenizer.kind, json.dumps(tokenizer.get_config())


def _run(work: Work, kind: str, config: str, *arguments: Any) -> Any:
    return work(_tokenizer(kind, config), *arguments)


@functools.cache
def _tokenizer(kind: str, config: str) -> Tokenizer:
    """Makes the tokenizer of a worker process, which uses one thread."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tokenizer_class(kind).from_config(json.loads(config))


def _end_with_parent(reader: Connection) -> None:
    """Ends this process when its parent ends or closes the other end of the pipe."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        connection.wait([parent.sentinel, reader])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
