"""One layer of the encoder."""

from typing import Any

import keras

from keras_bert.layers.activations import ACTIVATION_FUNCTIONS
from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.configured import Configured
from keras_bert.layers.disentangled_attention import DisentangledSelfAttention


@keras.saving.register_keras_serializable(package="keras_bert")
class EncoderLayer(Configured, keras.layers.Layer):
    """Attention and feed-forward blocks, each x → LayerNorm(x + dropout(block(x))) (post-LN)."""

    def build(self, input_shape: Any = None) -> None:
        """Makes the blocks; the shape of the input does not matter."""
        config, hidden = self.config, (None, None, self.config.hidden_size)
        attention = DisentangledSelfAttention if config.relative_positions else SelfAttention
        self.attention = attention(config, name="attention", dtype=self.dtype_policy)
        self.attention.build(hidden)
        self.attention_norm = self.layer_norm("attention_layer_norm")
        self.attention_norm.build(hidden)
        self.intermediate = self.dense(
            config.intermediate_size,
            "intermediate",
            activation=ACTIVATION_FUNCTIONS[config.activation],
        )
        self.intermediate.build(hidden)
        self.output_projection = self.dense(config.hidden_size, "output")
        self.output_projection.build((None, None, config.intermediate_size))
        self.output_norm = self.layer_norm("output_layer_norm")
        self.output_norm.build(hidden)
        self.attention_dropout = self.dropout(config.hidden_dropout, "attention_dropout")
        self.output_dropout = self.dropout(config.hidden_dropout, "output_dropout")

    def call(
        self,
        x: Any,
        bias: Any,
        relative: Any = None,
        queries: Any = None,
        need_probabilities: bool = True,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        """Arguments and results are those of `SelfAttention`.

        Given `queries`, they are what is transformed, and `x` is what they attend to.
        """
        attended, probabilities = self.attention(
            x, bias, relative, queries, need_probabilities=need_probabilities, training=training
        )
        x = x if queries is None else queries
        x = self.attention_norm(x + self.attention_dropout(attended, training=training))
        output = self.output_projection(self.intermediate(x))
        x = self.output_norm(x + self.output_dropout(output, training=training))
        return x, probabilities
