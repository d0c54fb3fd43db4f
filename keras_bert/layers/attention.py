"""Bidirectional multi-head self-attention, the attention block of the encoder's layers."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.layers import sliding_window
from keras_bert.layers.configured import ConfiguredLayer
from keras_bert.layers.fused import (
    allows_any_length,
    attend_in_parts,
    attend_to_any_length,
    has_fusible_forms,
    project,
    softmax_and_dropout,
)
from keras_bert.layers.positions import rotated

_LONG = 1024  # tokens; longer texts attend in parts, in some graphs only if the length is known
_QUERIES = 512  # in a part of `_in_parts`; `fused.attend_in_parts` has a number of its own


@keras.saving.register_keras_serializable(package="keras_bert")
class SelfAttention(ConfiguredLayer):
    """softmax(QKᵀ/√d + bias) V in `config.num_heads` heads, projected back to the hidden size.

    See Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.2. There is no causal
    mask. Dropout is applied to the probabilities.

    Args:
        config: the encoder's configuration.
        window: largest distance to attend to; 0 means all tokens. (Not to be confused with the
            windows of long texts in `windows.py`.)
    """

    num_terms = 1  # summands of a logit, which is divided by √(d · num_terms)
    arguments: ClassVar[tuple[str, ...]] = ("window",)

    def __init__(self, config: EncoderConfig, window: int = 0, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.window = window

    def build(self, input_shape: Any = None) -> None:
        """Makes the four projections; the shape of the input does not matter."""
        size, bias = self.config.hidden_size, self.config.attention_bias
        self.query = self.dense(size, size, "query", use_bias=bias)
        smaller = self.config.num_key_value_heads * self.config.head_size
        self.key = self.dense(size, smaller, "key", use_bias=bias and self.config.key_bias)
        self.value = self.dense(size, smaller, "value", use_bias=bias)
        self.output_projection = self.dense(size, size, "output", use_bias=bias)
        self.dropout_layer = self.dropout(self.config.attention_dropout, "dropout")

    def call(
        self,
        x: Any,
        bias: Any,
        positions: Any = None,
        queries: Any = None,
        need_probabilities: bool = True,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        """Returns the output of attention and, on request, the attention probabilities.

        Args:
            x: `[B * T, H]`: the positions of all texts are the rows of one matrix. So multiplying
                by a weight is a single product of two matrices.
            bias: `[B, 1, 1, T]`, `[B, 1, T, T]` or `[B, N, T, T]` float, added to the logits. It is
                very negative at positions (of the last axis) that are not attended to. With a
                window, and if no probabilities are needed, it is `[B * K, 1, W, 3W]`, for the
                blocks of `sliding_window`.
            positions: result of `rotation`, result of `RelativePositions`, or None.
            queries: `[B * T, H]`, vectors that attend to `x`; None means `x` itself.
            need_probabilities: whether to return probabilities. If not, and if there is no dropout,
                a fused kernel is used on backends that have one.

        Returns:
            The output `[B * T, H]`, and the attention probabilities `[B, N, T, T]` with a row for
            each query, or None.
        """
        rotary, in_blocks = self.config.rotary_base > 0, self.window > 0 and not need_probabilities
        length = ops.shape(positions[0])[1] if rotary else ops.shape(bias)[3]
        batch = -1 if in_blocks else ops.shape(bias)[0]  # the first axis of blocks is not B
        heads = (batch, length, self.config.num_heads, self.config.head_size)
        query = project(self.query, x if queries is None else queries, training)
        # If the scale stands here, TFLite's converter makes it part of the weights.
        query = query if has_fusible_forms() else query * self.scale
        key, value = project(self.key, x, training), project(self.value, x, training)
        groups = self.config.num_heads // self.config.num_key_value_heads
        if rotary or groups > 1:
            fewer = (batch, length, self.config.num_key_value_heads, self.config.head_size)
            query = ops.reshape(query, heads)
            key, value = (ops.reshape(y, fewer) for y in (key, value))
        if rotary:
            query, key = rotated(query, positions), rotated(key, positions)
        if groups > 1:  # each key and value for several queries
            key, value = (
                ops.reshape(ops.concatenate([y] * groups, axis=-1), heads) for y in (key, value)
            )
        has_dropout = training and self.config.attention_dropout > 0
        is_plain = not (self.config.relative_positions or in_blocks or need_probabilities)
        if is_plain and not has_dropout and has_flash_attention():
            query, key, value = (ops.reshape(y, heads) for y in (query, key, value))
            shape = (batch, ops.shape(bias)[1], length, length)
            bias = ops.broadcast_to(bias, shape)  # the kernel needs this shape
            context = ops.dot_product_attention(query, key, value, bias=bias, scale=1.0)
            return self.output_projection(ops.reshape(context, ops.shape(x))), None

        def attend(query: Any, key: Any, value: Any, bias: Any) -> tuple[Any, Any]:
            logits = self.logits(query, key, positions, training)
            dropped, probabilities = softmax_and_dropout(
                logits, bias, self.dropout_layer, need_probabilities, training
            )
            return ops.matmul(dropped, value), probabilities

        def attend_in_blocks(query: Any, key: Any, value: Any, bias: Any) -> Any:
            query = sliding_window.blocks(query, self.window)
            key, value = (sliding_window.neighborhoods(y, self.window) for y in (key, value))
            context, _ = attend(*self._split(query, key, value), bias)
            return sliding_window.joined(ops.transpose(context, (0, 2, 1, 3)), length)

        is_long = isinstance(length, int) and length > _LONG
        # To save memory, the backward pass of long texts computes the probabilities again.
        recompute = is_long and bool(training) and not has_dropout
        is_mask = not self.config.bias_buckets  # otherwise the bias is learned
        probabilities = None
        if in_blocks:
            part = keras.remat(attend_in_blocks) if recompute else attend_in_blocks
            context = part(query, key, value, bias)
        else:
            tensors = *self._split(query, key, value, heads), bias
            if is_plain and is_long:
                context = _in_parts(attend, *tensors, recompute, is_mask)
            elif is_plain and is_mask and not training and self._may_be_long(length):
                context = attend_to_any_length(lambda *x: attend(*x)[0], _LONG, *tensors)
            else:
                context, probabilities = attend(*tensors)
            context = ops.transpose(context, (0, 2, 1, 3))  # [B, T, N, D]
        context = ops.reshape(context, ops.shape(x))
        return project(self.output_projection, context, training), probabilities

    def _split(
        self, query: Any, key: Any, value: Any, heads: tuple | None = None
    ) -> tuple[Any, Any, Any]:
        """Splits queries, keys and values into heads, see `split_heads`."""
        query, key, value = (split_heads(y, heads or ops.shape(y)) for y in (query, key, value))
        # oneDNN fuses a scale right before the product.
        return query * self.scale if has_fusible_forms() else query, key, value

    def _may_be_long(self, length: Any) -> bool:
        """Returns whether the graph must decide when it runs if the text is long."""
        unknown = not isinstance(length, int)
        return unknown and self.config.max_positions > _LONG and allows_any_length()

    @property
    def scale(self) -> float:
        """Factor of the logits."""
        return 1.0 / math.sqrt(self.config.head_size * self.num_terms)

    def logits(self, query: Any, key: Any, positions: Any, training: bool | None) -> Any:
        """Returns logits `[B, N, T, T]` of keys and scaled queries `[B, N, T, D]`."""
        return ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))


def _in_parts(
    attend: Callable,
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    recompute: bool,
    is_mask: bool,
) -> Any:
    """Computes attention for long texts in parts, to have only one part's logits in memory.

    Args:
        attend: function of `query`, `key`, `value` and `bias`. It returns the output and None.
        query: `[B, N, T, D]`; T is known.
        key: `[B, N, T, D]`.
        value: `[B, N, T, D]`.
        bias: `[B, 1, 1, T]`, `[B, 1, T, T]` or `[B, N, T, T]`.
        recompute: whether the backward pass computes the probabilities again, instead of keeping
            them.
        is_mask: whether the bias has no gradient and is the same for all heads.

    Returns:
        `[B, N, T, D]`.
    """

    def part(*tensors: Any) -> Any:
        return attend(*tensors)[0]

    # `keras.remat` computes the parts at the same time, and adds their gradients up at the end.
    if recompute and is_mask and keras.backend.backend() == "tensorflow":
        return attend_in_parts(query, key, value, bias, training=True)
    if recompute:
        part = keras.remat(part)
    found = []
    for begin in range(0, query.shape[2], _QUERIES):
        rows = slice(begin, begin + _QUERIES)
        own = bias if bias.shape[2] == 1 else bias[:, :, rows]
        found.append(part(query[:, :, rows], key, value, own))
    return ops.concatenate(found, axis=2)


def has_flash_attention() -> bool:
    """Returns whether attention without dropout runs as one kernel (Dao 2023, arXiv 2307.08691).

    The kernel is used only with JAX on GPUs. Keras' kernel for TPUs ignores the bias (Keras 3.15).
    `keras.config.disable_flash_attention()` turns the kernel off.
    """
    if keras.backend.backend() != "jax" or keras.config.is_flash_attention_enabled() is False:
        return False
    return keras.distribution.list_devices()[0].startswith(("gpu", "cuda"))


def split_heads(x: Any, heads: tuple) -> Any:
    """Reshapes `[B * T, H]` or `[B, T, N, D]` to `[B, N, T, D]`; `heads` is (B, T, N, D)."""
    batch, length, number, size = heads
    if number == 1:  # tf2onnx would turn this transposition into a wrong reshape
        return ops.reshape(x, (batch, 1, length, size))
    return ops.transpose(ops.reshape(x, heads), (0, 2, 1, 3))
