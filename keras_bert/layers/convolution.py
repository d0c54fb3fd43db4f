"""Convolution of DeBERTa-v2, which runs in parallel to the first layer."""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.configured import ACTIVATION_FUNCTIONS, ConfiguredLayer
from keras_bert.layers.documents import neighbors


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenConvolution(ConfiguredLayer):
    """x → LayerNorm(y + activation(dropout(convolution(x)))), where y is the first layer's output.

    See the code of https://github.com/microsoft/DeBERTa. The layer combines each token with its
    neighbors.
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights; the shape of the input does not matter."""
        config = self.config
        self.convolution = self.keras_layer(
            keras.layers.Conv1D,
            config.hidden_size,
            config.convolution_size,
            padding="same",
            kernel_initializer=self.initializer(),
            name="convolution",
        )
        self.convolution.build((None, None, config.hidden_size))
        self.normalization = self.layer_norm(config.hidden_size, "layer_norm")
        self.dropout_layer = self.dropout(config.hidden_dropout, "dropout")

    def call(
        self,
        x: Any,
        residual: Any,
        padding_mask: Any,
        document_ids: Any = None,
        training: bool | None = None,
    ) -> Any:
        """Adds the convolution of the first layer's input to the first layer's output.

        Args:
            x: `[B, T, H]`, the first layer's input.
            residual: `[B, T, H]`, the first layer's output.
            padding_mask: `[B, T]`, 1 at tokens. Padding counts as zeros, as do positions before the
                first and after the last token.
            document_ids: `[B, T]` int32, if rows hold several documents. Neighbors in other
                documents count as zeros.

        Returns:
            `[B, T, H]`.
        """
        kernel = ops.cast(self.convolution.kernel, x.dtype)
        if document_ids is None:
            x = x * ops.cast(ops.expand_dims(padding_mask, -1), x.dtype)
            x = self.convolution.convolution_op(x, kernel)
        else:
            x = self._within_documents(x, document_ids, kernel)
        # Keras' convolution and `ops.add` would add up the gradients of the bias in bfloat16.
        x = x + ops.cast(self.convolution.bias, x.dtype)
        x = self.dropout_layer(x, training=training)
        x = ACTIVATION_FUNCTIONS[self.config.convolution_activation](x)
        return self.normalization(residual + x)

    def _within_documents(self, x: Any, document_ids: Any, kernel: Any) -> Any:
        """Computes the convolution as a sum of products, one for each neighbor of a token."""
        middle = self.config.convolution_size // 2
        products = (
            ops.matmul(neighbors(x, document_ids, index - middle), kernel[index])
            for index in range(self.config.convolution_size)
        )
        return sum(products)
