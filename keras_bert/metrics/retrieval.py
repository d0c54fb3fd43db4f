"""Metrics of retrieval: the rank of the right document if documents are ordered by cosine."""

from collections.abc import Sequence

import numpy as np

_QUERIES = 1024  # at a time, so that the matrix of cosines stays small


def ranks(
    queries: np.ndarray,
    documents: np.ndarray,
    own: np.ndarray,
    right: Sequence[Sequence[int]],
) -> np.ndarray:
    """Returns the rank, from 1 on, of each query's own document among the wrong documents.

    Documents are ordered by their cosine with the query. If cosines are equal, the wrong documents
    come first. So a model that gives all texts the same vector finds nothing.

    Args:
        queries: vectors `[N, H]`.
        documents: vectors `[M, H]`.
        own: index of each query's own document, int `[N]`.
        right: N lists: indices of all right documents of each query, its own included.

    Returns:
        Int `[N]`.
    """
    queries, documents = (_unit(vectors) for vectors in (queries, documents))
    results = []
    for first in range(0, len(queries), _QUERIES):
        part = slice(first, first + _QUERIES)
        cosines = queries[part] @ documents.T
        limits = np.take_along_axis(cosines, own[part, np.newaxis], axis=1)
        for row, columns in zip(cosines, right[part], strict=True):
            row[list(columns)] = -np.inf
        results.append(1 + np.sum(cosines >= limits, axis=1))
    return np.concatenate(results)


def accuracy_at_1(ranks: np.ndarray) -> float:
    """Ratio of the queries whose rank is 1."""
    return float(np.mean(ranks == 1))


def mean_reciprocal_rank(ranks: np.ndarray) -> float:
    """Mean of 1 / rank."""
    return float(np.mean(1 / ranks))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
