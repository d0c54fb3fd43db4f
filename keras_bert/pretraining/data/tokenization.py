"""Converts text to records, in several processes. An interrupted call can be continued."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from pathlib import Path
from typing import Any

from tqdm import tqdm

from keras_bert.atomic import remove_scratch, replace_file
from keras_bert.errors import InputError
from keras_bert.pretraining.data.corpus import tokenize_lines
from keras_bert.pretraining.data.mapped_tokens import MappedFile
from keras_bert.pretraining.data.records import (
    MANIFEST,
    SOURCE,
    count_documents,
    entry,
    fingerprint,
    write_shard,
)
from keras_bert.text.files import Patterns, expand, file_size, iterate_lines
from keras_bert.text.tokenizer import Tokenizer, tokenizer_class

MEGABYTE = 2**20

logger = logging.getLogger(__name__)


def tokenize(
    corpus: Patterns,
    tokenizer: Tokenizer,
    output: str | os.PathLike,
    *,
    workers: int | None = None,
    shard_size: int = 64 * MEGABYTE,
    progress: bool = True,
    text_field: str = "text",
) -> dict[str, Any]:
    """Converts text to records, or continues an interrupted call.

    The text is cut between lines into shards of about `shard_size` bytes. Each shard is a file,
    which has a temporary name until it is complete. In an unfinished directory, complete shards are
    kept, if their text has not changed. The number of workers does not change the records.

    Workers are separate processes, so call this function under `if __name__ == "__main__"`.

    Args:
        corpus: names, globs or addresses of text files; see `data.corpus`.
        tokenizer: tokenizer for the text.
        output: directory for the records. It must be missing, empty, or made from the same text
            with the same tokenizer, shard size and text field.
        workers: number of processes. By default, the number of processors.
        shard_size: bytes of text in each file.
        progress: whether to show a progress bar on standard error.
        text_field: field with the text in records, as in JSON lines.

    Returns:
        The manifest: `files` (the text's names and sizes), `tokenizer`, `shard_size`, `text_field`,
        `shards` (name, tokens, lines and bytes of each), and the totals `documents`, `lines` and
        `tokens`.

    Raises:
        InputError: if the text cannot be read, the text of a complete shard has changed, or the
            directory holds other files or was made from something else.
        StorageError: if a file cannot be written.
    """
    directory = Path(output)
    source = {
        "files": [[name, file_size(name)] for name in expand(corpus)],
        "tokenizer": fingerprint(tokenizer),
        "shard_size": shard_size,
        "text_field": text_field,
    }
    next(iterate_lines(corpus, text_field))  # a wrong text field must not begin a directory
    if _claim(directory, source):
        logger.info("%s is complete.", directory)
        return json.loads((directory / MANIFEST).read_text())
    workers = workers or os.cpu_count() or 1
    texts = _cut(iterate_lines(corpus, text_field), shard_size)
    with (
        processes(tokenizer, workers) as submit,
        tqdm(unit="B", unit_scale=True, disable=not progress) as bar,
    ):
        entries = _make_shards(directory, texts, submit, 2 * workers, bar)
    manifest = {
        **source,
        "shards": entries,
        "documents": count_documents([MappedFile(directory / shard["name"]) for shard in entries]),
        "lines": sum(shard["lines"] for shard in entries),
        "tokens": sum(shard["tokens"] for shard in entries),
    }
    if not manifest["tokens"]:
        raise InputError("The corpus has no tokens; give it lines of text.")
    replace_file(directory / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return manifest


def _claim(directory: Path, source: dict[str, Any]) -> bool:
    """Writes the source to a new directory, or compares it with the source in the directory.

    Returns:
        Whether the records in the directory are complete.

    Raises:
        InputError: if the directory holds other files, or its source is different.
    """
    path = directory / SOURCE
    remove_scratch(directory)
    if path.is_file():
        earlier = {"text_field": "text", **json.loads(path.read_text())}
        for name, what in _MADE_OF.items():
            if earlier[name] != source[name]:
                raise InputError(
                    f"{directory} was begun with {what} than now; choose another output, or set "
                    "it back to continue."
                )
    elif directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(
            f"{directory} exists and was not made by keras-bert tokenize; choose another output."
        )
    else:
        replace_file(path, json.dumps(source, indent=1) + "\n")
    return (directory / MANIFEST).is_file()


_MADE_OF = {
    "files": "other text files, or of other sizes,",
    "tokenizer": "another vocabulary or other options of the tokenizer",
    "shard_size": "another size of the shards",
    "text_field": "another text field",
}


def _cut(lines: Iterable[str], size: int) -> Iterator[bytes]:
    """Joins lines, with a newline after each, to pieces of `size` bytes or a little more."""
    shard: list[bytes] = []
    length = 0
    for line in lines:
        shard.append(line.encode("utf-8", "replace") + b"\n")
        length += len(shard[-1])
        if length >= size:
            yield b"".join(shard)
            shard, length = [], 0
    if shard:
        yield b"".join(shard)


def _make_shards(
    directory: Path,
    texts: Iterable[bytes],
    submit: Callable[..., Future],
    most: int,
    bar: tqdm,
) -> list[dict[str, Any]]:
    """Makes the missing shards; returns the manifest's entries for all shards."""
    entries: dict[int, dict[str, Any]] = {}
    running: dict[Future, tuple[int, int]] = {}

    def collect(limit: int) -> None:
        while len(running) > limit:
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                number, size = running.pop(done)
                entries[number] = done.result()
                bar.update(size)

    try:
        for number, text in enumerate(texts):
            path = directory / f"shard-{number:05d}.safetensors"
            if path.exists():
                _check_same_text(path, text)
                entries[number] = entry(path)
                bar.update(len(text))
            else:
                running[submit(path, text)] = (number, len(text))
            collect(most)
        collect(0)
    except BrokenProcessPool:
        raise InputError(
            "A worker process has died, perhaps for lack of memory. Give the same command with "
            "fewer workers to continue, or use smaller shards with another output."
        ) from None
    return [entries[number] for number in sorted(entries)]


def _check_same_text(path: Path, text: bytes) -> None:
    if MappedFile(path).checksums[0] != zlib.crc32(text):
        raise InputError(
            f"The text has changed since {path} was made; choose another output, or restore the "
            "files."
        )


@contextlib.contextmanager
def processes(tokenizer: Tokenizer, workers: int) -> Iterator[Callable[..., Future]]:
    """Yields a function that makes a shard from a path and a text.

    With one worker, the function runs in this process, otherwise in worker processes.
    """
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


_tokenizer: Tokenizer  # the tokenizer of a worker process


def _become_worker(kind: str, config: dict[str, Any]) -> None:
    """Prepares a worker process: it uses one thread, and ends when its parent ends."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    import tensorflow as tf

    global _tokenizer
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _tokenizer = tokenizer_class(kind).from_config(config)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _work(path: Path, text: bytes) -> dict[str, Any]:
    return _make_shard(path, text, _tokenizer)
