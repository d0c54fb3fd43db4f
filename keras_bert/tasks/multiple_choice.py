"""Which of several continuations fits."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead
from keras_bert.layers.pooling import TextPooling
from keras_bert.tasks.task import Task, padding_mask


@keras.saving.register_keras_serializable(package="keras_bert")
class MultipleChoice(Task):
    """An encoder that scores each of C choices by itself (BERT, section 4.4).

    What is scored is the pooler's output or, where the encoder has none, the first token's, with
    the head's dense layer if the configuration has a `classifier_activation`.

    Args:
        encoder: the encoder.
        dropout: rate before the linear layer; None means the encoder's `classifier_dropout`.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.
    """

    def __init__(self, encoder: Encoder, *, dropout: float | None = None, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        self.pooling, hidden = "first", self.config.classifier_activation
        if self.config.pooler:
            self.pooling, hidden = "pooled", ""
        self.text_pooling = self.part(TextPooling, self.pooling, name="pooling")
        self.head = self.part(ClassificationHead, 1, dropout, hidden, name="classifier")
        self.dropout = self.head.rate

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "dropout": self.dropout}

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """The encoder's inputs, each `[B, C, T]` int32, to logits `[B, C]` float32.

        Raises:
            InputError: if the token ids are not three-dimensional.
        """
        shape = inputs["token_ids"].shape
        if len(shape) != 3:
            raise InputError(
                f"The token_ids have the shape {list(shape)}, but must be [B, C, T]: texts, "
                "choices, tokens."
            )
        choices, length = ops.shape(inputs["token_ids"])[1:]
        flat = {name: ops.reshape(value, (-1, length)) for name, value in inputs.items()}
        outputs = self.encoder(flat, training=training)
        pooled = self.text_pooling(outputs, padding_mask(flat))
        return ops.reshape(self.head(pooled, training=training), (-1, choices))
