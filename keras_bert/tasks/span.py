"""Where in a text the answer to a question stands."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead
from keras_bert.tasks.task import Task


@keras.saving.register_keras_serializable(package="keras_bert")
class SpanClassifier(Task):
    """An encoder that scores every token as start and as end of a span (BERT, section 4.2).

    Args:
        encoder: the encoder.
        dropout: rate before the linear layer.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.
    """

    def __init__(self, encoder: Encoder, *, dropout: float = 0.0, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        self.dropout = dropout
        self.head = self.part(ClassificationHead, 2, dropout, name="span")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "dropout": self.dropout}

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> dict[str, Any]:
        """The encoder's inputs to `start_logits` and `end_logits`, each `[B, T]` float32."""
        outputs = self.encoder(inputs, training=training)
        logits = self.head(outputs["sequence_output"], training=training)
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
