"""States of training that continue exactly: their files are verified before they are used."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert.atomic import flush
from keras_bert.errors import CheckpointError

PROGRESS = "progress.json"
"""How far the training is, and the checksums of the safetensors files beside it."""


def write_progress(directory: Path, progress: Mapping[str, Any]) -> None:
    """Writes `progress.json` as the last file of a state, and flushes all of it to the disk.

    Args:
        directory: the state, still under a temporary name.
        progress: values for JSON.
    """
    checksums = {file.name: _checksum(file) for file in sorted(directory.glob("*.safetensors"))}
    description = json.dumps({**progress, "checksums": checksums}, indent=2)
    (directory / PROGRESS).write_text(description + "\n", "utf-8")
    for path in (*directory.iterdir(), directory):
        flush(path)


def read_progress(directory: Path) -> dict[str, Any]:
    """Returns what `write_progress` was given.

    Raises:
        CheckpointError: if a file is missing or is not what was written.
    """
    try:
        progress = json.loads((directory / PROGRESS).read_text("utf-8"))
        checksums = dict(progress["checksums"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{directory / PROGRESS} is missing or damaged.") from error
    for path, expected in ((directory / name, expected) for name, expected in checksums.items()):
        if not path.is_file():
            raise CheckpointError(f"{path} is missing.")
        if _checksum(path) != expected:
            raise CheckpointError(f"{path} is damaged: its checksum has changed.")
    return progress


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
