"""A label for every token."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead
from keras_bert.tasks.labels import label_names
from keras_bert.tasks.task import Task


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenClassifier(Task):
    """An encoder with a linear layer on every token (BERT, section 5.3).

    Args:
        encoder: the encoder.
        num_labels: number of labels; may be left out where `labels` are given.
        labels: the labels' names, by id; default "0", "1", ...
        dropout: rate before the linear layer; None means the encoder's `classifier_dropout`.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if the arguments contradict each other.
    """

    def __init__(
        self,
        encoder: Encoder,
        num_labels: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        dropout: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        self.labels = label_names(num_labels, labels)
        self.num_labels = len(self.labels)
        self.head = self.part(ClassificationHead, self.num_labels, dropout, name="classifier")
        self.dropout = self.head.rate

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "labels": list(self.labels),
            "dropout": self.dropout,
        }

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """The encoder's inputs to logits `[B, T, num_labels]` float32."""
        outputs = self.encoder(inputs, training=training)
        return self.head(outputs["sequence_output"], training=training)
