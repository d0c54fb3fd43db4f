"""The activations an `EncoderConfig` can name."""

import math
from collections.abc import Callable
from typing import Any

from keras import ops


def gelu(x: Any) -> Any:
    """x Φ(x) (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415).

    Written with erf because TensorFlow lowers its own exact GELU to erfc, which ONNX lacks.
    """
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Any) -> Any:
    """The tanh approximation of GELU, which Google's original BERT uses."""
    return ops.gelu(x, approximate=True)


ACTIVATION_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": ops.relu,
    "silu": ops.silu,
    "tanh": ops.tanh,
}
