"""Attention to near tokens only, in time and memory proportional to the number of tokens.

A text of T tokens is cut into K blocks of W tokens, where W is the largest distance (Beltagy et al.
2020, https://arxiv.org/abs/2004.05150, section 3.1). The tokens of a block attend to the blocks
before and after it and to their own, and a bias hides the tokens that are too far away. Blocks take
the place of texts: [B, T, ...] becomes [B · K, W, ...].
"""

from typing import Any

import numpy as np
from keras import ops


def blocks(x: Any, size: int) -> Any:
    """Returns `[B * K, W, ...]` of `[B, T, ...]`; the last block is filled up with zeros."""
    length, rest = ops.shape(x)[1], ops.shape(x)[2:]
    more = (length + size - 1) // size * size - length  # tf2onnx converts -length % size wrongly
    x = ops.pad(x, [(0, 0), (0, more), *[(0, 0)] * len(rest)])
    return ops.reshape(x, (-1, size, *rest))


def neighborhoods(x: Any, size: int) -> Any:
    """Returns each block of `[B, T, ...]` with the blocks before and after, `[B * K, 3W, ...]`."""
    batch, rest = ops.shape(x)[0], ops.shape(x)[2:]
    x = ops.reshape(blocks(x, size), (batch, -1, size, *rest))
    x = ops.pad(x, [(0, 0), (1, 1), (0, 0), *[(0, 0)] * len(rest)])
    x = ops.concatenate([x[:, :-2], x[:, 1:-1], x[:, 2:]], axis=2)
    return ops.reshape(x, (-1, 3 * size, *rest))


def joined(x: Any, length: Any) -> Any:
    """Returns `[B, T, ...]` of blocks `[B * K, W, ...]`, where `length` is T."""
    size, rest = ops.shape(x)[1], ops.shape(x)[2:]
    count = (length + size - 1) // size
    return ops.reshape(x, (-1, count * size, *rest))[:, :length]


def seen_in_blocks(mask: Any, documents: Any, size: int) -> Any:
    """Returns which tokens of its neighborhood each token attends to, bool `[B * K, W, 3W]`.

    Args:
        mask: `[B, T]` int32, 1 at tokens, 0 at padding.
        documents: `[B, T]` int32, or None; tokens attend to their document only.
        size: W, the largest distance.
    """
    query, key = np.arange(size)[:, np.newaxis], np.arange(3 * size) - size
    is_near = np.abs(query - key) <= size
    ids = ops.cast(mask if documents is None else documents, "int32")
    keys = ops.expand_dims(neighborhoods(ids, size), 1)
    if documents is None:
        return ops.logical_and(keys > 0, is_near)
    return ops.logical_and(ops.equal(ops.expand_dims(blocks(ids, size), 2), keys), is_near)


def near(order: Any, size: int) -> Any:
    """Returns which positions `[T]` are at most `size` apart, bool `[T, T]`."""
    return ops.abs(ops.expand_dims(order, 1) - ops.expand_dims(order, 0)) <= size
