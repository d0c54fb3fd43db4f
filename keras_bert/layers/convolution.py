"""The convolution beside the first layer of DeBERTa-v2."""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.activations import ACTIVATION_FUNCTIONS
from keras_bert.layers.configured import Configured


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenConvolution(Configured, keras.layers.Layer):
    """x → LayerNorm(y + activation(dropout(convolution(x)))), y being the first layer's output.

    As in https://github.com/microsoft/DeBERTa, where it stands for what neighbouring pieces of a
    word say together.
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes kernel and normalization; the shape of the input does not matter."""
        config, hidden = self.config, (None, None, self.config.hidden_size)
        self.convolution = keras.layers.Conv1D(
            config.hidden_size,
            config.convolution_size,
            padding="same",
            kernel_initializer=self.initializer(),
            name="convolution",
            dtype=self.dtype_policy,
        )
        self.convolution.build(hidden)
        self.normalization = self.layer_norm("layer_norm")
        self.normalization.build(hidden)
        self.dropout_layer = self.dropout(config.hidden_dropout, "dropout")

    def call(self, x: Any, residual: Any, padding_mask: Any, training: bool | None = None) -> Any:
        """Adds what the neighbours say.

        Args:
            x: `[B, T, H]`, the first layer's input.
            residual: `[B, T, H]`, the first layer's output.
            padding_mask: `[B, T]`, 1 at tokens; padding counts as zeros, as beyond the ends.

        Returns:
            `[B, T, H]`.
        """
        x = x * ops.cast(ops.expand_dims(padding_mask, -1), x.dtype)
        x = self.dropout_layer(self.convolution(x), training=training)
        x = ACTIVATION_FUNCTIONS[self.config.convolution_activation](x)
        return self.normalization(residual + x)
