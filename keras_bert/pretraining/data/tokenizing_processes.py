"""The processes that turn pieces of text into shards of records."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from keras_bert.pretraining.data.lines import tokenize_lines
from keras_bert.pretraining.data.records import write_shard
from keras_bert.text.tokenizer import Tokenizer, tokenizer_class


@contextlib.contextmanager
def processes(tokenizer: Tokenizer, workers: int) -> Iterator[Callable[..., Future]]:
    """What takes a path and a text and makes the shard, at once or in one of several processes."""
    if workers == 1:

        def at_once(path: Path, text: bytes) -> Future:
            future: Future = Future()
            future.set_result(_make_shard(path, text, tokenizer))
            return future

        yield at_once
        return
    description = (tokenizer.kind, tokenizer.get_config())
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _become_worker, description
    )
    try:
        yield lambda path, text: pool.submit(_work, path, text)
    finally:
        pool.shutdown(cancel_futures=True)


def _make_shard(path: Path, text: bytes, tokenizer: Tokenizer) -> dict[str, Any]:
    lines = text.decode("utf-8").removesuffix("\n").split("\n")
    return write_shard(path, tokenize_lines(lines, tokenizer), zlib.crc32(text))


_tokenizer: Tokenizer  # of a worker


def _become_worker(kind: str, config: dict[str, Any]) -> None:
    """Prepares a process: one thread, and no longer alive than the one that began it."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    import tensorflow as tf

    global _tokenizer
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _tokenizer = tokenizer_class(kind).from_config(config)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _work(path: Path, text: bytes) -> dict[str, Any]:
    return _make_shard(path, text, _tokenizer)
