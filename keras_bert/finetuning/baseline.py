"""Frozen baseline of a classifier: a logistic regression on the encoder's vectors.

The encoder is not trained. A text's vector is the mean of its tokens' vectors. A pair's vector is
[u, v, |u - v|], made from the vectors u and v of its texts.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.finetuning.examples import TextExamples
from keras_bert.finetuning.jobs import classifier
from keras_bert.finetuning.keras_objects import measure_metrics
from keras_bert.finetuning.recipe import Recipe
from keras_bert.finetuning.targets import targets_of
from keras_bert.tasks.embedder import TextEmbedder
from keras_bert.tasks.embedding_losses import pair_features

INVERSE_STRENGTHS = (1.0, 10.0, 100.0)
"""Values of `c` that are tried. The validation examples choose one."""

_MOST_STEPS, _TOLERANCE, _MEMORY = 200, 1e-5, 10


class LinearClassifier(NamedTuple):
    """Linear layer on vectors of size F, with L outputs."""

    kernel: np.ndarray
    """float32 `[F, L]`."""
    bias: np.ndarray
    """float32 `[L]`."""

    def logits(self, vectors: np.ndarray) -> np.ndarray:
        """Returns logits `[N, L]` of vectors `[N, F]`."""
        return vectors @ self.kernel + self.bias


def measure_baseline(
    model: Any, recipe: Recipe, splits: Mapping[str, TextExamples], metrics: Sequence[Any] = ()
) -> tuple[LinearClassifier, dict[str, dict[str, float]]]:
    """Fits the frozen baseline and measures it.

    Args:
        model: a `SequenceClassifier` that is not trained yet.
        recipe: recipe of the run, with all values.
        splits: examples under the keys "training", "validation" and perhaps "test".
        metrics: Keras metrics to measure besides the model's own.

    Returns:
        The baseline, and its metrics under the keys "validation" and perhaps "test".
    """
    metric = recipe.metric or classifier.metrics(model)[0]
    vectors = {
        name: frozen_vectors(model, examples, recipe.batch_size)
        for name, examples in splits.items()
    }

    targets = {
        name: targets_of(examples, model.labels, model.problem_type)
        for name, examples in splits.items()
    }

    def measure(found: LinearClassifier, name: str) -> dict[str, float]:
        logits = list(found.logits(vectors[name]))
        own = classifier.measure(model, splits[name], None, logits)
        return {**own, **measure_metrics(metrics, targets[name], logits)}

    best = fit_baseline(
        vectors["training"],
        targets["training"],
        model.num_labels,
        lambda found: measure(found, "validation")[metric],
    )
    return best, {name: measure(best, name) for name in vectors if name != "training"}


def frozen_vectors(model: Any, examples: TextExamples, batch_size: int = 32) -> np.ndarray:
    """Returns a vector for each example, made by the model's encoder: float32 `[N, F]`.

    F is the encoder's hidden size H. For pairs, it is 3 H.
    """
    with model.distribute_strategy.scope():
        embedder = TextEmbedder(
            model.encoder,
            pooling="mean",
            normalize=False,
            windows=model.windows,
            max_windows=model.max_windows,
            preprocessor=model.preprocessor,
        )
        embedder.compile(jit_compile=False)  # compiling costs more than these few steps
    columns = [examples.texts] if examples.pairs is None else [examples.texts, examples.pairs]
    vectors = [
        np.stack(embedder.predict_rows(embedder.rows(list(column)), batch_size))
        for column in columns
    ]
    return vectors[0] if len(vectors) == 1 else np.asarray(pair_features(np.stack(vectors, axis=1)))


def fit_baseline(
    vectors: np.ndarray,
    targets: np.ndarray,
    num_labels: int,
    score: Callable[[LinearClassifier], float],
) -> LinearClassifier:
    """Fits one logistic regression for each of `INVERSE_STRENGTHS`; returns the best one.

    Args:
        vectors: float32 `[N, F]`.
        targets: label ids, int32 `[N]`, or 0 or 1 for each label, float32 `[N, L]`.
        num_labels: number of labels, L.
        score: function whose larger values are better, such as the accuracy on validation
            examples.
    """
    # `c` means the same for all encoders if the centered vectors' mean squared length is 1.
    mean = vectors.mean(axis=0)
    size = max(float(np.sqrt(((vectors - mean) ** 2).sum(axis=1).mean())), 1e-12)
    scaled = (vectors - mean) / size
    found: list[LinearClassifier] = []
    fitted = None
    for c in INVERSE_STRENGTHS:
        fitted = logistic_regression(scaled, targets, num_labels, c, start=fitted)
        kernel = fitted.kernel / size
        found.append(LinearClassifier(kernel, fitted.bias - mean @ kernel))
    return max(found, key=lambda one: np.nan_to_num(score(one), nan=-np.inf))


def logistic_regression(
    vectors: np.ndarray,
    targets: np.ndarray,
    num_labels: int,
    c: float,
    start: LinearClassifier | None = None,
) -> LinearClassifier:
    """Fits a logistic regression to all examples at once, by L-BFGS.

    Minimizes c times the sum of the losses plus half the sum of the kernel's squares, as
    scikit-learn's `LogisticRegression` does. The loss of label ids is the cross-entropy of the
    softmax. The loss of 0 or 1 for each label is the sum of the labels' cross-entropies.

    Args:
        vectors: float32 `[N, F]`.
        targets: label ids, int32 `[N]`, or 0 or 1 for each label, float32 `[N, L]`.
        num_labels: number of labels, L.
        c: inverse strength of the regularization.
        start: values to start from; zeros by default.
    """
    vectors = np.asarray(vectors, np.float32)
    single, (count, size) = targets.ndim == 1, vectors.shape
    wanted = np.eye(num_labels, dtype=np.float32)[targets] if single else targets
    decay = 1 / (c * count)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.astype(np.float32).reshape(size + 1, num_labels)
        kernel = weights[:-1]
        logits = vectors @ kernel + weights[-1]
        if single:
            logits -= logits.max(axis=1, keepdims=True)
            sums = np.exp(logits).sum(axis=1, keepdims=True)
            total = (np.log(sums)[:, 0] - (logits * wanted).sum(axis=1)).sum(dtype=np.float64)
            error = (np.exp(logits) / sums - wanted) / count
        else:
            total = (np.logaddexp(0, logits) - logits * wanted).sum(dtype=np.float64)
            error = (0.5 * (1 + np.tanh(logits / 2)) - wanted) / count
        gradient = np.concatenate([vectors.T @ error + decay * kernel, error.sum(0, keepdims=True)])
        squares = np.square(kernel, dtype=np.float64).sum()
        return total / count + decay / 2 * squares, gradient.astype(np.float64).ravel()

    first = np.zeros((size + 1, num_labels))
    if start is not None:
        first = np.concatenate([start.kernel, start.bias[np.newaxis]]).astype(np.float64)
    found = minimize(loss, first.ravel()).astype(np.float32).reshape(size + 1, num_labels)
    return LinearClassifier(found[:-1], found[-1])


def minimize(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray
) -> np.ndarray:
    """Minimizes a convex function by L-BFGS (Nocedal and Wright 2006, algorithm 7.5).

    Args:
        function: returns the value and the gradient, float64 `[P]`, at a point `[P]`.
        start: point to start from, float64 `[P]`.

    Returns:
        The point where the gradient is almost 0, or where no step lowers the value any more.
    """
    point, (value, gradient) = start, function(start)
    pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=_MEMORY)
    for _ in range(_MOST_STEPS):
        if not np.abs(gradient).max() > _TOLERANCE:  # true for NaN, too
            break
        direction = -_two_loops(gradient, pairs)
        slope, length = float(gradient @ direction), 1.0
        if not pairs:
            length = 1 / max(float(np.linalg.norm(gradient)), 1.0)
        while True:
            trial = point + length * direction
            new_value, new_gradient = function(trial)
            if new_value <= value + 1e-4 * length * slope:
                break
            length /= 2
            if length < 1e-6:
                return point
        step, change = trial - point, new_gradient - gradient
        if step @ change > 1e-10 * float(change @ change):
            pairs.append((step, change))
        point, value, gradient = trial, new_value, new_gradient
    return point


def _two_loops(gradient: np.ndarray, pairs: deque[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Returns the gradient times the approximate inverse of the Hessian (algorithm 7.4)."""
    result, factors = gradient.copy(), list[float]()
    for step, change in reversed(pairs):
        factors.append(float(step @ result) / float(step @ change))
        result -= factors[-1] * change
    if pairs:
        step, change = pairs[-1]
        result *= float(step @ change) / float(change @ change)
    for (step, change), factor in zip(pairs, reversed(factors), strict=True):
        result += step * (factor - float(change @ result) / float(step @ change))
    return result
