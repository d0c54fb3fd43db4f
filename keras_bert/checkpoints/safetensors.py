"""Tensors in safetensors files, one or several."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert.errors import CheckpointError, InputError


class SafetensorsFiles:
    """The tensors of one file or of a set of shards.

    Each tensor is read when it is asked for, through a memory map that is closed again, so that
    no more than one tensor is held twice.

    Args:
        files: path to the names of the tensors to take from it, or None for all.

    Raises:
        CheckpointError: if a file is missing or not a safetensors file, or lacks a tensor.
    """

    def __init__(self, files: Mapping[Path, Iterable[str] | None]):
        self._paths: dict[str, Path] = {}
        self._files = list(files)
        for path, wanted in files.items():
            with _open(path) as file:
                there = set(file.keys())
            for name in there if wanted is None else wanted:
                if name not in there:
                    raise CheckpointError(f"{path} lacks the tensor {name!r} that its index names.")
                self._paths[name] = path

    @classmethod
    def sharded(cls, index: Path) -> "SafetensorsFiles":
        """The files that an index (`*.safetensors.index.json`) names, all beside it.

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
        return cls(
            {
                index.parent / shard: [name for name, file in tensors.items() if file == shard]
                for shard in shards
            }
        )

    def names(self) -> Iterable[str]:
        """The names of all tensors."""
        return self._paths.keys()

    def read(self, name: str) -> np.ndarray:
        """One tensor; bfloat16 as float32.

        Raises:
            CheckpointError: if it cannot be read.
        """
        path = self._paths[name]
        with _open(path) as file:
            try:
                return file.get_tensor(name)
            except (SafetensorError, TypeError, ValueError) as error:
                raise CheckpointError(f"{path}: cannot read {name!r}: {error}.") from error

    def where(self, name: str) -> str:
        """The file of a tensor, or the first file."""
        return str(self._paths.get(name, self._files[0]))


def save_tensors(
    tensors: Mapping[str, Any], path: str | os.PathLike, metadata: dict[str, str] | None = None
) -> None:
    """Writes arrays (or variables) by name, and flushes them to the disk.

    Raises:
        InputError: if the disk refuses.
    """
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    try:
        save_file(arrays, path, metadata)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except (SafetensorError, OSError) as error:
        raise InputError(f"Cannot write {path}: {error}.") from error


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


def _open(path: Path) -> Any:
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; the checkpoint is not complete.")
    try:
        return safe_open(path, framework="np")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}.") from error
