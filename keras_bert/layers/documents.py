"""Functions for packed rows, which hold several documents.

A document does not attend to the other documents of its row, and its positions start at 0. So its
outputs are the same as in a row of its own. See Krell et al. 2021, "Efficient Sequence Packing
without Cross-contamination" (https://arxiv.org/abs/2107.02027), section 3.2. The functions use
products and comparisons, because gather and scatter are slow on TPUs.
"""

from typing import Any

from keras import ops


def same_document(document_ids: Any) -> Any:
    """Returns which positions are in the same document, bool `[B, T, T]`. Padding is document 0."""
    return ops.equal(ops.expand_dims(document_ids, 2), ops.expand_dims(document_ids, 1))


def restarted_positions(document_ids: Any) -> Any:
    """Returns each token's position in its document, from 0, `[B, T]` int32."""
    index = ops.arange(ops.shape(document_ids)[1])
    before = ops.expand_dims(index, 1) > ops.expand_dims(index, 0)  # [T, T]
    before = ops.logical_and(same_document(document_ids), before)
    return ops.sum(ops.cast(before, "int32"), axis=2)


def first_of_document(x: Any, document_ids: Any) -> Any:
    """Returns at each position the vector of `x` at the document's first token, `[B, T, H]`."""
    begins = ops.expand_dims(ops.equal(restarted_positions(document_ids), 0), 1)  # [B, 1, T]
    one_hot = ops.logical_and(same_document(document_ids), begins)
    return ops.matmul(ops.cast(one_hot, x.dtype), x)


def neighbors(x: Any, document_ids: Any, distance: int) -> Any:
    """Returns at each position the vector of `x` that stands `distance` positions later.

    The vector is 0 if that position is in another document. Shapes are `[B, T, H]`.
    """
    length, pad = ops.shape(x)[1], abs(distance)
    start = pad + distance

    def shifted(y: Any, value: int) -> Any:
        edges = [(0, 0), (pad, pad), *[(0, 0)] * (len(y.shape) - 2)]
        return ops.pad(y, edges, constant_values=value)[:, start : start + length]

    same = ops.equal(shifted(document_ids, -1), document_ids)
    return shifted(x, 0) * ops.cast(ops.expand_dims(same, -1), x.dtype)
