"""Weights in safetensors files."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert.errors import CheckpointError, InputError


def save_tensors(tensors: Mapping[str, Any], path: str | os.PathLike) -> None:
    """Writes arrays (or variables) by name, and flushes them to the disk.

    Raises:
        InputError: if the disk refuses.
    """
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    try:
        save_file(arrays, path)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except (SafetensorError, OSError) as error:
        raise InputError(f"Cannot write {path}: {error}.") from error


def assign_tensors(variables: Mapping[str, Any], path: str | os.PathLike) -> list[str]:
    """Sets variables from a file, all or none of them.

    Args:
        variables: name to Keras variable.
        path: the safetensors file.

    Returns:
        The names of the variables that the file lacks, which stay as they are.

    Raises:
        CheckpointError: if the file cannot be read, or a tensor has another shape or type, or
            is not finite.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; the checkpoint is not complete.")
    try:
        with safe_open(path, framework="np") as file:
            names = set(file.keys())
            arrays = {name: file.get_tensor(name) for name in variables if name in names}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}.") from error
    for name, array in arrays.items():
        _check(path, name, array, variables[name])
    for name, array in arrays.items():
        variables[name].assign(array)
    return [name for name in variables if name not in arrays]


def _check(path: Path, name: str, array: np.ndarray, variable: Any) -> None:
    if array.shape != tuple(variable.shape):
        raise CheckpointError(
            f"{path}: tensor {name!r} has shape {list(array.shape)}, but the configuration beside "
            f"it wants {list(variable.shape)}."
        )
    if np.issubdtype(array.dtype, np.floating) != ("float" in str(variable.dtype)):
        raise CheckpointError(
            f"{path}: tensor {name!r} is {array.dtype}, but must be {variable.dtype}."
        )
    if not np.isfinite(array).all():
        raise CheckpointError(f"{path}: tensor {name!r} holds values that are not finite.")
