"""Disentangled attention of DeBERTa: content and relative positions have terms of their own."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.layers.attention import SelfAttention, split_heads
from keras_bert.layers.configured import Configured, dense_gradient


def rows_of_distances(config: EncoderConfig) -> np.ndarray:
    """Returns the table's row for each distance.

    DeBERTa (He et al. 2020, https://arxiv.org/abs/2006.03654, equation 3) has a row for each
    distance below k and clips the others. DeBERTa-v2 has k buckets to each side. The inner half
    hold one distance each. The outer half grow logarithmically up to `config.relative_positions`.

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
class RelativePositions(Configured, keras.layers.Layer):
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

    def call(self, token_ids: Any) -> tuple[Any, Any]:
        """Returns the embeddings of all distances within texts of the shape `[B, T]`.

        There are 2T - 1 distances for T² pairs. Their rows are computed outside of the graph,
        because TFLite has no logarithm, sign or absolute value of integers.

        Returns:
            Two tensors `[2T, H]`. In row c of the first, the query stands T - 1 - c positions
            after its key; in row c of the second, c - (T - 1) positions. No pair of positions
            needs the last rows. They make the number even.
        """
        table = dense_gradient(self.table)
        if self.normalization is not None:
            table = self.normalization(table)
        far, length = self.config.relative_positions, ops.shape(token_ids)[1]
        distance = ops.arange(2 * length, dtype="int32") - (length - 1)
        rows = (ops.take(self.row_of, ops.clip(d, -far, far) + far) for d in (-distance, distance))
        by_key, by_query = (ops.take(table, row, axis=0) for row in rows)
        return by_key, by_query


@keras.saving.register_keras_serializable(package="keras_bert")
class DisentangledSelfAttention(SelfAttention):
    """Self-attention whose logits have a term for content and one or two for relative positions.

    He et al. 2020 (https://arxiv.org/abs/2006.03654), section 3.1: with δ the row of the distance
    from key j to query i,

        logits_ij = (q_i · k_j + q_i · K_δ + k_j · Q_δ) / √(d · number of terms).

    K ("c2p", content to position) and Q ("p2c") are projections of the embedding of relative
    positions. They have weights of their own unless `config.shared_position_keys`.
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

    def logits(self, query: Any, key: Any, relative: Any, training: bool | None) -> Any:
        """Returns logits as `SelfAttention.logits`; `relative` comes from `RelativePositions`."""
        by_key, by_query = (self.position_dropout(x, training=training) for x in relative)
        batch, num_heads, length, head_size = ops.shape(query)
        heads = (1, 2 * length, num_heads, head_size)
        everywhere = (batch, num_heads, 2 * length, head_size)
        shared = self.config.shared_position_keys
        logits = super().logits(query, key, None, training)
        if "c2p" in self.config.position_terms:
            project = self.key if shared else self.position_key
            # The copies for each text cost nothing. With one head, TensorFlow's product of
            # [B, 1, ...] and [1, 1, ...] writes where it must not (oneDNN, 2.21).
            position_key = ops.broadcast_to(split_heads(project(by_key), heads), everywhere)
            logits += _by_pair(super().logits(query, position_key, None, training))
        if "p2c" in self.config.position_terms:
            project = self.query if shared else self.position_query
            position_query = split_heads(project(by_query) * self.scale, heads)
            position_query = ops.broadcast_to(position_query, everywhere)
            term = _by_pair(super().logits(key, position_query, None, training))
            logits += ops.transpose(term, (0, 1, 3, 2))
        return logits


def _by_pair(x: Any) -> Any:
    """Turns columns for distances into columns for positions.

    Entry (i, j) of the result is entry (i, j - i + T - 1) of `x`: row i is shifted i columns to the
    left. Reading the rows with a stride of one less than their width does that. The T² indices of
    a gather would cost more than the products.

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
