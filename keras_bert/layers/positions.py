"""Positions inside attention: rotations of queries and keys, and a bias by distance."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.layers.configured import ConfiguredLayer, lookup

_FARTHEST = 128  # tokens; all larger distances share the last bucket of their direction


def rotation(positions: Any, head_size: int, base: float) -> tuple[Any, Any]:
    """Returns the angles of rotary positions (Su et al. 2021, https://arxiv.org/abs/2104.09864).

    Args:
        positions: `[B, T]` or `[1, T]` int32, from 0.
        head_size: width D of a head, an even number.
        base: θ; the angle of the pair i is the position times θ^(-2i / D).

    Returns:
        Cosine and sine, each `[B, T, 1, D / 2]` or `[1, T, 1, D / 2]` float32.
    """
    frequencies = base ** (-np.arange(0, head_size, 2, dtype="float32") / head_size)
    angles = ops.expand_dims(ops.cast(positions, "float32"), (2, 3)) * frequencies.astype("float32")
    return ops.cos(angles), ops.sin(angles)


def rotated(x: Any, angles: tuple[Any, Any]) -> Any:
    """Rotates each pair of entries d and d + D/2 of heads `[B, T, N, D]`, in float32 at least."""
    precise = "float64" if x.dtype == "float64" else "float32"
    cosine, sine = (ops.cast(angle, precise) for angle in angles)
    first, second = ops.split(ops.cast(x, precise), 2, axis=-1)
    parts = [first * cosine - second * sine, second * cosine + first * sine]
    return ops.cast(ops.concatenate(parts, axis=-1), x.dtype)


def bucket_of_distances(buckets: int, farthest: int) -> np.ndarray:
    """Returns the bucket of each distance from query to key, `[2L + 1]` int32 for -L to L.

    Half of the buckets are for keys after the query. In each direction, half of the buckets hold
    one distance each, and the others grow logarithmically up to the distance 128 (T5's code).

    Args:
        buckets: number of buckets, an even number.
        farthest: L.
    """
    distance = np.arange(-farthest, farthest + 1)
    half = buckets // 2
    exact = half // 2
    near = np.abs(distance)
    growth = np.log(np.maximum(near, exact).astype("float32") / np.float32(exact))
    growth = growth / np.float32(math.log(_FARTHEST / exact)) * np.float32(half - exact)
    outer = np.minimum(exact + growth.astype("int32"), half - 1)
    return (np.where(near < exact, near, outer) + half * (distance > 0)).astype("int32")


@keras.saving.register_keras_serializable(package="keras_bert")
class DistanceBias(ConfiguredLayer):
    """A learned bias of the attention logits for each bucket of distances and each head.

    All layers share the table `[config.bias_buckets, N]`, see T5 (Raffel et al. 2020,
    https://arxiv.org/abs/1910.10683, section 2.1) and MPNet (Song et al. 2020,
    https://arxiv.org/abs/2004.09297).
    """

    def build(self, input_shape: Any = None) -> None:
        """Makes the table; the shape of the input does not matter."""
        config = self.config
        self.bucket_of = bucket_of_distances(config.bias_buckets, _FARTHEST)
        self.table = self.matrix(config.bias_buckets, config.num_heads, "table")

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """`[1, N, T, T]`."""
        return (1, self.config.num_heads, None, None)

    def call(self, positions: Any) -> Any:
        """Returns the bias `[B, N, T, T]` of positions `[B, T]`, or `[1, N, T, T]` of `[1, T]`."""
        distance = ops.expand_dims(positions, 1) - ops.expand_dims(positions, 2)  # key - query
        distance = ops.clip(distance, -_FARTHEST, _FARTHEST) + _FARTHEST
        buckets = ops.take(self.bucket_of, distance)
        bias = lookup(self.table, buckets, self.compute_dtype)
        return ops.transpose(bias, (0, 3, 1, 2))
