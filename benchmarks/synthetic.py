"""Random batches for any objective, to measure a training step without its data."""

from typing import Any

import numpy as np

from keras_bert.pretraining.objectives.registry import Objective


def random_batch(
    objective: Objective,
    vocabulary_size: int,
    batch_size: int,
    length: int,
    max_predictions_per_seq: int,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns inputs, labels and weights as `pretraining.data.input_pipeline` makes them, unpadded.

    Args:
        objective: training objective.
        vocabulary_size: ids are below this number.
        batch_size: number of examples B.
        length: number of tokens T of an example.
        max_predictions_per_seq: number of masked tokens P of an example.
    """
    rng = np.random.default_rng(0)
    tokens, masked = (batch_size, length), (batch_size, max_predictions_per_seq)
    positions = 1 + rng.permuted(np.tile(np.arange(length - 1), (batch_size, 1)), axis=1)
    x = {
        "token_ids": rng.integers(5, vocabulary_size, tokens).astype("int32"),
        "segment_ids": np.zeros(tokens, "int32"),
        "padding_mask": np.ones(tokens, "int32"),
        "masked_positions": np.sort(positions[:, :max_predictions_per_seq]).astype("int32"),
    }
    if objective.samples:
        x["original_ids"] = rng.integers(5, vocabulary_size, tokens).astype("int32")
        x["noise"] = rng.random(masked).astype("float32")
    labels = {
        "predictions": rng.integers(5, vocabulary_size, masked).astype("int32"),
        "examples": rng.integers(0, 2, batch_size).astype("int32"),
    }
    shapes = {"predictions": masked, "tokens": tokens, "examples": (batch_size,)}
    loss_terms = [term for term in objective.loss_terms if term.key]
    y = {term.key: labels[term.over] for term in loss_terms if term.labeled}
    return x, y, {term.key: np.ones(shapes[term.over], "float32") for term in loss_terms}
