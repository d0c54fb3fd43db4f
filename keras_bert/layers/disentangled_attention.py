"""Attention to content and relative positions apart."""

from typing import Any

import keras
from keras import ops

from keras_bert.layers.attention import SelfAttention, split_heads


@keras.saving.register_keras_serializable(package="keras_bert")
class DisentangledSelfAttention(SelfAttention):
    """Self-attention whose logits have a term for content and one or two for relative positions.

    He et al. 2020 (https://arxiv.org/abs/2006.03654), section 3.1: with δ the row of the distance
    from key j to query i,

        logits_ij = (q_i · k_j + q_i · K_δ + k_j · Q_δ) / √(d · number of terms).

    K ("c2p", content to position) and Q ("p2c") are projections of the embedding of relative
    positions, by weights of their own or, if `config.shared_position_keys`, by those of the
    content.
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes the projections; the shape of the input does not matter."""
        super().build()
        config, size = self.config, self.config.hidden_size
        self.num_terms = 1 + len(config.position_terms)
        self.position_dropout = self.dropout(config.hidden_dropout, "position_dropout")
        if "c2p" in config.position_terms and not config.shared_position_keys:
            self.position_key = self.dense(size, "position_key", use_bias=config.key_bias)
            self.position_key.build((None, size))
        if "p2c" in config.position_terms and not config.shared_position_keys:
            self.position_query = self.dense(size, "position_query")
            self.position_query.build((None, size))

    def logits(self, query: Any, key: Any, relative: Any, training: bool | None) -> Any:
        """As in `SelfAttention`; `relative` is the output of `RelativePositions`."""
        by_key, by_query = (self.position_dropout(x, training=training) for x in relative)
        batch, num_heads, length, head_size = ops.shape(query)
        heads = (1, 2 * length, num_heads, head_size)
        everywhere = (batch, num_heads, 2 * length, head_size)
        shared = self.config.shared_position_keys
        logits = super().logits(query, key, None, training)
        if "c2p" in self.config.position_terms:
            project = self.key if shared else self.position_key
            # Told apart for each text, which costs nothing: TensorFlow's product of [B, 1, ...]
            # and [1, 1, ...], as it is with one head, writes where it must not (oneDNN, 2.21).
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
    """From columns for distances to columns for positions.

    Entry (i, j) of the result is entry (i, j - i + T - 1) of `x`. Row i stands i columns further
    to the left than row 0, which is what reading the rows with a stride of one less than their
    width does: no gather, whose T² indices would cost more than the products.

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
