"""Models whose weights come from a file, without drawing random ones first.

Keras makes variables without values inside a `StatelessScope`, but has no public way to give them
values one by one: the names with an underscore and the register below are its own.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state

_REGISTER = "uninitialized_variables"


@contextmanager
def without_weights() -> Iterator[None]:
    """Models made in the block have shapes and names, but no weights and no memory yet."""
    before = list(global_state.get_global_attribute(_REGISTER, []))
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Or the next such scope, say in a training step, would initialise them (again).
        global_state.set_global_attribute(_REGISTER, before)


def set_weight(variable: Any, value: Any) -> None:
    """Gives a variable its value, for the first time or anew.

    Args:
        variable: a Keras variable.
        value: an array that nobody else uses: its memory may become the variable's.
    """
    if variable._value is None:
        variable._initializer = lambda shape, dtype=None: _Lent(value)
        variable._deferred_initialize()
    else:
        variable.assign(value)


class _Lent:
    """An array whose memory may be kept.

    TensorFlow copies every `ndarray` first, and again if its memory is not aligned; of what only
    has `__array__` it keeps aligned memory as it is.
    """

    def __init__(self, array: Any):
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._array, dtype)


def aligned(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An empty array whose memory TensorFlow can keep: it begins at a multiple of 64 bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # Not np.empty: it asks for huge pages, for which the system may have to make room first.
    memory = np.frombuffer(bytearray(size + 64), np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def initialize_rest(model: keras.Model) -> None:
    """Gives every variable that has no value yet the one of its initializer."""
    for variable in model.variables:
        if variable._value is None:
            variable._deferred_initialize()
