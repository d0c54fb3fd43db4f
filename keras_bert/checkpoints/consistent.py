"""Reading a directory into which another process may be saving.

A save replaces the files of a directory one by one (`keras_bert.atomic`). Readers therefore open
all files between two looks at the directory, again if it has changed, and keep weights open: an
open file stays what it was when another one takes its name.
"""

import contextlib
import os
import re
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from keras_bert.atomic import SAVED, finish_interrupted
from keras_bert.errors import CheckpointError

_ATTEMPTS = 100
_READ = re.compile(r"\.(json|safetensors|h5|txt|model|index|data-[\w-]+)$")
"""Names of files that a format reads; a log beside them may grow."""

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
