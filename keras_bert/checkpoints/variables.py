"""The names of a model's weights, whatever the user called the model."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_bert.layers.encoder import Encoder


def named_variables(model: keras.Model, variables: Iterable[Any] | None = None) -> dict[str, Any]:
    """Name to Keras variable, for every weight of an encoder or task.

    The encoder's weights are `encoder/…`, for instance `encoder/layer_0/attention/query/kernel`;
    those of a head begin with the head's name. Names are the same for an encoder on its own and
    inside any task.

    Args:
        model: an encoder, or a model with an attribute `encoder`.
        variables: those that are wanted; None means all of its weights.
    """
    encoder = model if isinstance(model, Encoder) else model.encoder
    # The embeddings may be another encoder's, and then have its name in their paths.
    stems = {id(weight): ("encoder", encoder.path) for weight in encoder.weights}
    for weight in encoder.embeddings.weights:
        stems[id(weight)] = ("encoder/embeddings", encoder.embeddings.path)
    names = {}
    for variable in model.weights if variables is None else variables:
        ours, theirs = stems.get(id(variable), ("", ""))
        names[ours + variable.path.removeprefix(theirs)] = variable
    return names


def saved_weights(model: keras.Model) -> dict[str, Any]:
    """Name to variable or array, for every weight as a checkpoint holds it.

    LoRA adapters (Hu et al. 2021, https://arxiv.org/abs/2106.09685) are added to the kernels that
    they adapt, so that a model without adapters computes the same. The model stays as it is.

    Args:
        model: as in `named_variables`.
    """
    adapted, merged = set(), {}
    for layer in model._flatten_layers():
        if getattr(layer, "lora_enabled", False):
            adapted |= {id(layer.lora_kernel_a), id(layer.lora_kernel_b)}
            merged[id(layer._kernel)] = layer.kernel
    return {
        name: merged.get(id(variable), variable)
        for name, variable in named_variables(model).items()
        if id(variable) not in adapted
    }
