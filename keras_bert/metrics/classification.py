"""Metrics of labels: accuracy, F1 and Matthews' correlation.

`targets` and `predictions` are label ids `[N]`. If an example can have any number of labels, they
are 0 or 1 for each label, `[N, L]`. If the denominator of a ratio is 0, the ratio counts as 0, as
in scikit-learn.
"""

import numpy as np


def accuracy(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Ratio of the examples whose labels are all right."""
    same = np.asarray(targets) == np.asarray(predictions)
    return float(same.reshape(len(same), -1).all(axis=1).mean())


def f1(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Harmonic mean of precision and recall of label 1, for label ids `[N]`."""
    right, predicted, actual = _counts(np.equal(targets, 1), np.equal(predictions, 1))
    return float(_ratio(2 * right, predicted + actual))


def macro_f1(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Mean F1 of all labels that occur, or of all columns of `[N, L]`."""
    right, predicted, actual = _counts(*_indicators(targets, predictions))
    return float(_ratio(2 * right, predicted + actual).mean())


def micro_f1(targets: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of the decisions about all labels together. For label ids `[N]`, this is the accuracy."""
    right, predicted, actual = _counts(*_indicators(targets, predictions))
    return float(_ratio(2 * right.sum(), predicted.sum() + actual.sum()))


def matthews(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews' correlation of label ids `[N]`, for any number of labels.

    Gorodkin 2004, https://doi.org/10.1016/j.compbiolchem.2004.09.006.
    """
    right, predicted, actual = _counts(*_indicators(targets, predictions))
    total = len(targets)
    covariance = right.sum() * total - predicted @ actual
    # From some 50,000 examples on, integers cannot hold the product of two squares, but floats can.
    variances = float(total**2 - predicted @ predicted) * float(total**2 - actual @ actual)
    return float(_ratio(covariance, np.sqrt(variances)))


def _indicators(targets: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns targets and predictions as bool `[N, L]`, with a column for each occurring label."""
    targets, predictions = np.asarray(targets), np.asarray(predictions)
    if targets.ndim == 2:
        return targets.astype(bool), predictions.astype(bool)
    labels = np.union1d(targets, predictions)
    return targets[:, None] == labels, predictions[:, None] == labels


def _counts(targets: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, ...]:
    """Counts true positives, predictions and targets of each label: int64 `[L]` each."""
    return tuple(x.sum(axis=0) for x in (targets & predictions, predictions, targets))


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    numerator, denominator = np.asarray(numerator, float), np.asarray(denominator, float)
    return np.divide(numerator, denominator, np.zeros_like(numerator), where=denominator != 0)
