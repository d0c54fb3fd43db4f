"""Files of a checkpoint: JSON, tensors in safetensors, and the progress of a training run."""

import hashlib
import json
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert.atomic import flush
from keras_bert.errors import CheckpointError, StorageError

PROGRESS = "progress.json"
"""File with a training run's progress and the checksums of the safetensors files beside it."""

_TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def read_json(path: Path, kind: type = dict) -> Any:
    """Reads a JSON file that holds an object or, if `kind` is `list`, a list.

    Raises:
        CheckpointError: if the file cannot be read or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(value, kind):
        expected = "object" if kind is dict else kind.__name__
        raise CheckpointError(f"{path} holds a {type(value).__name__}, not a JSON {expected}.")
    return value


def read_json_if_there(path: Path) -> dict[str, Any]:
    """Reads the object in a JSON file, or returns an empty dictionary if there is no file."""
    return read_json(path) if path.exists() else {}


def write_json(value: Mapping[str, Any] | Sequence[Any], path: Path) -> None:
    """Writes an object or a list as indented JSON in UTF-8."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


class OpenFile:
    """A file that stays open, even if another file takes its name.

    Args:
        path: the file.

    Raises:
        OSError: if the file cannot be opened.
    """

    def __init__(self, path: Path):
        self.path = path
        self.file = open(path, "rb")  # noqa: SIM115
        weakref.finalize(self, self.file.close)
        self._before = self._size_and_time()

    def array(self, dtype: Any, start: int, shape: Sequence[int]) -> np.ndarray:
        """Returns a part of the file as a read-only array, mapped into memory.

        Raises:
            CheckpointError: if the file has changed since it was opened.
        """
        if self._size_and_time() != self._before:
            raise CheckpointError(f"{self.path} was changed while it was read; load it again.")
        return np.memmap(self.file, dtype, "r", start, tuple(shape))

    def _size_and_time(self) -> tuple[int, int]:
        status = os.fstat(self.file.fileno())
        return status.st_size, status.st_mtime_ns


class SafetensorsFiles:
    """Tensors of one safetensors file or of a set of shards.

    Each tensor is read on demand through its own memory map, so at most one tensor is in memory
    twice. The files stay open, so all tensors belong to one save.

    Args:
        files: for each path, the names of the tensors to use, or None for all tensors.

    Raises:
        CheckpointError: if a file is missing or not a safetensors file, or lacks a tensor.
    """

    def __init__(self, files: Mapping[Path, Iterable[str] | None]):
        self._places: dict[str, _Place] = {}
        self._files = list(files)
        for path, wanted in files.items():
            places = _places(path)
            for name in places if wanted is None else wanted:
                # transformers' TensorFlow classes put a prefix before names, in the index only.
                here = name if name in places else name.partition("/")[2]
                if here not in places:
                    raise CheckpointError(f"{path} lacks the tensor {name!r} that its index names.")
                self._places[here] = places[here]

    def names(self) -> Iterable[str]:
        """Returns the names of all tensors."""
        return self._places.keys()

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor as a read-only array, mapped from its file.

        Raises:
            CheckpointError: if the tensor's type is not supported, or the file has changed since it
                was opened.
        """
        file, kind, shape, start = self._places[name]
        if kind not in _TYPES:
            raise CheckpointError(
                f"{file.path}: tensor {name!r} has the type {kind}, but must have one of "
                f"{', '.join(_TYPES)}."
            )
        if 0 in shape:
            return np.empty(shape, _TYPES[kind])
        return file.array(_TYPES[kind], start, shape)

    def where(self, name: str) -> str:
        """Returns the path of a tensor's file, or of the first file if there is no such tensor."""
        return str(self._places[name].file.path if name in self._places else self._files[0])


def read_index(index: Path) -> dict[Path, list[str]]:
    """Returns the paths of the shards in an index (`*.index.json`), and the tensors of each shard.

    Raises:
        CheckpointError: if the index is not valid or names a file in another directory.
    """
    try:
        tensors = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        shards = sorted(set(tensors.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index} is not a valid index of weights: {error!r}.") from error
    for shard in shards:
        if not isinstance(shard, str) or Path(shard).name != shard or shard in ("", ".", ".."):
            raise CheckpointError(
                f"{index} names the file {shard!r}; shards must be in the directory of their index."
            )
    return {
        index.parent / shard: [name for name, file in tensors.items() if file == shard]
        for shard in shards
    }


class _Place(NamedTuple):
    """Place, type and shape of a tensor in a safetensors file."""

    file: OpenFile
    kind: str
    shape: tuple[int, ...]
    start: int


def save_tensors(
    tensors: Mapping[str, Any], path: str | os.PathLike, metadata: dict[str, str] | None = None
) -> None:
    """Writes arrays (or variables) to a safetensors file and flushes it to the disk.

    Raises:
        StorageError: if a file cannot be written.
    """
    arrays = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    try:
        Path(path).touch()
        mode = os.stat(path).st_mode
        save_file(arrays, path, metadata)
        os.chmod(path, mode)  # safetensors makes files that only their owner can read
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except (SafetensorError, OSError) as error:
        raise StorageError(f"Cannot write {path}: {error}.") from error


def assign_tensors(variables: Mapping[str, Any], path: str | os.PathLike) -> None:
    """Sets all variables, or none, from a safetensors file with the same names and shapes.

    Raises:
        CheckpointError: if the file cannot be read, a tensor is missing, or a shape differs.
    """
    source = SafetensorsFiles({Path(path): None})
    arrays = {}
    for name, variable in variables.items():
        if name not in source.names():
            raise CheckpointError(f"{path} lacks the tensor {name!r}.")
        arrays[name] = source.read(name)
        if arrays[name].shape != tuple(variable.shape):
            raise CheckpointError(
                f"{path}: tensor {name!r} has shape {list(arrays[name].shape)}, "
                f"but must have {list(variable.shape)}."
            )
    for name, array in arrays.items():
        variables[name].assign(array)


def read_header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Reads the header of an open safetensors file.

    Returns:
        The header's entries by name of the tensor, and the position in the file, in bytes, at which
        the tensors begin.
    """
    length = int.from_bytes(file.read(8), "little")
    return json.loads(file.read(length)), 8 + length


def _places(path: Path) -> dict[str, _Place]:
    """Returns the places of a safetensors file's tensors."""
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; the checkpoint is not complete.")
    try:
        opened = OpenFile(path)
        with safe_open(path, framework="np"):  # checks the whole header
            pass
        header, start = read_header(opened.file)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}.") from error
    return {
        name: _Place(opened, x["dtype"], tuple(x["shape"]), start + x["data_offsets"][0])
        for name, x in header.items()
        if name != "__metadata__"
    }


def write_progress(directory: Path, progress: Mapping[str, Any]) -> None:
    """Writes `progress.json` as the last file of a training state and flushes all files to disk.

    Args:
        directory: directory of the training state, which still has a temporary name.
        progress: values that JSON can hold.
    """
    checksums = {file.name: _checksum(file) for file in sorted(directory.glob("*.safetensors"))}
    description = json.dumps({**progress, "checksums": checksums}, indent=2)
    (directory / PROGRESS).write_text(description + "\n", "utf-8")
    for path in (*directory.iterdir(), directory):
        flush(path)


def read_progress(directory: Path) -> dict[str, Any]:
    """Reads the values that `write_progress` wrote, and verifies the files' checksums.

    Raises:
        CheckpointError: if a file is missing or has changed.
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
