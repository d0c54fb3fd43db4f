"""Freezing of weights during fine-tuning."""

import contextlib
from collections.abc import Iterator
from typing import Any

from keras_bert.errors import InputError


@contextlib.contextmanager
def frozen(model: Any, layers: int) -> Iterator[None]:
    """Freezes the embeddings and the lowest layers while the `with` block runs.

    Also freezes a pooler that the model does not use, because Keras would warn that its weights
    have no gradient.

    Args:
        model: a task with an encoder.
        layers: number of encoder layers to freeze. 0 freezes nothing, -1 only the embeddings.

    Raises:
        InputError: if the encoder has fewer layers.
    """
    encoder = model.encoder
    if layers > len(encoder.encoder_layers):
        raise InputError(
            f"frozen_layers is {layers}, but the encoder has {len(encoder.encoder_layers)} layers "
            "with weights of their own; freeze fewer."
        )
    below = (encoder.embeddings, encoder.projection, encoder.relative_positions)
    parts = [] if layers == 0 else [*below, *encoder.encoder_layers[: max(layers, 0)]]
    if getattr(model, "pooling", None) != "pooled":
        parts.append(encoder.pooler)
    parts = [part for part in parts if part is not None]
    before = [part.trainable for part in parts]
    try:
        for part in parts:
            part.trainable = False
        yield
    finally:
        for part, trainable in zip(parts, before, strict=True):
            part.trainable = trainable
