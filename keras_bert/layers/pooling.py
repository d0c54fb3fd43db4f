"""From one vector per token to one vector per text."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError, closest
from keras_bert.layers.configured import Configured

POOLINGS = ("pooled", "first", "mean", "attention")


@keras.saving.register_keras_serializable(package="keras_bert")
class FirstTokenPooler(Configured, keras.layers.Layer):
    """tanh(W h + b) of the first token, `[CLS]`: the pooler that is part of BERT."""

    def build(self, input_shape: Any = None) -> None:
        """Makes the projection; the shape of the input does not matter."""
        self.projection = self.dense(self.config.hidden_size, "dense", activation="tanh")
        self.projection.build((None, self.config.hidden_size))

    def call(self, sequence_output: Any) -> Any:
        """`[B, T, H]` to `[B, H]`."""
        return self.projection(sequence_output[:, 0])


@keras.saving.register_keras_serializable(package="keras_bert")
class TextPooling(Configured, keras.layers.Layer):
    """The encoder's outputs to one vector per text.

    Args:
        config: the encoder's configuration.
        mode: "pooled" (the encoder's pooler), "first" (the first token as it is), "mean" (over
            the tokens that are not padding) or "attention" (mean weighted by softmax(w·h), Yang
            et al. 2016, https://aclanthology.org/N16-1174).

    Raises:
        InputError: if the mode is unknown, or "pooled" for an encoder without pooler.
    """

    def __init__(self, config: EncoderConfig, mode: str, **kwargs: Any):
        super().__init__(config, **kwargs)
        if mode not in POOLINGS:
            raise InputError(
                f"There is no pooling {mode!r}.{closest(mode, POOLINGS)}"
                f" Choose one of {', '.join(POOLINGS)}."
            )
        if mode == "pooled" and not config.pooler:
            raise InputError("This encoder has no pooler; choose pooling 'first' or 'mean'.")
        self.mode = mode

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "mode": self.mode}

    def build(self, input_shape: Any = None) -> None:
        """Makes the scoring vector if the mode needs one."""
        if self.mode == "attention":
            self.score = self.dense(1, "score", use_bias=False)
            self.score.build((None, None, self.config.hidden_size))

    def call(self, outputs: dict[str, Any], padding_mask: Any) -> Any:
        """The encoder's outputs and the int32 mask `[B, T]` to `[B, H]`."""
        x = outputs["sequence_output"]
        if self.mode == "pooled":
            return outputs["pooled_output"]
        if self.mode == "first":
            return x[:, 0]
        mask = ops.cast(ops.expand_dims(padding_mask, -1), "float32")  # [B, T, 1]
        if self.mode == "mean":
            weights = mask / ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)
        else:
            scores = ops.cast(self.score(x), "float32") + (1.0 - mask) * self.config.mask_value
            weights = ops.softmax(scores, axis=1)
        return ops.sum(x * ops.cast(weights, x.dtype), axis=1)
