"""What a fine-tuned model is worth on labelled examples."""

from typing import Any

import keras
import numpy as np

from keras_bert.errors import InputError
from keras_bert.finetuning.datasets import batches
from keras_bert.finetuning.examples import Examples
from keras_bert.finetuning.targets import targets_of
from keras_bert.metrics import measure

# By type of problem; the first one chooses the best epoch.
METRICS = {
    "single_label": ("accuracy", "macro_f1"),
    "two_labels": ("accuracy", "f1", "macro_f1", "matthews"),
    "multi_label": ("micro_f1", "macro_f1", "accuracy"),
    "regression": ("pearson", "spearman"),
}


def metric_names(model: Any) -> tuple[str, ...]:
    """The metrics of a `SequenceClassifier`.

    Raises:
        InputError: if it is a regression of several numbers.
    """
    if model.problem_type == "regression" and model.num_labels != 1:
        raise InputError(
            f"The model predicts {model.num_labels} numbers for each text; a regression is "
            "trained and measured here on one."
        )
    two = model.problem_type == "single_label" and model.num_labels == 2
    return METRICS["two_labels" if two else model.problem_type]


def evaluate(model: Any, examples: Examples, *, batch_size: int = 32) -> dict[str, float]:
    """The loss and the metrics on labelled examples.

    Args:
        model: a `SequenceClassifier` with a preprocessor.
        examples: with labels that the model knows.
        batch_size: examples per step.

    Returns:
        `loss` and, by type of problem, the metrics of `METRICS`; "f1" is that of the second
        label.

    Raises:
        InputError: if labels are missing or unknown; the message names file and line.
    """
    targets = targets_of(examples, model.labels, model.problem_type)
    return score(model, predict_logits(model, examples, batch_size=batch_size), targets)


def score(model: Any, logits: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """The loss and the metrics of logits float32 `[N, L]` against `targets_of`."""
    loss = keras.ops.convert_to_numpy(model.default_loss()(targets, logits))
    predictions = {
        "single_label": lambda: logits.argmax(axis=1),
        "multi_label": lambda: logits >= 0,
        "regression": lambda: logits[:, 0],
    }[model.problem_type]()
    if model.problem_type == "regression":
        targets = targets[:, 0]
    return {"loss": float(loss), **measure(metric_names(model), targets, predictions)}


def predict_logits(model: Any, examples: Examples, *, batch_size: int = 32) -> np.ndarray:
    """Logits float32 `[N, L]`, in the order of the examples."""
    # Texts of like length share a batch, so that little of it is padding.
    order = np.argsort([-_length(examples, index) for index in range(len(examples))], kind="stable")
    dataset = batches(model.preprocessor, examples.take(order), batch_size=batch_size)
    logits = model.predict(dataset, verbose=0)
    return logits[np.argsort(order)]


def _length(examples: Examples, index: int) -> int:
    pair = examples.pairs[index] if examples.pairs is not None else ""
    return len(examples.texts[index]) + len(pair)
