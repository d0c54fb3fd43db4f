"""Which token stands behind a mask."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import MaskedLMHead
from keras_bert.tasks.task import Task


@keras.saving.register_keras_serializable(package="keras_bert")
class MaskedLanguageModel(Task):
    """An encoder with the masked language model head of BERT (section 3.1, task 1).

    Args:
        encoder: the encoder, whose token embedding is also the output matrix.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.
    """

    def __init__(self, encoder: Encoder, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        self.head = self.part(MaskedLMHead, name="masked_lm")

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """The encoder's inputs to logits `[B, T, V]` float32.

        If the inputs hold `masked_positions` `[B, P]` int32: `[B, P, V]`, only those scored.
        """
        x = self.encoder(inputs, training=training)["sequence_output"]
        table = self.encoder.embeddings.token_embedding
        return self.head(x, table, inputs.get("masked_positions"))
