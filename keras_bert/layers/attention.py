"""Bidirectional multi-head self-attention, the attention block of the encoder's layers."""

import math
from typing import Any

import keras
from keras import ops

from keras_bert.layers.configured import ConfiguredLayer
from keras_bert.layers.fused import project, softmax_and_dropout


@keras.saving.register_keras_serializable(package="keras_bert")
class SelfAttention(ConfiguredLayer):
    """softmax(QKᵀ/√d + bias) V in `config.num_heads` heads, projected back to the hidden size.

    See Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.2. There is no causal
    mask. Dropout is applied to the probabilities.
    """

    num_terms = 1  # summands of a logit, which is divided by √(d · num_terms)

    def build(self, input_shape: Any = None) -> None:
        """Makes the four projections; the shape of the input does not matter."""
        hidden_size = self.config.hidden_size
        self.query = self.dense(hidden_size, hidden_size, "query")
        self.key = self.dense(hidden_size, hidden_size, "key", use_bias=self.config.key_bias)
        self.value = self.dense(hidden_size, hidden_size, "value")
        self.output_projection = self.dense(hidden_size, hidden_size, "output")
        self.dropout_layer = self.dropout(self.config.attention_dropout, "dropout")

    def call(
        self,
        x: Any,
        bias: Any,
        relative: Any = None,
        queries: Any = None,
        need_probabilities: bool = True,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        """Lets every position attend to every other.

        Args:
            x: `[B * T, H]`: the positions of all texts are the rows of one matrix. So multiplying
                by a weight is a single product of two matrices.
            bias: `[B, 1, 1, T]` or `[B, 1, T, T]` float, added to the logits. It is 0 at positions
                (of the last axis) that are attended to, and very negative at other positions.
            relative: result of `RelativePositions`, for disentangled attention.
            queries: `[B * T, H]`, vectors that attend to `x`; None means `x` itself.
            need_probabilities: whether to return probabilities. If not, and if there is no dropout,
                a fused kernel is used on backends that have one.

        Returns:
            The output `[B * T, H]`, and the attention probabilities `[B, N, T, T]` with a row for
            each query, or None.
        """
        batch, length = ops.shape(bias)[0], ops.shape(bias)[3]
        heads = (batch, length, self.config.num_heads, self.config.head_size)
        query = project(self.query, x if queries is None else queries, training)
        key, value = project(self.key, x, training), project(self.value, x, training)
        dropped = training and self.config.attention_dropout > 0
        if not (need_probabilities or dropped) and relative is None and has_flash_attention():
            query, key, value = (ops.reshape(y, heads) for y in (query, key, value))
            bias = ops.broadcast_to(bias, (batch, 1, length, length))  # the kernel needs this shape
            context = ops.dot_product_attention(query, key, value, bias=bias, scale=self.scale)
            return self.output_projection(ops.reshape(context, ops.shape(x))), None
        query, key, value = (split_heads(y, heads) for y in (query * self.scale, key, value))
        logits = self.logits(query, key, relative, training)
        dropped, probabilities = softmax_and_dropout(
            logits, bias, self.dropout_layer, need_probabilities, training
        )
        context = ops.transpose(ops.matmul(dropped, value), (0, 2, 1, 3))  # [B, T, N, D]
        context = ops.reshape(context, ops.shape(x))
        return project(self.output_projection, context, training), probabilities

    @property
    def scale(self) -> float:
        """Factor of the logits."""
        return 1.0 / math.sqrt(self.config.head_size * self.num_terms)

    def logits(self, query: Any, key: Any, relative: Any, training: bool | None) -> Any:
        """Returns logits `[B, N, T, T]` of keys and scaled queries `[B, N, T, D]`."""
        return ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))


def has_flash_attention() -> bool:
    """Returns whether attention without dropout runs as one kernel (Dao 2023, arXiv 2307.08691).

    The kernel is used only with JAX on GPUs. Keras' kernel for TPUs ignores the bias (Keras 3.15).
    `keras.config.disable_flash_attention()` turns the kernel off.
    """
    if keras.backend.backend() != "jax" or keras.config.is_flash_attention_enabled() is False:
        return False
    return keras.distribution.list_devices()[0].startswith(("gpu", "cuda"))


def split_heads(x: Any, heads: tuple) -> Any:
    """Reshapes `[B * T, H]` to `[B, N, T, D]`; `heads` is (B, T, N, D)."""
    batch, length, number, size = heads
    if number == 1:  # tf2onnx would turn this transposition into a wrong reshape
        return ops.reshape(x, (batch, 1, length, size))
    return ops.transpose(ops.reshape(x, heads), (0, 2, 1, 3))
