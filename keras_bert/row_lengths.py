"""Rows of different lengths, one after the other in one array."""

import numpy as np
from numpy.typing import ArrayLike


def splits_of(lengths: ArrayLike) -> np.ndarray:
    """Where rows of such lengths `[R]` begin, and where the last one ends, int64 `[R + 1]`."""
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


def numbers_of(lengths: np.ndarray) -> np.ndarray:
    """Of each element of rows of such lengths `[R]` its number in its row, int64 `[elements]`."""
    bounds = splits_of(lengths)
    return np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
