"""Correlations of numbers `[N]` with numbers `[N]`; NaN if all targets or predictions are equal."""

import numpy as np


def pearson(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Linear correlation of two lists of numbers."""
    x, y = (_standardized(values) for values in (targets, predictions))
    return float(np.clip(x @ y, -1, 1))


def spearman(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Correlation of the ranks of two lists of numbers. Equal values have their mean rank."""
    return pearson(_ranks(targets), _ranks(predictions))


def _standardized(values: np.ndarray) -> np.ndarray:
    """Centers values and scales them to length 1."""
    values = np.asarray(values, float)
    if (values == values[0]).all():  # centered values would be rounding errors, not 0
        return np.full_like(values, np.nan)
    centered = values - values.mean()
    centered = centered / np.abs(centered).max()  # the square of a tiny number would be 0
    return centered / np.linalg.norm(centered)


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
