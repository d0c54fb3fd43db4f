"""Base class of layers and models that take an `EncoderConfig`, and the activation functions."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert.config import EncoderConfig


def gelu(x: Any) -> Any:
    """Returns x Φ(x) (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415).

    The formula uses erf. TensorFlow lowers its own exact GELU to erfc, which ONNX lacks.
    """
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Any) -> Any:
    """Returns the tanh approximation of GELU, which Google's original BERT uses."""
    return ops.gelu(x, approximate=True)


ACTIVATION_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": ops.relu,
    "silu": ops.silu,
    "tanh": ops.tanh,
}
"""Function of each activation that an `EncoderConfig` can name."""


def dense_gradient(table: Any) -> Any:
    """Returns the table unchanged, but with a dense gradient, which Keras' optimizers need.

    TensorFlow's gradient of a lookup is a list of rows, and one row of the table can occur several
    times in it. Keras 3 does not add up these rows. With a reshape before the lookup, the gradient
    is a dense matrix.
    """
    return ops.reshape(table, table.shape)


def arguments_of(part: Any) -> dict[str, Any]:
    """Returns the attributes that `part.arguments` names, for JSON: tuples become lists."""
    values = ((name, getattr(part, name)) for name in part.arguments)
    return {name: list(x) if isinstance(x, tuple) else x for name, x in values}


class HasPreprocessor:
    """Mixin for models with a `preprocessor`, which Keras does not track as a part of the model.

    So replacing the preprocessor leaves no trace, and XLA, which has no strings, compiles the rest.
    """

    preprocessor: Any

    @property
    def text_preprocessor(self) -> Any:
        """The preprocessor that makes the model's inputs of texts, or None."""
        return self.preprocessor

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "preprocessor":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


class Configured:
    """Mixin for Keras layers and models whose constructor takes an `EncoderConfig`.

    Args:
        config: configuration of the encoder that the layer belongs to.
        **kwargs: `name`, `dtype` and `trainable`, as in every Keras layer.
    """

    arguments: ClassVar[tuple[str, ...]] = ()
    """Names of the constructor's other arguments. Each is also an attribute of the layer."""
    dtype_policy: Any

    def __init__(self, config: EncoderConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        config = self.config.to_dict()
        return {**super().get_config(), "config": config, **arguments_of(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Makes the layer from the dictionary of `get_config`."""
        values = dict(config)
        return cls(EncoderConfig.from_dict(values.pop("config")), **values)

    def dense(self, inputs: int | None, units: int, name: str, **kwargs: Any) -> keras.layers.Dense:
        """Makes a dense layer with the configured initializer.

        Args:
            inputs: size of the input vectors. If it is None, the caller must build the layer.
            units: size of the output vectors.
            name: name of the layer.
            **kwargs: other arguments of `keras.layers.Dense`.
        """
        options = {"kernel_initializer": self.initializer(), "dtype": self.dtype_policy}
        layer = keras.layers.Dense(units, name=name, **options, **kwargs)
        if inputs is not None:
            layer.build((None, None, inputs))
        return layer

    def matrix(self, rows: int, columns: int, name: str) -> Any:
        """Adds a weight `[rows, columns]` with the configured initializer."""
        layer: Any = self
        return layer.add_weight((rows, columns), initializer=self.initializer(), name=name)

    def layer_norm(self, size: int, name: str) -> keras.layers.LayerNormalization:
        """Makes a layer normalization of vectors `[..., size]` with the configured epsilon."""
        layer = keras.layers.LayerNormalization(
            epsilon=self.config.layer_norm_epsilon, name=name, dtype=self.dtype_policy
        )
        layer.build((None, None, size))
        return layer

    def dropout(self, rate: float, name: str) -> keras.layers.Dropout:
        """Makes a dropout layer with this layer's dtype."""
        return keras.layers.Dropout(rate, name=name, dtype=self.dtype_policy)

    def initializer(self) -> keras.initializers.Initializer:
        """Makes BERT's initializer: a truncated normal with the configured standard deviation."""
        return keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)
