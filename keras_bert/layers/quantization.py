"""Quantized layers in configurations, so that Keras can load what `model.quantize` changed."""

import contextlib
import gc
from collections.abc import Iterable, Iterator
from typing import Any

import keras

KEY = "quantized"
"""Key in the configuration of an encoder or a task."""


def add_policies(config: dict[str, Any], layers: Iterable[Any]) -> dict[str, Any]:
    """Returns a model's configuration with the policies of its dense layers, if any is quantized.

    Args:
        config: the configuration.
        layers: the model's layers, without those that another configuration describes.
    """
    dense = _dense(layers)
    if all(layer.quantization_mode is None for layer in dense):
        return config
    policies = [layer.quantization_mode and layer.dtype_policy for layer in dense]
    return {
        **config,
        KEY: [policy and keras.dtype_policies.serialize(policy) for policy in policies],
    }


def without_policies(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration without what `add_policies` added, also to the encoder's."""
    config = {key: value for key, value in config.items() if key != KEY}
    if "encoder" in config:
        encoder = config["encoder"]
        config["encoder"] = {**encoder, "config": without_policies(encoder["config"])}
    return config


def quantize_layers(layers: Iterable[Any], policies: list[Any] | None) -> None:
    """Quantizes the dense layers of a new model as `add_policies` described them."""
    with without_collections():
        for layer, policy in zip(_dense(layers), policies, strict=True) if policies else ():
            if policy is not None:
                layer.dtype_policy = keras.dtype_policies.deserialize(policy)


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Makes garbage collections cheap: the collector skips objects that exist already.

    Keras 3.15 collects garbage each time a layer removes a weight. Without this context manager,
    quantizing a model would take a minute.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _dense(layers: Iterable[Any]) -> list[Any]:
    """Returns the dense layers, the only ones that Keras can quantize here."""
    return [layer for layer in layers if isinstance(layer, keras.layers.Dense)]
