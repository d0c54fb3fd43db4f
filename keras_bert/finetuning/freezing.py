"""Choice of the weights that fine-tuning trains: low-rank adapters and frozen layers."""

import contextlib
from collections.abc import Iterator
from typing import Any

from keras_bert.errors import InputError
from keras_bert.layers.lora import adapted_layers, reads_pooler


@contextlib.contextmanager
def adapted(model: Any, rank: int | None, seed: int) -> Iterator[None]:
    """Adds LoRA adapters to a model if a rank is given. The model keeps them after the block.

    Raises:
        InputError: if the model has adapters of another rank, or the rank does not fit.
    """
    layers = adapted_layers(model)
    for layer in layers:
        if rank not in (None, layer.lora_rank):
            raise InputError(
                f"lora_rank is {rank}, but the model has adapters of rank {layer.lora_rank}; leave "
                "lora_rank out to train these adapters."
            )
    if rank is not None and not layers:
        with model.distribute_strategy.scope():
            model.enable_lora(rank, seed=seed)
    yield


@contextlib.contextmanager
def frozen(model: Any, layers: int) -> Iterator[None]:
    """Freezes the embeddings and the lowest layers while the `with` block runs.

    Also freezes a pooler that the model does not use, because Keras would warn that its weights
    have no gradient.

    Args:
        model: a task with an encoder.
        layers: number of encoder layers to freeze. 0 freezes nothing, -1 only the embeddings.

    Raises:
        InputError: if the encoder has fewer layers, or all layers with LoRA adapters are frozen.
    """
    encoder = model.encoder
    if layers > len(encoder.encoder_layers):
        raise InputError(
            f"frozen_layers is {layers}, but the encoder has {len(encoder.encoder_layers)} layers "
            "with weights of their own; freeze fewer."
        )
    positions = (encoder.relative_positions, encoder.distance_bias)
    below = (encoder.embeddings, encoder.projection, *positions)
    parts = [] if layers == 0 else [*below, *encoder.encoder_layers[: max(layers, 0)]]
    if not reads_pooler(model):
        parts.append(encoder.pooler)
    parts = [part for part in parts if part is not None]
    before = [(part, part.trainable) for part in parts]
    # In a layer with an adapter, only some weights are trainable. `part.trainable` sets all.
    before += [(weight, weight.trainable) for part in parts for weight in part.weights]
    try:
        for part in parts:
            part.trainable = False
        adapters = [layer.lora_kernel_a for layer in adapted_layers(model)]
        if adapters and not any(factor.trainable for factor in adapters):
            raise InputError(
                f"frozen_layers is {layers}, so no layer with an adapter is trained; freeze fewer."
            )
        yield
    finally:
        for each, trainable in before:
            each.trainable = trainable
