"""What every layer that is described by an `EncoderConfig` shares."""

from typing import Any

import keras

from keras_bert.config import EncoderConfig


class Configured:
    """Mixin for Keras layers and models whose constructor takes an `EncoderConfig`.

    Args:
        config: the configuration of the encoder that the layer belongs to.
        **kwargs: `name`, `dtype` and `trainable`, as in every Keras layer.
    """

    dtype_policy: Any

    def __init__(self, config: EncoderConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = config

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The inverse of `get_config`."""
        values = dict(config)
        return cls(EncoderConfig.from_dict(values.pop("config")), **values)

    def dense(self, units: int, name: str, **kwargs: Any) -> keras.layers.Dense:
        """A dense layer with the configured initializer."""
        return keras.layers.Dense(
            units,
            kernel_initializer=self.initializer(),
            name=name,
            dtype=self.dtype_policy,
            **kwargs,
        )

    def layer_norm(self, name: str) -> keras.layers.LayerNormalization:
        """A layer normalization with the configured epsilon."""
        return keras.layers.LayerNormalization(
            epsilon=self.config.layer_norm_epsilon, name=name, dtype=self.dtype_policy
        )

    def dropout(self, rate: float, name: str) -> keras.layers.Dropout:
        """A dropout that follows the layer's precision."""
        return keras.layers.Dropout(rate, name=name, dtype=self.dtype_policy)

    def initializer(self) -> keras.initializers.Initializer:
        """Truncated normal of the configured deviation, as in BERT."""
        return keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)
