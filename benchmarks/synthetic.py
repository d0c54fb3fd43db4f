"""Batches of any objective with tokens at random, for measurements of the step alone."""

from typing import Any

import numpy as np

from keras_bert.pretraining.objectives.objective import Objective


def random_batch(
    objective: Objective, vocabulary_size: int, batch_size: int, length: int, slots: int
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns inputs, labels and weights as `pretraining.data.input_pipeline` makes them, unpadded.

    Args:
        objective: what is trained.
        vocabulary_size: of the tokens.
        batch_size: B.
        length: T.
        slots: P, masked tokens of an example.
    """
    rng = np.random.default_rng(0)
    tokens, masked = (batch_size, length), (batch_size, slots)
    positions = 1 + rng.permuted(np.tile(np.arange(length - 1), (batch_size, 1)), axis=1)
    x = {
        "token_ids": rng.integers(5, vocabulary_size, tokens).astype("int32"),
        "segment_ids": np.zeros(tokens, "int32"),
        "padding_mask": np.ones(tokens, "int32"),
        "masked_positions": np.sort(positions[:, :slots]).astype("int32"),
    }
    if objective.samples:
        x["original_ids"] = rng.integers(5, vocabulary_size, tokens).astype("int32")
        x["noise"] = rng.random(masked).astype("float32")
    labels = {
        "slots": rng.integers(5, vocabulary_size, masked).astype("int32"),
        "examples": rng.integers(0, 2, batch_size).astype("int32"),
    }
    shapes = {"slots": masked, "tokens": tokens, "examples": (batch_size,)}
    heads = [head for head in objective.heads if head.key]
    y = {head.key: labels[head.over] for head in heads if head.labelled}
    return x, y, {head.key: np.ones(shapes[head.over], "float32") for head in heads}
