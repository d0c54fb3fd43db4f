"""Names of a model's task, arguments and weights, and models that are made without random weights.

A model that is loaded from a file needs no random weights. Inside a `StatelessScope`, Keras makes
variables without values. Keras has no public function to set these values one by one, so this
module uses private attributes of Keras.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.lora import FACTORS, adapted_layers, merged_kernel
from keras_bert.layers.quantization import KEY, without_policies
from keras_bert.tasks.registry import TASKS, class_names, task_of


def task_name(model: keras.Model) -> str:
    """Returns the name of a model's task.

    Raises:
        InputError: if the model is not an encoder or a task of this package.
    """
    name = task_of(model, subclasses=False)
    if name is None:
        raise InputError(
            f"Cannot save a {type(model).__name__}; checkpoints hold {class_names(TASKS)}. "
            'Register your own class and use model.save("model.keras").'
        )
    return name


def task_arguments(model: keras.Model) -> dict[str, Any]:
    """Returns the arguments of a task's constructor, without its encoder, as values for JSON."""
    elsewhere = ("name", "dtype", "trainable", "encoder", "preprocessor", "config", "remat", KEY)
    return {name: x for name, x in model.get_config().items() if name not in elsewhere}


def named_variables(model: keras.Model, variables: Iterable[Any] | None = None) -> dict[str, Any]:
    """Returns the Keras variables of an encoder or task by name.

    Names of the encoder's weights begin with `encoder/`, for instance
    `encoder/layer_0/attention/query/kernel`. They do not depend on the task. Names of a head's
    weights begin with the head's name.

    Args:
        model: an encoder, or a model with an attribute `encoder`.
        variables: variables to name; None means all weights.
    """
    encoder = model if isinstance(model, Encoder) else model.encoder
    # If another encoder made the embeddings, their paths have the other encoder's name.
    stems = {id(weight): ("encoder", encoder.path) for weight in encoder.weights}
    for weight in encoder.embeddings.weights:
        stems[id(weight)] = ("encoder/embeddings", encoder.embeddings.path)
    names = {}
    for variable in model.weights if variables is None else variables:
        ours, theirs = stems.get(id(variable), ("", ""))
        names[ours + variable.path.removeprefix(theirs)] = variable
    return names


def saved_weights(model: keras.Model, *, dequantize: bool = False) -> dict[str, Any]:
    """Returns the variables or arrays to write into a model's checkpoint, by name.

    LoRA adapters (Hu et al. 2021, https://arxiv.org/abs/2106.09685) are merged into their kernels,
    so that a model without adapters has the same outputs. If the model has adapters, its int8
    kernels become float32. The model itself does not change.

    Args:
        model: the model.
        dequantize: whether int8 kernels become float32 although the model has no adapters.
    """
    adapted = adapted_layers(model)
    changed = {layer for layer in model._flatten_layers() if layer.quantization_mode == "int8"}
    changed = {*adapted, *(changed if adapted or dequantize else ())}
    names, left_out = (*FACTORS, "kernel_scale"), set[int]()
    for layer in changed:
        left_out |= {id(getattr(layer, name)) for name in names if hasattr(layer, name)}
    merged = {id(layer._kernel): merged_kernel(layer) for layer in changed}
    return {
        name: merged.get(id(variable), variable)
        for name, variable in named_variables(model).items()
        if id(variable) not in left_out
    }


def without_adapters(model: Any) -> Any:
    """Returns the model or, if it has LoRA adapters, a copy with merged float kernels.

    The copy shares the model's preprocessor.
    """
    if not adapted_layers(model):
        return model
    return _copy(model, without_policies(model.get_config()), saved_weights(model))


def in_bfloat16(model: Any) -> Any:
    """Returns a copy that computes in bfloat16 and holds its weights in it, without adapters.

    Layers that are float32 in every precision stay so, such as the CRF. The copy shares the model's
    preprocessor.

    Raises:
        InputError: if the model's configuration does not describe all of its weights.
    """
    config = without_policies(model.get_config())
    parts = (config, config["encoder"]["config"]) if "encoder" in config else (config,)
    for part in parts:
        part["dtype"] = "bfloat16"
    return _copy(model, config, saved_weights(model, dequantize=True))


def _copy(model: Any, config: dict[str, Any], weights: dict[str, Any]) -> Any:
    """Makes a model of a configuration and of weights by name, rounded to the model's dtype."""
    if "preprocessor" in config:
        config["preprocessor"] = None
    try:
        with without_weights():
            copy = type(model).from_config(config)
    except TypeError as error:
        raise InputError(
            f"A {type(model).__name__} cannot be copied: {error}. Return all arguments of the "
            "constructor from get_config."
        ) from error
    copy.preprocessor = model.preprocessor
    variables = named_variables(copy)
    theirs, ours = (
        {name: tuple(x.shape) for name, x in some.items()} for some in (weights, variables)
    )
    if theirs != ours:
        different = sorted(name for name, _ in theirs.items() ^ ours.items())
        raise InputError(
            f"A {type(model).__name__} cannot be copied: a model with its configuration has no "
            f"weight {different[0]!r} of this shape. Make all weights in the constructor, and "
            "quantize only to int8."
        )
    for name, variable in variables.items():
        set_weight(variable, np.array(weights[name], variable.dtype))
    initialize_rest(copy)
    return copy


_REGISTER = "uninitialized_variables"


@contextmanager
def without_weights() -> Iterator[None]:
    """Gives new models in the `with` block only names and shapes of weights, but no values."""
    before = list(global_state.get_global_attribute(_REGISTER, []))
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Otherwise the next scope, for instance in a training step, initializes the variables.
        global_state.set_global_attribute(_REGISTER, before)


def set_weight(variable: Any, value: Any) -> None:
    """Sets a variable's value, also if the variable has no value yet.

    Args:
        variable: a Keras variable.
        value: array that no other code uses, because its memory may become the variable's.
    """
    if variable._value is None:
        variable._initializer = lambda shape, dtype=None: _Lent(value)
        variable._deferred_initialize()
    else:
        variable.assign(value)


class _Lent:
    """Array whose memory TensorFlow may keep.

    TensorFlow copies every `ndarray` once, and twice if its memory is not aligned. But it does not
    copy an object that has only `__array__`, if the memory is aligned.
    """

    def __init__(self, array: Any):
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._array, dtype)


def aligned(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Returns an empty array at an address divisible by 64, so that TensorFlow need not copy it."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # np.empty asks for huge pages, and the system may have to make room for them first.
    memory = np.frombuffer(bytearray(size + 64), np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def initialize_rest(model: keras.Model) -> None:
    """Initializes every variable that has no value yet."""
    for variable in model.variables:
        if variable._value is None:
            variable._deferred_initialize()
