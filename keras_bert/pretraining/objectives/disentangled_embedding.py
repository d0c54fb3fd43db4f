"""Gradient-disentangled embedding sharing (DeBERTa-v3, https://arxiv.org/abs/2111.09543, 3.2)."""

from typing import Any

from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.layers.embeddings import EmbeddingSum

SHARED_TABLES = ("token_embedding", "position_embedding")


class DisentangledEmbedding(EmbeddingSum):
    """Embeddings whose token and position tables are another's plus a difference.

    No gradient goes to the other's. The weights `token_embedding` and `position_embedding` are the
    differences, the attributes of these names the sums.

    Args:
        config: of the encoder.
        base: the other embeddings.
        **kwargs: `name` and `dtype`, as in every Keras layer.
    """

    def __init__(self, config: EncoderConfig, base: EmbeddingSum, **kwargs: Any):
        super().__init__(config, **kwargs)
        self._base = lambda table: getattr(base, table)  # not a layer of this one

    @property
    def token_embedding(self) -> Any:
        """`[V, E]`."""
        return self._sum("token_embedding")

    @token_embedding.setter
    def token_embedding(self, difference: Any) -> None:
        self.token_difference = difference

    @property
    def position_embedding(self) -> Any:
        """`[positions, E]`, or None."""
        return None if self.position_difference is None else self._sum("position_embedding")

    @position_embedding.setter
    def position_embedding(self, difference: Any) -> None:
        self.position_difference = difference

    def _sum(self, table: str) -> Any:
        difference = getattr(self, table.replace("embedding", "difference"))
        base = ops.convert_to_tensor(self._base(table))
        return ops.stop_gradient(base) + ops.convert_to_tensor(difference)

    def _table(self, name: str, rows: int) -> Any:
        if name not in SHARED_TABLES:
            return super()._table(name, rows)
        return self.add_weight(
            shape=(rows, self.config.embedding_size), initializer="zeros", name=name
        )
