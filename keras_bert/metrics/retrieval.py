"""How high the right text stands among all texts, ordered by their cosine to a query."""

from collections.abc import Sequence

import numpy as np

_QUERIES = 1024  # at a time, so that a large matrix is never whole


def ranks(
    queries: np.ndarray,
    documents: np.ndarray,
    own: np.ndarray,
    right: Sequence[Sequence[int]],
) -> np.ndarray:
    """The rank of each query's own document among those that are wrong for it, from 1.

    Of equally near documents the wrong ones come first, so that a model that makes all texts
    alike finds nothing.

    Args:
        queries: `[N, H]`.
        documents: `[M, H]`.
        own: the document of each query, int `[N]`.
        right: all documents that are right for each query, N lists.

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
    """Share of the ranks that are 1."""
    return float(np.mean(ranks == 1))


def mean_reciprocal_rank(ranks: np.ndarray) -> float:
    """Mean of 1 / rank."""
    return float(np.mean(1 / ranks))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
