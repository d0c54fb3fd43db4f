"""The embedding of relative positions, which disentangled attention attends to."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.layers.configured import Configured


def rows_of_distances(config: EncoderConfig) -> np.ndarray:
    """Which row of the table stands for a distance.

    DeBERTa (He et al. 2020, https://arxiv.org/abs/2006.03654, equation 3) has a row for each
    distance below k and clips the others; DeBERTa-v2 has k buckets to each side, of which the
    inner half hold one distance and the outer half grow logarithmically up to
    `config.relative_positions`.

    Returns:
        `[2L + 1]` int32 for the distances -L to L, L being `config.relative_positions`. All
        larger distances have the rows of L and -L.
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
    """A table of 2k rows `[2k, H]`, layer-normalized if `config.relative_layer_norm`."""

    def build(self, input_shape: Any = None) -> None:
        """Makes the table; the shape of the input does not matter."""
        config = self.config
        self.row_of = rows_of_distances(config)
        rows = 2 * (config.position_buckets or config.relative_positions)
        shape = (rows, config.hidden_size)
        self.table = self.add_weight(shape=shape, initializer=self.initializer(), name="table")
        self.normalization = None
        if config.relative_layer_norm:
            self.normalization = self.layer_norm("layer_norm")
            self.normalization.build(shape)

    def call(self, token_ids: Any) -> tuple[Any, Any]:
        """The embeddings of all distances within texts of the shape `[B, T]`.

        The rows only depend on the distance, of which there are 2T - 1 and not T², and their
        numbers are known before the graph is made: no logarithm, sign or absolute value of
        integers is left in it, for which TFLite has no operator.

        Returns:
            Two tensors `[2T, H]`. Row c of the first is for a query that stands T - 1 - c
            positions after its key, of the second for one that stands c - (T - 1) after it. The
            last rows are there to make the number even; no pair of positions needs them.
        """
        # Through the reshape, TensorFlow's gradient is dense: Keras' optimizers need that.
        table = ops.reshape(self.table, self.table.shape)
        if self.normalization is not None:
            table = self.normalization(table)
        far, length = self.config.relative_positions, ops.shape(token_ids)[1]
        distance = ops.arange(2 * length, dtype="int32") - (length - 1)
        rows = (ops.take(self.row_of, ops.clip(d, -far, far) + far) for d in (-distance, distance))
        by_key, by_query = (ops.take(table, row, axis=0) for row in rows)
        return by_key, by_query
