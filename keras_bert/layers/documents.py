"""Several documents in one row: none attends to another, positions begin anew in each.

As in Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination"
(https://arxiv.org/abs/2107.02027), section 3.2: a document of a packed row gives what it gives
alone. All is products and comparisons of static shapes, with no gather or scatter, which are slow
on TPUs.
"""

from typing import Any

from keras import ops


def same_document(document_ids: Any) -> Any:
    """Which positions belong together, bool `[B, T, T]`; padding, of document 0, is one more."""
    return ops.equal(ops.expand_dims(document_ids, 2), ops.expand_dims(document_ids, 1))


def restarted_positions(document_ids: Any) -> Any:
    """Number of tokens before each in its own document, `[B, T]` int32."""
    index = ops.arange(ops.shape(document_ids)[1])
    before = ops.expand_dims(index, 1) > ops.expand_dims(index, 0)  # [T, T]
    before = ops.logical_and(same_document(document_ids), before)
    return ops.sum(ops.cast(before, "int32"), axis=2)


def first_of_document(x: Any, document_ids: Any) -> Any:
    """At each position what `x` `[B, T, H]` is at the first of its document, `[B, T, H]`."""
    begins = ops.expand_dims(ops.equal(restarted_positions(document_ids), 0), 1)  # [B, 1, T]
    one_hot = ops.logical_and(same_document(document_ids), begins)
    return ops.matmul(ops.cast(one_hot, x.dtype), x)


def neighbors(x: Any, document_ids: Any, distance: int) -> Any:
    """At each position `x` `[B, T, H]` `distance` further on, 0 where that is another document."""
    length, pad = ops.shape(x)[1], abs(distance)
    start = pad + distance

    def shifted(y: Any, value: int) -> Any:
        edges = [(0, 0), (pad, pad), *[(0, 0)] * (len(y.shape) - 2)]
        return ops.pad(y, edges, constant_values=value)[:, start : start + length]

    same = ops.equal(shifted(document_ids, -1), document_ids)
    return shifted(x, 0) * ops.cast(ops.expand_dims(same, -1), x.dtype)
