"""Disentangled attention of DeBERTa: separate terms for content and for relative positions."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.layers.attention import SelfAttention, split_heads
from keras_bert.layers.configured import ConfiguredLayer, lookup
from keras_bert.layers.fused import project


def rows_of_distances(config: EncoderConfig) -> np.ndarray:
    """Returns the row of each distance in the table of `RelativePositions`.

    DeBERTa (He et al. 2020, https://arxiv.org/abs/2006.03654, equation 3) has a row for each
    distance below k; larger distances have the outermost row. DeBERTa-v2 has k buckets on each
    side. The inner half of the buckets hold one distance each. The buckets of the outer half grow
    logarithmically, up to the distance `config.relative_positions`.

    Returns:
        `[2L + 1]` int32 for the distances -L to L, where L is `config.relative_positions`. Larger
        distances have the rows of -L and L.
    """
    distance = np.arange(-config.relative_positions, config.relative_positions + 1)
    rows = config.position_buckets or config.relative_positions
    middle, last = rows // 2, config.relative_positions - 1
    if config.position_buckets and last > middle:
        outer = np.maximum(np.abs(distance), middle) / middle
        growth = np.log(outer) / np.log(last / middle)
        bucket = middle + np.ceil(growth * (middle - 1))
        distance = np.where(np.abs(distance) <= middle, distance, np.sign(distance) * bucket)
    return np.clip(distance + rows, 0, 2 * rows - 1).astype("int32")


@keras.saving.register_keras_serializable(package="keras_bert")
class RelativePositions(ConfiguredLayer):
    """Embedding of relative positions `[2k, H]`.

    If `config.relative_layer_norm`, the table is layer-normalized.
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes the table; the shape of the input does not matter."""
        config = self.config
        self.row_of = rows_of_distances(config)
        rows = 2 * (config.position_buckets or config.relative_positions)
        self.table = self.matrix(rows, config.hidden_size, "table")
        self.normalization = None
        if config.relative_layer_norm:
            self.normalization = self.layer_norm(config.hidden_size, "layer_norm")

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """Two shapes `[2T, H]`."""
        return ((None, self.config.hidden_size),) * 2

    def call(self, token_ids: Any) -> tuple[Any, Any]:
        """Returns the embeddings of all distances between two tokens of texts `[B, T]`.

        The T² pairs of positions have only 2T - 1 distances. The row of each distance is computed
        outside of the graph, because TFLite has no logarithm, sign or absolute value of integers.

        Returns:
            Two tensors `[2T, H]`. Row c of the first is for a query that stands T - 1 - c positions
            after its key. Row c of the second is for a query c - (T - 1) positions after its key.
            The last row of each is not used; it makes the number of rows even.
        """
        table = ops.convert_to_tensor(self.table)
        if self.normalization is not None:
            table = ops.cast(self.normalization(table), self.variable_dtype)
        far, length = self.config.relative_positions, ops.shape(token_ids)[1]
        distance = ops.arange(2 * length, dtype="int32") - (length - 1)
        rows = (ops.take(self.row_of, ops.clip(d, -far, far) + far) for d in (-distance, distance))
        by_key, by_query = (lookup(table, row, self.compute_dtype) for row in rows)
        return by_key, by_query


@keras.saving.register_keras_serializable(package="keras_bert")
class DisentangledSelfAttention(SelfAttention):
    """Self-attention whose logits have a term for content and one or two for relative positions.

    See He et al. 2020 (https://arxiv.org/abs/2006.03654), section 3.1. If δ is the row of the
    distance from key j to query i,

        logits_ij = (q_i · k_j + q_i · K_δ + k_j · Q_δ) / √(d · number of terms).

    The embeddings of relative positions are projected to K for the second term ("c2p", content to
    position) and to Q for the third term ("p2c", position to content). These projections have their
    own weights unless `config.shared_position_keys`.
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes the projections; the shape of the input does not matter."""
        super().build()
        config, size = self.config, self.config.hidden_size
        self.num_terms = 1 + len(config.position_terms)
        self.position_dropout = self.dropout(config.hidden_dropout, "position_dropout")
        if "c2p" in config.position_terms and not config.shared_position_keys:
            self.position_key = self.dense(size, size, "position_key", use_bias=config.key_bias)
        if "p2c" in config.position_terms and not config.shared_position_keys:
            self.position_query = self.dense(size, size, "position_query")

    def logits(self, query: Any, key: Any, positions: Any, training: bool | None) -> Any:
        """Returns logits like `SelfAttention.logits`; `positions` is from `RelativePositions`."""
        by_key, by_query = (self.position_dropout(x, training=training) for x in positions)
        batch, num_heads, length, head_size = ops.shape(query)
        heads = (1, 2 * length, num_heads, head_size)
        everywhere = (batch, num_heads, 2 * length, head_size)
        shared = self.config.shared_position_keys
        logits = super().logits(query, key, None, training)
        if "c2p" in self.config.position_terms:
            projection = self.key if shared else self.position_key
            position_key = split_heads(project(projection, by_key, training), heads)
            # Copying to each text costs nothing. Without it, if there is one head, TensorFlow
            # 2.21's product of [B, 1, ...] and [1, 1, ...] writes to wrong memory (oneDNN).
            position_key = ops.broadcast_to(position_key, everywhere)
            logits += _by_pair(super().logits(query, position_key, None, training))
        if "p2c" in self.config.position_terms:
            projection = self.query if shared else self.position_query
            position_query = project(projection, by_query, training) * self.scale
            position_query = ops.broadcast_to(split_heads(position_query, heads), everywhere)
            term = _by_pair(super().logits(key, position_query, None, training))
            logits += ops.transpose(term, (0, 1, 3, 2))
        return logits


def _by_pair(x: Any) -> Any:
    """Converts columns for distances to columns for positions of keys.

    Entry (i, j) of the result is entry (i, j - i + T - 1) of `x`, so each row is shifted by one
    column more than the row above. To shift them, the code reads `x` as if its rows were one column
    shorter. A gather with T² indices would take longer than the products of attention.

    Args:
        x: `[B, N, T, 2T]`.

    Returns:
        `[B, N, T, T]`.
    """
    batch, heads, length, width = ops.shape(x)
    x = ops.reshape(x, (batch, heads, length * width))
    # Not x[..., a:b], whose gradient takes TensorFlow ten times as long.
    x = ops.slice(x, (0, 0, length - 1), (batch, heads, length * (width - 1)))
    x = ops.reshape(x, (batch, heads, length, width - 1))
    return ops.slice(x, (0, 0, 0, 0), (batch, heads, length, length))
