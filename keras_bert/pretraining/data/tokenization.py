"""Converts text to records, on one machine or several. An interrupted call can be continued."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from keras_bert.atomic import remove_scratch, replace_file
from keras_bert.errors import InputError, UnreadableFileError
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
from keras_bert.pretraining.data.runners import RUNNERS
from keras_bert.text.files import (
    WHOLE,
    Patterns,
    Span,
    UnreadableFile,
    can_be_divided,
    expand,
    file_sizes,
    iterate_lines,
    read_document_lines,
)
from keras_bert.text.remote import is_address
from keras_bert.text.tokenizer import Tokenizer

MEGABYTE = 2**20

logger = logging.getLogger(__name__)


def tokenize(
    corpus: Patterns,
    tokenizer: Tokenizer,
    output: str | os.PathLike,
    *,
    workers: int | None = None,
    runner: str = "local",
    shard_size: int = 64 * MEGABYTE,
    progress: bool = True,
    text_field: str = "text",
    unreadable_files: str = "stop",
) -> dict[str, Any]:
    """Converts text to records, or continues an interrupted call.

    The text is cut between lines into shards of at most about `shard_size` bytes. Each shard is a
    file, which has a temporary name until it is complete. In an unfinished directory, complete
    shards are kept, if their text has not changed. Neither the number of workers nor the runner
    changes the records.

    Workers are separate processes, so call this function under `if __name__ == "__main__"`.

    Args:
        corpus: names, globs or addresses of text files; see `data.corpus`.
        tokenizer: tokenizer for the text.
        output: directory for the records. It must be missing, empty, or made from the same text
            with the same tokenizer, shard size and text field.
        workers: number of processes. By default, the number of processors. A Ray cluster that is
            running already has as many workers as it has processors.
        runner: "local", processes of this machine, or "ray", a Ray cluster: the one whose address
            is in `RAY_ADDRESS`, or else one on this machine. All machines need the text, and
            `output`, under the same names.
        shard_size: bytes of text in each file.
        progress: whether to show a progress bar on standard error.
        text_field: field with the text in records, as in JSON lines.
        unreadable_files: "stop", to raise an error if a file is missing, damaged, changed or not
            UTF-8, or "skip", to leave out the rest of such a file, or of the part of it that a
            worker reads, with a warning.

    Returns:
        The manifest: `files` (the text's names and sizes), `tokenizer`, `shard_size`, `text_field`,
        `shards` (name, tokens, lines and bytes of each), `unreadable_files` (the first error of
        each file of which text was left out), and the totals `documents`, `lines` and `tokens`.

    Raises:
        UnreadableFileError: if `unreadable_files` is "stop" and a file cannot be read.
        InputError: if no text can be read, the text of a complete shard has changed, the
            directory holds other files or was made from something else, or a worker dies.
        StorageError: if a file cannot be written.
    """
    if runner not in RUNNERS:
        raise InputError(f"runner is {runner!r}, but must be one of {', '.join(RUNNERS)}.")
    if unreadable_files not in ("stop", "skip"):
        raise InputError(f"unreadable_files is {unreadable_files!r}, but must be stop or skip.")
    directory = Path(output)
    names = expand(corpus)
    skip, first = unreadable_files == "skip", list[UnreadableFile]()
    sizes = file_sizes(names, skip)
    source = {
        "layout": 2,
        "files": [[name, size] for name, size in zip(names, sizes, strict=True)],
        "tokenizer": fingerprint(tokenizer),
        "shard_size": shard_size,
        "text_field": text_field,
    }
    # A wrong text field must not begin a directory.
    if not any(iterate_lines(corpus, text_field, first.append if skip else None)):
        raise InputError(f"None of the {len(names)} text files can be read. {first[0].error}")
    if _claim(directory, source):
        logger.info("%s is complete.", directory)
        return json.loads((directory / MANIFEST).read_text())
    # Workers may have other working directories.
    addresses = [name if is_address(name) else os.path.abspath(name) for name in names]
    tasks = plan_tasks(zip(addresses, sizes, strict=True), shard_size)
    options = (directory.absolute(), shard_size, text_field, skip)
    calls = [(number, task, *options) for number, task in enumerate(tasks)]
    results = RUNNERS[runner](_tokenize_task, tokenizer, calls, workers)
    with contextlib.closing(results):
        entries, unreadable = _collect(results, tasks, progress)
    given = dict(zip(addresses, names, strict=True))
    errors: dict[str, str] = {}
    for file in unreadable:
        logger.warning("Leaving out text of %s. %s", given[file.address], file.error)
        errors.setdefault(given[file.address], file.error)
    manifest = {
        **source,
        "shards": entries,
        "unreadable_files": errors,
        "documents": count_documents(MappedFile(directory / shard["name"]) for shard in entries),
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
        earlier = {"layout": 1, "text_field": "text", **json.loads(path.read_text())}
        for name, what in _MADE_OF.items():
            if earlier[name] != source[name]:
                raise InputError(
                    f"{directory} was begun with {what} than now; choose another output. To "
                    "continue, use the earlier text and options."
                )
    elif directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(
            f"{directory} exists and was not made by keras-bert tokenize; choose another output."
        )
    else:
        replace_file(path, json.dumps(source, indent=1) + "\n")
    return (directory / MANIFEST).is_file()


_MADE_OF = {
    "layout": "another division of the text into shards",
    "files": "other text files, or of other sizes,",
    "tokenizer": "another vocabulary or other options of the tokenizer",
    "shard_size": "another size of the shards",
    "text_field": "another text field",
}


class Part(NamedTuple):
    """Part of the text: a file or a span of it.

    Attributes:
        address: name or address of the file.
        span: part of the file.
        size: size in bytes, 0 if it is unknown.
        file_size: size of the whole file.
    """

    address: str
    span: Span
    size: int
    file_size: int


class TaskResult(NamedTuple):
    """Result of one or more tasks.

    Attributes:
        entries: the manifest's entries of all shards.
        unreadable: files of which text was left out, once for each part.
        documents: number of documents. A document in several tasks is counted in each.
    """

    entries: list[dict[str, Any]]
    unreadable: list[UnreadableFile]
    documents: int


def plan_tasks(files: Iterable[tuple[str, int]], shard_size: int) -> list[list[Part]]:
    """Divides text into tasks of about `shard_size` bytes, which any worker can do.

    A task has several files, or a span of a file. Only files that `can_be_divided` have spans. The
    tasks depend only on the files, in their order, and on `shard_size`.

    Args:
        files: name or address of each file, and its size in bytes, 0 if it is unknown.
        shard_size: size of a task.
    """
    tasks: list[list[Part]] = []
    # Number of bytes in the last task. It starts full, so that the first file begins a new task.
    length = shard_size
    for address, size in files:
        if size > shard_size and _can_be_divided(address):
            pieces = -(-size // shard_size)
            cuts = [size * piece // pieces for piece in range(pieces + 1)]
            for start, end in itertools.pairwise(cuts):
                span = Span(start, end if end < size else None)
                tasks.append([Part(address, span, end - start, size)])
            length = shard_size
            continue
        if length >= shard_size:
            tasks.append([])
            length = 0
        tasks[-1].append(Part(address, WHOLE, size, size))
        length += size or shard_size
    return tasks


def _can_be_divided(address: str) -> bool:
    try:
        return can_be_divided(address)
    except UnreadableFileError:  # the worker that reads the file reports it
        return False


def _tokenize_task(
    tokenizer: Tokenizer,
    number: int,
    task: list[Part],
    directory: Path,
    shard_size: int,
    text_field: str,
    skip: bool,
) -> TaskResult:
    """Writes the missing shards of a task.

    Raises:
        UnreadableFileError: if the text cannot be read, and `skip` is false.
        InputError: if the text has changed since a shard was written.
        StorageError: if a file cannot be written.
    """
    entries: list[dict[str, Any]] = []
    unreadable: list[UnreadableFile] = []
    lines = itertools.chain.from_iterable(
        read_document_lines(
            part.address,
            span=part.span,
            text_field=text_field,
            size=part.file_size,
            on_unreadable=unreadable.append if skip else None,
        )
        for part in task
    )
    for index, text in enumerate(_cut(lines, shard_size)):
        path = directory / f"shard-{number:05d}-{index:03d}.safetensors"
        checksum = zlib.crc32(text)
        if not path.exists():
            tokenized = tokenize_lines(text.decode().removesuffix("\n").split("\n"), tokenizer)
            write_shard(path, tokenized, checksum)
        elif MappedFile(path).checksums[0] != checksum:
            raise InputError(
                f"The text has changed since {path} was made; choose another output, or restore "
                "the files."
            )
        entries.append(entry(path))
    documents = count_documents(MappedFile(directory / shard["name"]) for shard in entries)
    return TaskResult(entries, unreadable, documents)


def _cut(lines: Iterable[str], size: int) -> Iterator[bytes]:
    """Joins lines, with a newline after each, to pieces of `size` bytes or a little more."""
    shard: list[bytes] = []
    length = 0
    for line in lines:
        shard.append(line.encode("utf-8", "replace") + b"\n")
        length += len(shard[-1])
        if length >= size:
            text = b"".join(shard)
            shard, length = [], 0
            yield text
    if shard:
        yield b"".join(shard)


def _collect(
    results: Iterable[tuple[int, TaskResult]],
    tasks: Sequence[Sequence[Part]],
    progress: bool,
) -> tuple[list[dict[str, Any]], list[UnreadableFile]]:
    """Joins the shards and the unreadable files of all tasks, in order. Shows a progress bar."""
    sizes = [sum(part.size for part in task) for task in tasks]
    done: list[TaskResult] = [TaskResult([], [], 0)] * len(tasks)
    tokens, documents = 0, 0
    with tqdm(total=sum(sizes), unit="B", unit_scale=True, disable=not progress) as bar:
        for number, done[number] in results:
            tokens += sum(shard["tokens"] for shard in done[number].entries)
            documents += done[number].documents
            elapsed = bar.format_dict["elapsed"] or 1
            speed = f"{documents / elapsed:,.0f} documents/s, {tokens / elapsed:,.0f} tokens/s"
            bar.set_postfix_str(speed, refresh=False)
            bar.update(sizes[number])
    return (
        [shard for result in done for shard in result.entries],
        [file for result in done for file in result.unreadable],
    )
