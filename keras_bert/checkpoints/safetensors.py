"""Tensors in safetensors files, one or several."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert.checkpoints.directories import KeptFile
from keras_bert.errors import CheckpointError, StorageError

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


class SafetensorsFiles:
    """The tensors of one file or of a set of shards.

    Each tensor is read when it is asked for, through a memory map of its own, so that no more
    than one tensor is held twice. The files stay open, so that all tensors are of one save.

    Args:
        files: path to the names of the tensors to take from it, or None for all.

    Raises:
        CheckpointError: if a file is missing or not a safetensors file, or lacks a tensor.
    """

    def __init__(self, files: Mapping[Path, Iterable[str] | None]):
        self._places: dict[str, _Place] = {}
        self._files = list(files)
        for path, wanted in files.items():
            places = _places(path)
            for name in places if wanted is None else wanted:
                # transformers' TensorFlow classes put their name in front, but only in the index.
                here = name if name in places else name.partition("/")[2]
                if here not in places:
                    raise CheckpointError(f"{path} lacks the tensor {name!r} that its index names.")
                self._places[here] = places[here]

    def names(self) -> Iterable[str]:
        """The names of all tensors."""
        return self._places.keys()

    def read(self, name: str) -> np.ndarray:
        """One tensor, a read-only view of its file.

        Raises:
            CheckpointError: if it is of a type that NumPy does not have, or the file was written
                since it was opened.
        """
        file, kind, shape, start = self._places[name]
        if kind not in _TYPES:
            raise CheckpointError(
                f"{file.path}: tensor {name!r} is {kind}, but must be F32 or the like."
            )
        if 0 in shape:
            return np.empty(shape, _TYPES[kind])
        return file.array(_TYPES[kind], start, shape)

    def where(self, name: str) -> str:
        """The file of a tensor, or the first file."""
        return str(self._places[name].file.path if name in self._places else self._files[0])


def read_index(index: Path) -> dict[Path, list[str]]:
    """The shards that an index (`*.index.json`) names, all beside it, and the tensors of each.

    Raises:
        CheckpointError: if the index is not valid or names files elsewhere.
    """
    try:
        tensors = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        shards = sorted(set(tensors.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index} is not a valid index of weights: {error!r}.") from error
    for shard in shards:
        if not isinstance(shard, str) or Path(shard).name != shard or shard in ("", ".", ".."):
            raise CheckpointError(
                f"{index} names the file {shard!r}; shards must stand beside their index."
            )
    return {
        index.parent / shard: [name for name, file in tensors.items() if file == shard]
        for shard in shards
    }


class _Place(NamedTuple):
    """Where a tensor stands, and what it is."""

    file: KeptFile
    kind: str
    shape: tuple[int, ...]
    start: int


def save_tensors(
    tensors: Mapping[str, Any], path: str | os.PathLike, metadata: dict[str, str] | None = None
) -> None:
    """Writes arrays (or variables) by name, and flushes them to the disk.

    Raises:
        StorageError: if a file cannot be written.
    """
    arrays = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    try:
        Path(path).touch()
        mode = os.stat(path).st_mode
        save_file(arrays, path, metadata)
        os.chmod(path, mode)  # safetensors' own lets nobody but the writer read it
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except (SafetensorError, OSError) as error:
        raise StorageError(f"Cannot write {path}: {error}.") from error


def assign_tensors(variables: Mapping[str, Any], path: str | os.PathLike) -> None:
    """Sets variables from a file of the same names, shapes and types: all of them or none.

    Raises:
        CheckpointError: if the file cannot be read, lacks a tensor, or one does not fit.
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
                f"but {list(variable.shape)} is wanted."
            )
    for name, array in arrays.items():
        variables[name].assign(array)


def _places(path: Path) -> dict[str, _Place]:
    """The tensors of a file: a length, so many bytes of JSON, the tensors."""
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; the checkpoint is not complete.")
    try:
        kept = KeptFile(path)
        with safe_open(path, framework="np"):  # checks everything
            pass
        length = int.from_bytes(kept.file.read(8), "little")
        header = json.loads(kept.file.read(length))
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}.") from error
    return {
        name: _Place(kept, x["dtype"], tuple(x["shape"]), 8 + length + x["data_offsets"][0])
        for name, x in header.items()
        if name != "__metadata__"
    }
