"""Base class of layers and models that take an `EncoderConfig`, and the activation functions."""

import math
import os
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.layers.quantization import without_collections
from keras_bert.layers.rematerialization import RematerializedByEncoder


def gelu(x: Any) -> Any:
    """Returns x Φ(x) (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415).

    The formula uses erf. TensorFlow lowers its own exact GELU to erfc, which ONNX lacks.
    """
    return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Any) -> Any:
    """Returns the tanh approximation of GELU, which Google's original BERT uses."""
    return ops.gelu(x, approximate=True)


INPUTS = ("token_ids", "segment_ids", "padding_mask")
"""Names of the encoder's inputs, `[B, T]` int32 each, without those for special uses."""


def used_inputs(config: EncoderConfig) -> tuple[str, ...]:
    """Returns the `INPUTS` that an encoder uses."""
    return tuple(name for name in INPUTS if name != "segment_ids" or config.num_segments > 1)


ACTIVATION_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": ops.relu,
    "silu": ops.silu,
    "tanh": ops.tanh,
}
"""Function of each activation that an `EncoderConfig` can name."""


def lookup(table: Any, rows: Any, dtype: str) -> Any:
    """Returns rows of a table in a dtype. The gradients of a row add up in the table's dtype.

    TensorFlow's gradient of a lookup is a list of rows, and one row of the table can occur several
    times in it. Keras 3 does not add up these rows. With a reshape before the lookup, the gradient
    is a dense matrix, which Keras' optimizers need.

    Args:
        table: `[V, E]`, for example a weight that `Configured.matrix` added.
        rows: indices of any shape.
        dtype: the result's dtype.
    """
    return ops.cast(ops.take(ops.reshape(table, table.shape), rows, axis=0), dtype)


def arguments_of(part: Any) -> dict[str, Any]:
    """Returns the attributes that `part.arguments` names, for JSON: tuples become lists."""
    values = ((name, getattr(part, name)) for name in part.arguments)
    return {name: list(x) if isinstance(x, tuple) else x for name, x in values}


class HasPreprocessor:
    """Mixin for models with a `preprocessor`, which Keras does not track as a part of the model.

    So a new preprocessor can be assigned at any time. XLA cannot process strings, so it compiles
    only the rest of the model.
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


class KerasMethods:
    """Mixin for models: methods of `keras.Model` that need to know the encoder."""

    config: EncoderConfig
    ids_shape: ClassVar[tuple[None, ...]] = (None, None)
    """Shape of the inputs in which every size is free."""

    def export(
        self,
        filepath: str | os.PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Writes the model as `keras.Model.export` does: inputs are ids, outputs those of `call`.

        `keras_bert.export` writes files that also take texts, and that give labels and scores.

        Args:
            filepath: path to write.
            format: "tf_saved_model" or another format of Keras.
            verbose: whether to print a message.
            input_signature: as in Keras. By default, the artifact takes a dictionary of the
                encoder's inputs `token_ids`, `segment_ids` (if the encoder has segments) and
                `padding_mask`, int32 with a free number of texts and tokens.
            **kwargs: other arguments of Keras for the format.
        """
        if input_signature is None:
            shape, names = self.ids_shape, used_inputs(self.config)
            specs = [keras.InputSpec(dtype="int32", shape=shape, name=name) for name in names]
            input_signature = [dict(zip(names, specs, strict=True))]
            if keras.backend.backend() == "jax" and format == "tf_saved_model":
                # Keras would give each size of each input a name of its own.
                sizes = "(batch, choices, length)" if len(shape) == 3 else "(batch, length)"
                options = {
                    "polymorphic_shapes": [dict.fromkeys(names, sizes)],
                    "polymorphic_constraints": (f"length <= {self.config.max_positions}",),
                    "with_gradient": False,  # its shapes would need more constraints
                }
                kwargs["jax2tf_kwargs"] = options | kwargs.get("jax2tf_kwargs", {})
        model: Any = super()
        model.export(filepath, format, verbose, input_signature, **kwargs)

    def quantize(self, mode: str | None = None, *args: Any, **kwargs: Any) -> None:
        """Quantizes the kernels of dense layers as `keras.Model.quantize` does.

        Keras' warnings that other layers have no quantization are left out.

        Args:
            mode: mode of quantization, for example "int8".
            *args: other arguments of Keras.
            **kwargs: other arguments of Keras.
        """
        model: Any = super()
        with warnings.catch_warnings(), without_collections():
            warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
            model.quantize(mode, *args, **kwargs)


class Configured(RematerializedByEncoder):
    """Mixin for Keras layers and models whose constructor takes an `EncoderConfig`.

    Args:
        config: configuration of the encoder that the layer belongs to.
        **kwargs: `name`, `dtype` and `trainable`, as in every Keras layer.
    """

    arguments: ClassVar[tuple[str, ...]] = ()
    """Names of the constructor's other arguments. Each is also an attribute of the layer."""

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
        layer = self.keras_layer(
            keras.layers.Dense, units, kernel_initializer=self.initializer(), name=name, **kwargs
        )
        if inputs is not None:
            layer.build((None, None, inputs))
        return layer

    def matrix(self, rows: int, columns: int, name: str, **options: Any) -> Any:
        """Adds a weight `[rows, columns]` with the configured initializer.

        Keras does not cast it to the compute dtype, because half precision is too coarse for the
        sum of the gradients of a row. `lookup` casts only what is looked up.

        `options` are those of Keras' `add_weight`.
        """
        layer: Any = self
        options = {"initializer": self.initializer(), "autocast": False, "name": name, **options}
        return layer.add_weight((rows, columns), **options)

    def layer_norm(self, size: int, name: str) -> keras.layers.Layer:
        """Makes a normalization of vectors `[..., size]` as the configuration says."""
        options = {"epsilon": self.config.layer_norm_epsilon, "name": name}
        if self.config.rms_norm:
            layer = self.keras_layer(keras.layers.RMSNormalization, **options)
        else:
            options["center"] = self.config.norm_bias
            layer = self.keras_layer(keras.layers.LayerNormalization, **options)
        layer.build((None, None, size))
        return layer

    def dropout(self, rate: float, name: str) -> keras.layers.Dropout:
        """Makes a dropout layer with this layer's dtype."""
        return self.keras_layer(keras.layers.Dropout, rate, name=name)

    def initializer(self) -> keras.initializers.Initializer:
        """Makes BERT's initializer: a truncated normal with the configured standard deviation."""
        return keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)


class ConfiguredLayer(Configured, keras.layers.Layer):
    """Base class of the layers that take an `EncoderConfig`."""

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """Shape of the output in `summary`, `[B, T, H]` by default; None is any size."""
        return (None, None, self.config.hidden_size)
