"""Names of a model's weights, and models whose weights come from a file.

Such a model draws no random weights first. Keras makes variables without values inside a
`StatelessScope`, but has no public way to give them values one by one: the names with an underscore
and the register below are its own.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state

from keras_bert.layers.encoder import Encoder


def named_variables(model: keras.Model, variables: Iterable[Any] | None = None) -> dict[str, Any]:
    """Name to Keras variable, for every weight of an encoder or task.

    The encoder's weights are `encoder/…`, for instance `encoder/layer_0/attention/query/kernel`;
    those of a head begin with the head's name. Names are the same for an encoder on its own and
    inside any task.

    Args:
        model: an encoder, or a model with an attribute `encoder`.
        variables: those that are wanted; None means all of its weights.
    """
    encoder = model if isinstance(model, Encoder) else model.encoder
    # The embeddings may be another encoder's, and then have its name in their paths.
    stems = {id(weight): ("encoder", encoder.path) for weight in encoder.weights}
    for weight in encoder.embeddings.weights:
        stems[id(weight)] = ("encoder/embeddings", encoder.embeddings.path)
    names = {}
    for variable in model.weights if variables is None else variables:
        ours, theirs = stems.get(id(variable), ("", ""))
        names[ours + variable.path.removeprefix(theirs)] = variable
    return names


def saved_weights(model: keras.Model) -> dict[str, Any]:
    """Name to variable or array, for every weight as a checkpoint holds it.

    LoRA adapters (Hu et al. 2021, https://arxiv.org/abs/2106.09685) are added to the kernels that
    they adapt, so that a model without adapters computes the same. The model stays as it is.

    Args:
        model: as in `named_variables`.
    """
    adapted, merged = set(), {}
    for layer in model._flatten_layers():
        if getattr(layer, "lora_enabled", False):
            adapted |= {id(layer.lora_kernel_a), id(layer.lora_kernel_b)}
            merged[id(layer._kernel)] = layer.kernel
    return {
        name: merged.get(id(variable), variable)
        for name, variable in named_variables(model).items()
        if id(variable) not in adapted
    }


_REGISTER = "uninitialized_variables"


@contextmanager
def without_weights() -> Iterator[None]:
    """Models made in the block have shapes and names, but no weights and no memory yet."""
    before = list(global_state.get_global_attribute(_REGISTER, []))
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Or the next such scope, say in a training step, would initialize them (again).
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
