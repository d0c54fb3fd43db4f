"""Records: files of token ids that `keras-bert tokenize` made from text.

A directory of records has shards and `manifest.json`, which is written last. A shard is a
safetensors file of int32 vectors for one part of the text. Shards are mapped into memory, so NumPy
and the graph can read any part of a shard. (A TFRecord file can only be read from beginning to
end.)
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.files import read_json, save_tensors
from keras_bert.errors import InputError
from keras_bert.pretraining.background import Background
from keras_bert.pretraining.data.corpus import Lines, TokenizedCorpus
from keras_bert.pretraining.data.mapped_tokens import MappedFile, MappedTokens
from keras_bert.text.tokenizer import Tokenizer

MANIFEST = "manifest.json"
SOURCE = "source.json"
"""File with a description of text and tokenizer, which is written first. A directory that has
this file, but not the manifest, is unfinished."""

_AT_ONCE = 2**22
"""Number of tokens to verify before checking again for a request to stop."""


def open_corpus(
    names: Sequence[str],
    tokenizer: Tokenizer,
    *,
    max_sentence_tokens: int = 64,
    text_field: str = "text",
) -> TokenizedCorpus:
    """Opens a corpus of text files or of directories of records.

    Args:
        names: names, globs or addresses of text files, or directories of records.
        tokenizer: tokenizer of the text.
        max_sentence_tokens: see `TokenizedCorpus.from_files`.
        text_field: see `TokenizedCorpus.from_files`.

    Raises:
        InputError: if there are both text and records, or a file or directory cannot be used.
    """
    directories = [Path(name) for name in names if (Path(name) / SOURCE).is_file()]
    if not directories:
        return TokenizedCorpus.from_files(
            names, tokenizer, max_sentence_tokens=max_sentence_tokens, text_field=text_field
        )
    if len(directories) < len(names):
        raise InputError(
            f"{directories[0]} has been tokenized, but others of {', '.join(names)} have not; name "
            "only directories that keras-bert tokenize wrote, or only text files."
        )
    files = [file for directory in directories for file in _files(directory, tokenizer)]
    parts = [Lines(*map(file.vector, Lines._fields)) for file in files]
    for file, part in zip(files, parts, strict=True):
        _check_ids(file, part.tokens, len(tokenizer.vocabulary))
    corpus = TokenizedCorpus.from_lines(
        parts, MappedTokens(files), tokenizer, max_sentence_tokens=max_sentence_tokens
    )
    return dataclasses.replace(corpus, files=tuple(files))


@contextlib.contextmanager
def verifying(corpora: Iterable[TokenizedCorpus]) -> Iterator[Background]:
    """Verifies the tokens of corpora in the background, each file once.

    If a file is damaged, the method `wait` of the yielded object raises an `InputError` that names
    the file. The verification stops when the `with` block ends.
    """
    files = {file.path: file for corpus in corpora for file in corpus.files}
    stop = threading.Event()
    with Background() as background:
        background.start(functools.partial(_verify_tokens, files.values(), stop))
        try:
            yield background
        finally:
            stop.set()


def fingerprint(tokenizer: Tokenizer) -> dict[str, str]:
    """Returns a tokenizer's kind, a hash of its tokens and a hash of its options."""
    tokens, config = "\n".join(tokenizer.vocabulary.tokens), tokenizer.get_config()
    return {
        "kind": tokenizer.kind,
        "vocabulary": _hash(tokens),
        "options": _hash(json.dumps(config, sort_keys=True)),
    }


def write_shard(path: str | os.PathLike, lines: Lines, text: int) -> dict[str, Any]:
    """Writes a file of records.

    Args:
        path: path of the file.
        lines: content of the file.
        text: checksum of the text of the lines.

    Returns:
        The file's entry in the manifest.

    Raises:
        StorageError: if a file cannot be written.
    """
    # Use one metadata entry. safetensors writes several in any order, so equal files would differ.
    checksums = f"{text} {zlib.crc32(lines.tokens.data)} {_lines_checksum(lines)}"
    with replacing(path) as new:
        save_tensors(lines._asdict(), new, {"checksums": checksums})
    return entry(Path(path))


def entry(path: Path) -> dict[str, Any]:
    """Returns the manifest's entry for a file of records."""
    file = MappedFile(path)
    return {
        "name": path.name,
        "tokens": len(file.vector("tokens")),
        "lines": len(file.vector("lengths")),
        "bytes": path.stat().st_size,
    }


def _files(directory: Path, tokenizer: Tokenizer) -> list[MappedFile]:
    """Opens the files of a directory, which must be complete and made with the same tokenizer."""
    if not (directory / MANIFEST).is_file():
        raise InputError(
            f"{directory} is not finished; start the same keras-bert tokenize command again. It "
            "continues where it stopped."
        )
    manifest = read_json(directory / MANIFEST)
    try:
        made_by = dict(manifest["tokenizer"])
        sizes = {directory / shard["name"]: shard["bytes"] for shard in manifest["shards"]}
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{directory / MANIFEST} is damaged; delete it and start the same keras-bert tokenize "
            "command again. It writes the file again."
        ) from None
    for name, now in fingerprint(tokenizer).items():
        if made_by.get(name) != now:
            raise InputError(
                f"{directory} was made by a tokenizer with another {name} than this run's. Use the "
                "same vocabulary as keras-bert tokenize (and the same lowercase), or tokenize the "
                "text again."
            )
    return [_open_file(path, size) for path, size in sizes.items()]


def _open_file(path: Path, size: int) -> MappedFile:
    """Opens a file of records and verifies everything but the tokens."""
    try:
        if path.stat().st_size == size:
            file = MappedFile(path)
            lines = Lines(*map(file.vector, Lines._fields))
            if file.checksums[2] == _lines_checksum(lines):
                return file
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        pass
    raise _damaged(path)


def _check_ids(file: MappedFile, tokens: np.ndarray, vocabulary_size: int) -> None:
    low, high = (int(tokens.min()), int(tokens.max())) if len(tokens) else (0, 0)
    if low < 0 or high >= vocabulary_size:
        raise InputError(
            f"{file.path} holds the token id {low if low < 0 else high}, but the vocabulary has "
            f"the ids 0 to {vocabulary_size - 1}; tokenize the text again."
        )


def _verify_tokens(files: Iterable[MappedFile], stop: threading.Event) -> None:
    for file in files:
        checksum, tokens = 0, file.vector("tokens")
        for start in range(0, len(tokens), _AT_ONCE):
            if stop.is_set():
                return
            checksum = zlib.crc32(tokens[start : start + _AT_ONCE].data, checksum)
        if checksum != file.checksums[1]:
            raise _damaged(file.path)


def _lines_checksum(lines: Lines) -> int:
    return zlib.crc32(lines.breaks.data, zlib.crc32(lines.lengths.data))


def _damaged(path: Path) -> InputError:
    return InputError(
        f"{path} is missing or damaged; delete it and {path.parent / MANIFEST}, and start the same "
        "keras-bert tokenize command again. It makes the missing files."
    )


def count_documents(files: Sequence[MappedFile]) -> int:
    """Counts the documents with text in consecutive files."""
    breaks, lines = [np.zeros(1, np.int64)], 0
    for file in files:
        breaks.append(lines + file.vector("breaks").astype(np.int64))
        lines += len(file.vector("lengths"))
    starts = np.unique(np.concatenate(breaks))
    return int((starts < lines).sum())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
