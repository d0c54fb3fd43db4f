"""The input of the encoder: the sum of token, segment and position embeddings."""

from typing import Any

import keras
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.configured import Configured


@keras.saving.register_keras_serializable(package="keras_bert")
class EmbeddingSum(Configured, keras.layers.Layer):
    """LayerNorm(token + segment + learned position), then dropout (BERT, section 3).

    Where `config.embedding_size` is not `config.hidden_size`, the sum is projected to the hidden
    size. `token_embedding` `[V, E]` is also the output matrix of a masked language model.
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes the tables; the shape of the input does not matter."""
        config = self.config
        size = config.embedding_size
        self.token_embedding = self._table("token_embedding", config.vocabulary_size)
        self.position_embedding = self._table("position_embedding", config.max_positions)
        self.segment_embedding = None
        if config.num_segments:
            self.segment_embedding = self._table("segment_embedding", config.num_segments)
        self.normalization = self.layer_norm("layer_norm")
        self.normalization.build((None, None, size))
        self.dropout_layer = self.dropout(config.hidden_dropout, "dropout")
        self.projection = None
        if size != config.hidden_size:
            self.projection = self.dense(config.hidden_size, "projection")
            self.projection.build((None, None, size))

    def _table(self, name: str, rows: int) -> Any:
        shape = (rows, self.config.embedding_size)
        return self.add_weight(shape=shape, initializer=self.initializer(), name=name)

    def call(self, token_ids: Any, segment_ids: Any = None, training: bool | None = None) -> Any:
        """Embeds a batch.

        Args:
            token_ids: `[B, T]` int32.
            segment_ids: `[B, T]` int32, or None for all zeros.

        Returns:
            `[B, T, H]` in the compute dtype.

        Raises:
            InputError: if T is known and larger than `config.max_positions`.
        """
        length = token_ids.shape[1]
        if length is not None and length > self.config.max_positions:
            raise InputError(
                f"The sequence has {length} tokens, but this encoder has "
                f"{self.config.max_positions} positions; shorten the sequence_length."
            )
        x = ops.take(_dense_gradient(self.token_embedding), token_ids, axis=0)
        if self.segment_embedding is not None:
            if segment_ids is None:
                segment_ids = ops.zeros_like(token_ids)
            # Two rows: a product with a one-hot matrix is faster than a lookup, and its
            # gradient is dense.
            one_hot = ops.one_hot(segment_ids, self.config.num_segments, dtype=x.dtype)
            x = x + ops.matmul(one_hot, self.segment_embedding)
        x = x + ops.convert_to_tensor(self.position_embedding)[: ops.shape(token_ids)[1]]
        x = self.dropout_layer(self.normalization(x), training=training)
        return x if self.projection is None else self.projection(x)


def _dense_gradient(table: Any) -> Any:
    """The table, with a gradient that Keras' optimizers handle.

    TensorFlow's gradient of a lookup is a list of rows in which repeated ids stand repeatedly;
    Keras 3 does not add those up. Passing through a reshape turns the list into a dense matrix.
    """
    return ops.reshape(table, table.shape)
