"""Gradient of a function of one array, on TensorFlow and JAX."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError


def gradient(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Returns the gradient of the sum of `function(x)`, in the shape of `x`.

    Args:
        function: differentiable function of a tensor, made of Keras operations.
        x: float array.

    Raises:
        InputError: if Keras computes neither with TensorFlow nor with JAX.
    """
    backend = keras.config.backend()
    if backend not in _GRADIENTS:
        raise InputError(
            f"Gradients need TensorFlow or JAX, but Keras computes with {backend}; set "
            "KERAS_BACKEND to tensorflow."
        )
    return ops.convert_to_numpy(_GRADIENTS[backend](function, ops.convert_to_tensor(x)))


def _of_tensorflow(function: Callable[[Any], Any], x: Any) -> Any:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        total = ops.sum(function(x))
    return tape.gradient(total, x)


def _of_jax(function: Callable[[Any], Any], x: Any) -> Any:
    import jax

    return jax.grad(lambda x: ops.sum(function(x)))(x)


_GRADIENTS = {"tensorflow": _of_tensorflow, "jax": _of_jax}
