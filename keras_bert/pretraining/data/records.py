"""Records: files of token ids that `keras-bert tokenize` made from text.

A directory of records has shards and `manifest.json`, which is written last. A shard is a
safetensors file of int32 vectors for one part of the text. Shards are mapped into memory, so NumPy
and the graph can read any part of a shard. (A TFRecord file can only be read from beginning to
end.)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.files import save_tensors
from keras_bert.errors import InputError, UnreadableFileError
from keras_bert.pretraining.data.corpus import Lines
from keras_bert.pretraining.data.mapped_tokens import WIDTH, MappedFile
from keras_bert.text.documents import format_of
from keras_bert.text.remote import find_files, is_address, open_address
from keras_bert.text.tokenizer import Tokenizer

MANIFEST = "manifest.json"
SOURCE = "source.json"
"""File with a description of text and tokenizer, which is written first. A directory that has
this file, but not the manifest, is unfinished."""

_GLOB = re.compile(r"[*?\[]")


class Shard(NamedTuple):
    """A file of records.

    Attributes:
        path: path or address of the file.
        tokens: number of tokens.
        size: size of the file in bytes.
    """

    path: str
    tokens: int
    size: int


def is_records(name: str) -> bool:
    """Returns whether a name or an address is a directory that `keras-bert tokenize` wrote."""
    if is_address(name):
        if _GLOB.search(name) or format_of(name) or name.endswith((".txt", ".gz", ".zst")):
            return False
        try:
            return bool(find_files(f"{name}/{SOURCE}"))
        except InputError:  # a store may deny to look up files that do not exist
            return False
    return (Path(name) / SOURCE).is_file()


def open_shards(directory: str, tokenizer: Tokenizer) -> list[Shard]:
    """Returns the shards of a directory, which must be complete and made with the same tokenizer.

    Raises:
        InputError: if the directory is unfinished or damaged, or was made by another tokenizer.
    """
    path = f"{directory}/{MANIFEST}"
    try:
        with open_address(path) if is_address(path) else open(path, "rb") as file:
            manifest = json.load(file)
        made_by = dict(manifest["tokenizer"])
        shards = [
            Shard(f"{directory}/{shard['name']}", shard["tokens"], shard["bytes"])
            for shard in manifest["shards"]
        ]
    except FileNotFoundError:
        raise InputError(
            f"{directory} is not finished; start the same keras-bert tokenize command again. It "
            "continues where it stopped."
        ) from None
    except InputError:  # the store has failed
        raise
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} is damaged; delete it and start the same keras-bert tokenize command again. "
            "It writes the file again."
        ) from None
    for name, now in fingerprint(tokenizer).items():
        if made_by.get(name) != now:
            raise InputError(
                f"{directory} was made by a tokenizer with another {name} than this run's. Use the "
                "same vocabulary as keras-bert tokenize (and the same lowercase), or tokenize the "
                "text again."
            )
    return shards


def open_shard(shard: Shard, vocabulary_size: int) -> tuple[MappedFile, Lines]:
    """Opens a shard and verifies it.

    Raises:
        UnreadableFileError: if the file is missing or damaged, or holds ids that the vocabulary
            lacks.
    """
    path = shard.path
    try:
        file = MappedFile(path)
        lines = Lines(*map(file.vector, Lines._fields))
        checksums = [zlib.crc32(lines.tokens.data), _lines_checksum(lines)]
    except InputError:  # the store has failed
        raise
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        raise _damaged(path) from None
    tokens = lines.tokens
    low, high = (int(tokens.min()), int(tokens.max())) if len(tokens) else (0, 0)
    if low < 0 or high >= vocabulary_size:
        raise UnreadableFileError(
            f"{path} holds the token id {low if low < 0 else high}, but the vocabulary has "
            f"the ids 0 to {vocabulary_size - 1}; tokenize the text again."
        )
    if file.checksums[1:] != checksums or file.size * WIDTH != shard.size:
        raise _damaged(path)
    return file, lines


def fingerprint(tokenizer: Tokenizer) -> dict[str, str]:
    """Returns a tokenizer's kind, a hash of its tokens and a hash of its options."""
    tokens, config = "\n".join(tokenizer.vocabulary.tokens), tokenizer.get_config()
    return {
        "kind": tokenizer.kind,
        "vocabulary": _hash(tokens),
        "options": _hash(json.dumps(config, sort_keys=True)),
    }


def write_shard(path: str | os.PathLike, lines: Lines, text: int) -> None:
    """Writes a file of records.

    Args:
        path: path of the file.
        lines: content of the file.
        text: checksum of the text of the lines.

    Raises:
        StorageError: if a file cannot be written.
    """
    # Use one metadata entry. safetensors writes several in any order, so equal files would differ.
    checksums = f"{text} {zlib.crc32(lines.tokens.data)} {_lines_checksum(lines)}"
    with replacing(path) as new:
        save_tensors(lines._asdict(), new, {"checksums": checksums})


def entry(path: Path) -> dict[str, Any]:
    """Returns the manifest's entry for a file of records."""
    file = MappedFile(path)
    return {
        "name": path.name,
        "tokens": len(file.vector("tokens")),
        "lines": len(file.vector("lengths")),
        "bytes": path.stat().st_size,
    }


def _lines_checksum(lines: Lines) -> int:
    return zlib.crc32(lines.breaks.data, zlib.crc32(lines.lengths.data))


def _damaged(path: str) -> UnreadableFileError:
    manifest = f"{path.rpartition('/')[0]}/{MANIFEST}"
    return UnreadableFileError(
        f"{path} is missing or damaged; delete it and {manifest}, and start the same "
        "keras-bert tokenize command again. It makes the missing files."
    )


def count_documents(files: Iterable[MappedFile]) -> int:
    """Counts the documents with text in consecutive files."""
    breaks, lines = [np.zeros(1, np.int64)], 0
    for file in files:
        breaks.append(lines + file.vector("breaks").astype(np.int64))
        lines += len(file.vector("lengths"))
    starts = np.unique(np.concatenate(breaks))
    return int((starts < lines).sum())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
