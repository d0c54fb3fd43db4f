"""Input of the encoder: the sum of token, segment and position embeddings."""

from typing import Any

import keras
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.configured import Configured


@keras.saving.register_keras_serializable(package="keras_bert")
class EmbeddingSum(Configured, keras.layers.Layer):
    """LayerNorm(token + segment + learned position), then dropout (BERT, section 3).

    `token_embedding` `[V, E]` is also the output matrix of a masked language model.
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes the tables; the shape of the input does not matter."""
        config = self.config
        size = config.embedding_size
        self.token_embedding = self.matrix(config.vocabulary_size, size, "token_embedding")
        self.position_embedding = None
        if config.position_input:
            rows = config.max_positions + config.position_offset
            self.position_embedding = self.matrix(rows, size, "position_embedding")
        self.segment_embedding = None
        if config.num_segments:
            self.segment_embedding = self.matrix(config.num_segments, size, "segment_embedding")
        self.projection = None
        if self.width != size:
            self.projection = self.dense(size, self.width, "projection", use_bias=False)
        self.normalization = self.layer_norm(self.width, "layer_norm")
        self.dropout_layer = self.dropout(config.hidden_dropout, "dropout")

    @property
    def width(self) -> int:
        """Width of the output."""
        config = self.config
        return config.hidden_size if config.projection_first else config.embedding_size

    def call(
        self,
        token_ids: Any,
        segment_ids: Any = None,
        padding_mask: Any = None,
        position_ids: Any = None,
        training: bool | None = None,
    ) -> Any:
        """Returns the embeddings of a batch of token ids.

        Args:
            token_ids: `[B, T]` int32.
            segment_ids: `[B, T]` int32, or None for all zeros.
            padding_mask: `[B, T]` int32, or None for all ones. It has no effect if
                `config.position_offset` is 0.
            position_ids: `[B, T]` int32, rows of the position table, or None for consecutive rows.

        Returns:
            `[B, T, E]`, or `[B, T, H]` if `config.projection_first`, in the compute dtype.

        Raises:
            InputError: if T is known and larger than `config.max_positions`.
        """
        x = ops.take(dense_gradient(self.token_embedding), token_ids, axis=0)
        if self.segment_embedding is not None:
            x = x + self._segments(token_ids, segment_ids)
        if self.position_embedding is not None:
            x = x + self._positions(token_ids, padding_mask, position_ids)
        if self.projection is not None:
            x = self.projection(x)
        return self.dropout_layer(self.normalization(x), training=training)

    def _segments(self, token_ids: Any, segment_ids: Any) -> Any:
        """Returns segment embeddings `[B, T, E]`, or `[1, E]` if there is one segment."""
        table = ops.convert_to_tensor(self.segment_embedding)
        if self.config.num_segments == 1:
            return table
        if segment_ids is None:
            segment_ids = ops.zeros_like(token_ids)
        # Two rows: a product with a one-hot matrix is faster than a lookup, and its gradient
        # is dense.
        one_hot = ops.one_hot(segment_ids, self.config.num_segments, dtype=table.dtype)
        return ops.matmul(one_hot, table)

    def _positions(self, token_ids: Any, padding_mask: Any, position_ids: Any) -> Any:
        """Returns position embeddings `[B, T, E]`, or `[T, E]` if all texts have the same."""
        most, offset = self.config.max_positions, self.config.position_offset
        static = token_ids.shape[1]
        if static is not None and static > most:
            raise InputError(
                f"The sequence has {static} tokens, but this encoder has {most} positions; "
                "shorten the sequence_length."
            )
        table = self.position_embedding
        if position_ids is None:
            if padding_mask is None or not offset:
                return ops.convert_to_tensor(table)[offset : offset + ops.shape(token_ids)[1]]
            mask = ops.cast(padding_mask, "int32")
            position_ids = ops.cumsum(mask, axis=1) * mask + (offset - 1)
        return ops.take(dense_gradient(table), position_ids, axis=0)


def dense_gradient(table: Any) -> Any:
    """Returns the table with a gradient that Keras' optimizers handle.

    TensorFlow's gradient of a lookup is a list of rows, and an id can occur in it several times.
    Keras 3 does not add its rows up. A reshape turns the list into a dense matrix.
    """
    return ops.reshape(table, table.shape)
