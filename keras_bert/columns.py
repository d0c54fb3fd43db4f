"""Columns of texts and of other values: lists, arrays, pandas Series and tensors.

TensorFlow is not imported here, because tasks run without it on JAX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError


def is_strings(values: Any) -> bool:
    """Returns whether a list, array, tensor, pandas Series or other column has strings."""
    if _is_tensor(values):
        return getattr(values.dtype, "name", None) == "string"
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values.dtype.kind in "UST"
    if not (isinstance(values, (Sequence, np.ndarray)) or hasattr(values, "to_numpy")):
        return False
    if _is_string(values):
        return False
    return any(_is_string(value) or is_strings(value) for value in to_list(values))


def to_list(values: Any) -> list[Any]:
    """Returns the elements of a column. An array or tensor becomes nested lists."""
    if _is_tensor(values):
        values = values.numpy()
    if hasattr(values, "to_numpy"):  # pandas, whose index need not begin with 0
        values = values.to_numpy()
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def to_arrays(values: Any) -> Any:
    """Returns a column as an array, and a dictionary of columns as a dictionary of arrays."""
    if isinstance(values, Mapping):
        return {name: to_arrays(each) for name, each in values.items()}
    if values is None or _is_tensor(values):
        return values
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    return np.asarray(array.tolist()) if array.dtype == object else array


def not_a_text(number: int, value: Any) -> InputError:
    """Returns the error for an element of a column that is not a text."""
    return InputError(
        f"Text {number} is {value!r}, but must be a string; leave out examples without a text."
    )


def _is_string(value: Any) -> bool:
    return isinstance(value, (str, bytes))


def _is_tensor(values: Any) -> bool:
    """Returns whether values are a tensor of TensorFlow or PyTorch."""
    return hasattr(values, "dtype") and hasattr(values, "numpy")
