"""Metrics of common benchmarks, as functions of NumPy arrays."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_bert.errors import InputError, closest
from keras_bert.metrics.classification import accuracy, f1, macro_f1, matthews, micro_f1
from keras_bert.metrics.correlation import pearson, spearman

METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "micro_f1": micro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def measure(names: Sequence[str], targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Returns metrics by name. Larger values are better.

    Args:
        names: keys of `METRICS`.
        targets: right values: label ids `[N]`; for several labels per example, 0 or 1 for each
            label, `[N, L]`; or numbers `[N]` for the correlations.
        predictions: predicted values of the same shape.

    Raises:
        InputError: if a name is unknown, there are no examples, or the shapes differ.

    Example:
        >>> measure(["accuracy", "f1"], np.array([0, 1, 1, 1]), np.array([0, 1, 0, 1]))
        {'accuracy': 0.75, 'f1': 0.8}
    """
    targets, predictions = np.asarray(targets), np.asarray(predictions)
    if targets.shape != predictions.shape:
        raise InputError(
            f"The predictions have the shape {list(predictions.shape)}, but the targets "
            f"{list(targets.shape)}; one prediction is needed for each target."
        )
    if not targets.size:
        raise InputError("There are no examples to measure; give at least one.")
    for name in names:
        if name not in METRICS:
            raise InputError(
                f"There is no metric {name!r}.{closest(name, METRICS)} "
                f"The metrics are {', '.join(METRICS)}."
            )
    return {name: METRICS[name](targets, predictions) for name in names}
