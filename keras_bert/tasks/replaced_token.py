"""Replaced token detection, ELECTRA's objective."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ReplacedTokenHead
from keras_bert.tasks.task import Task


@keras.saving.register_keras_serializable(package="keras_bert")
class ReplacedTokenDetector(Task):
    """An encoder that predicts for every token whether it was replaced.

    This is the discriminator of ELECTRA (Clark et al. 2020, https://arxiv.org/abs/2003.10555).

    Args:
        encoder: the encoder.
        context: whether the head adds the first token to each token; see `ReplacedTokenHead`.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Example:
        >>> encoder = keras_bert.Encoder(keras_bert.EncoderConfig.preset("electra_small"))
        >>> ReplacedTokenDetector(encoder)({"token_ids": np.ones((2, 8), "int32")}).shape
        TensorShape([2, 8])
    """

    per_token = True
    arguments = ("context",)

    def __init__(self, encoder: Encoder, *, context: bool = False, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        self.context = context
        self.head = self.part(ReplacedTokenHead, context, name="replaced_token")

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns logits `[B, T]` float32; a positive logit means that the token was replaced."""
        outputs = self.encoder(inputs, training=training)
        documents = inputs.get("document_ids")
        return self.head(outputs["sequence_output"], documents, training=training)
