"""Opens directories that another process may be saving into, and lists files that may be replaced.

A save replaces the files of a directory one by one (`keras_bert.atomic`). A reader therefore
compares the directory before and after it opens the files. If the directory has changed, the reader
opens the files again. The weights' files stay open, because an open file keeps its content when
a new file takes its name.
"""

import contextlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from keras_bert.atomic import SAVED, finish_interrupted, not_ours
from keras_bert.errors import CheckpointError, InputError

_ATTEMPTS = 100
_READ = re.compile(r"\.(json|safetensors|h5|txt|model|index|data-[\w-]+)$")
"""Matches names of files that a format reads. Other files, such as a log, may change."""

TEXT_FILES = (
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "vocab.json",
    "vocab.txt",
)
"""Names of the files that the tokenizers write, of all kinds of tokenizers."""

# With one of these files, the directory would open as another model, here or in another library.
_CONTRADICTING = (
    "keras_bert.json",
    "modules.json",
    "config.json",
    "*.index",
    "model.weights.*",
    "model_*.weights.h5",
    "adapter_config.json",
)
# Readers ignore these files beside the weights that a save writes.
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
    """Returns the result of `open_files`, with all files from the same save.

    Args:
        path: the directory, or a file in it.
        open_files: function that reads the small files and opens the weights. If a file was
            replaced meanwhile, the function is called again.

    Raises:
        CheckpointError: if files are replaced during each of many calls.
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


def _state(directory: Path) -> dict[str, tuple[int, ...]]:
    """Returns inode, size and times of the files that a format reads.

    If a save is still moving its files into place, the result also has `SAVED`. Other hidden names
    are left out.
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


def replaceable_files(
    directory: Path, *, marker: str, is_known: Callable[[Any], bool], files: Collection[str]
) -> Collection[str]:
    """Returns the names of all files in a directory that a save may replace.

    A model may also be saved into a new repository, which holds only hidden files, a card and a
    license.

    Args:
        directory: the directory of an earlier save.
        marker: name of the file that every save in the format writes.
        is_known: function that returns whether the marker's content, read as JSON, belongs to the
            format.
        files: relative names of all files that a save in the format can write.

    Raises:
        InputError: if the directory holds something other than a model or a new repository.
    """
    others = [name for name in _there(directory, _CONTRADICTING) if name not in files]
    if others:
        raise InputError(
            f"{directory} holds {', '.join(others)}, which would contradict the new model; "
            "choose another directory or remove these files first."
        )
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
        logger.warning("%s is kept, but does not hold the new weights.", directory / name)
    return files


def _there(directory: Path, patterns: Collection[str]) -> list[str]:
    return sorted({path.name for pattern in patterns for path in directory.glob(pattern)})


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
