"""Reads directories into which another process may be saving, and names what a save may replace.

A save replaces the files of a directory one by one (`keras_bert.atomic`). Readers therefore open
all files between two looks at the directory, again if it has changed, and keep weights open: an
open file stays what it was when another one takes its name.
"""

import contextlib
import json
import logging
import os
import re
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from keras_bert.atomic import SAVED, Owned, finish_interrupted, not_ours
from keras_bert.errors import CheckpointError, InputError

_ATTEMPTS = 100
_READ = re.compile(r"\.(json|safetensors|h5|txt|model|index|data-[\w-]+)$")
"""Names of files that a format reads; a log beside them may grow."""

TEXT_FILES = (
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "vocab.json",
    "vocab.txt",
)
"""Names of the tokenizers' own files, of all kinds."""

# Each of these would change the model that the directory opens as, here or in another library.
_CONTRADICTING = (
    "keras_bert.json",
    "modules.json",
    "config.json",
    "*.index",
    "model.weights.*",
    "model_*.weights.h5",
    "adapter_config.json",
)
# These are passed over beside the weights that a save writes.
_OTHER_WEIGHTS = (
    "*.safetensors.index.json",
    "pytorch_model*.bin",
    "tf_model*.h5",
    "flax_model*.msgpack",
)
_OF_ANY_REPOSITORY = {"README.md", "LICENSE", "LICENSE.md", "LICENSE.txt"}

logger = logging.getLogger(__name__)

Opened = TypeVar("Opened")


def open_consistently(path: Path, open_files: Callable[[], Opened]) -> Opened:
    """Returns what `open_files` returns, with all files from one save.

    Args:
        path: the directory, or a file in it.
        open_files: reads the small files and opens the weights; called again if a file has been
            replaced meanwhile.

    Raises:
        CheckpointError: if files are replaced each time.
    """
    directory = path if path.is_dir() else path.parent
    for _ in range(_ATTEMPTS):
        finish_interrupted(directory)
        before = _state(directory)
        try:
            opened = open_files()
        except Exception:
            if _state(directory) == before:
                raise
        else:
            if _state(directory) == before and SAVED not in before:
                return opened
        time.sleep(0.01)
    raise CheckpointError(
        f"{path} is replaced again and again while it is opened; load it when the other process "
        "saves less often."
    )


class KeptFile:
    """A file that is opened once, whatever takes its name later.

    Args:
        path: the file.

    Raises:
        OSError: if it cannot be opened.
    """

    def __init__(self, path: Path):
        self.path = path
        self.file = open(path, "rb")  # noqa: SIM115
        weakref.finalize(self, self.file.close)
        self._before = self._size_and_time()

    def array(self, dtype: Any, start: int, shape: Sequence[int]) -> np.ndarray:
        """Returns a read-only view of a part of the file.

        Raises:
            CheckpointError: if the file was written since it was opened.
        """
        if self._size_and_time() != self._before:
            raise CheckpointError(f"{self.path} was changed while it was read; load it again.")
        return np.memmap(self.file, dtype, "r", start, tuple(shape))

    def _size_and_time(self) -> tuple[int, int]:
        status = os.fstat(self.file.fileno())
        return status.st_size, status.st_mtime_ns


def _state(directory: Path) -> dict[str, tuple[int, ...]]:
    """Returns what changes when a save replaces or writes a file that a format reads.

    Of hidden files, only a save that is being put into place counts.
    """
    state: dict[str, tuple[int, ...]] = {}
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            read = entry.is_dir() or _READ.search(entry.name)
            if entry.name == SAVED or (read and not entry.name.startswith(".")):
                status = os.stat(entry.path, follow_symlinks=os.path.exists(entry.path))
                times = (status.st_mtime_ns, status.st_ctime_ns)
                state[entry.name] = (status.st_ino, status.st_size, *times)
    return state


def earlier_save(marker: str, is_known: Callable[[Any], bool], files: Collection[str]) -> Owned:
    """Returns an `Owned` for the directories of a format.

    A new repository holds only hidden files, a card and a license. A model may be saved into it.

    Args:
        marker: name of the file that every save in the format writes.
        is_known: whether the content of the marker, read as JSON, belongs to the format.
        files: relative names of all files that a save in the format can write.
    """

    def owned(directory: Path) -> Collection[str]:
        _check_nothing_contradicts(directory, files)
        if not (directory / marker).exists():
            shown = {path.name for path in directory.iterdir() if path.name[0] != "."}
            if not shown <= _OF_ANY_REPOSITORY:
                raise not_ours(directory)
        elif not is_known(_content(directory / marker)):
            raise InputError(
                f"{directory / marker} describes no model, so the files beside it may not be "
                "replaced; choose another directory or remove this file first."
            )
        for name in _there(directory, _OTHER_WEIGHTS):
            logger.warning("%s stays, but does not hold the new weights.", directory / name)
        return files

    return owned


def _check_nothing_contradicts(directory: Path, files: Collection[str]) -> None:
    others = [name for name in _there(directory, _CONTRADICTING) if name not in files]
    if others:
        raise InputError(
            f"{directory} holds {', '.join(others)}, which would contradict the new model; "
            "choose another directory or remove these files first."
        )


def _there(directory: Path, patterns: Collection[str]) -> list[str]:
    return sorted({path.name for pattern in patterns for path in directory.glob(pattern)})


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
