"""Rows filled with several documents each, which do not see one another.

Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination"
(https://arxiv.org/abs/2107.02027): every span keeps its own `[CLS]` and `[SEP]`, so that it is
the example that it would be alone, and the number of examples seen stays what it was.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from keras_bert.pretraining.data.example_index.index import generator
from keras_bert.pretraining.data.example_index.sentences import spans_of_documents
from keras_bert.text.rows import splits_of

if TYPE_CHECKING:
    from keras_bert.pretraining.data.corpus import TokenizedCorpus

SPECIAL = 2
"""Tokens that a span has beside its text: `[CLS]` and `[SEP]`."""


@dataclasses.dataclass(frozen=True, eq=False)
class PackedExampleIndex:
    """The rows of an epoch, in the order in which they are seen, all int64.

    Row n has the spans from `row_splits[n]` to `row_splits[n + 1]`, `row_splits` being `[N +
    1]`. Span m is `tokens[start[m] : start[m] + length[m]]`, and its `[CLS]` stands in cell
    `cell[m]` if the cells of all rows are counted one after the other, each `[M]`.
    """

    start: np.ndarray
    length: np.ndarray
    cell: np.ndarray
    row_splits: np.ndarray

    def __len__(self) -> int:
        return len(self.row_splits) - 1


def packed_index(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> PackedExampleIndex:
    """Rows of as many spans as fit; each token of text stands in exactly one.

    What is packed are the spans of `segments_index`: whole documents, and long ones in pieces.

    Args:
        corpus: the text.
        max_tokens: the length of a row less the two special tokens of its first span.
        seed: of the random choices.
        epoch: number of the epoch; each has its own examples.
    """
    rng = generator(seed, epoch)
    start, length = spans_of_documents(corpus, max_tokens, rng)
    order = rng.permutation(len(start))  # who meets whom
    start, length = start[order], length[order]
    row = best_fit(length + SPECIAL, max_tokens + SPECIAL)
    row = rng.permutation(row.max() + 1)[row]
    order = np.argsort(row, kind="stable")
    start, length, row = start[order], length[order], row[order]
    row_splits = splits_of(np.bincount(row))
    before = splits_of(length + SPECIAL)[:-1]
    column = before - before[row_splits[:-1]][row]
    return PackedExampleIndex(start, length, row * (max_tokens + SPECIAL) + column, row_splits)


def best_fit(sizes: np.ndarray, capacity: int) -> np.ndarray:
    """Numbers of the rows `[M]`, from 0, in which things of these `sizes` `[M]` stand.

    The largest first, each into the row with the least room that suffices. Things of one size are
    placed together, in their order, so that the time hardly depends on their number.
    """
    result = np.empty(len(sizes), np.int64)
    rows_with_room = [np.zeros(0, np.int64)] * (capacity + 1)  # by the room that is left
    rows = 0
    by_size = np.argsort(-sizes, kind="stable")
    for group in np.split(by_size, np.flatnonzero(np.diff(sizes[by_size])) + 1):
        size = sizes[group[0]]
        while len(group):
            room = next((r for r in range(size, capacity) if len(rows_with_room[r])), capacity)
            if room == capacity:
                new = -(-len(group) // (capacity // size))
                rows_with_room[room] = np.arange(rows, rows + new)
                rows += new
            taken, left = np.split(rows_with_room[room], [len(group)])
            result[group[: len(taken)]] = taken
            rows_with_room[room] = left
            rows_with_room[room - size] = np.append(rows_with_room[room - size], taken)
            group = group[len(taken) :]
    return result
