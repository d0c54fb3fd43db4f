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
        preprocessor: texts to the encoder's inputs.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        preprocessor: Any = None,
        name: str = "masked_language_model",
        **kwargs: Any,
    ):
        super().__init__(encoder, preprocessor=preprocessor, name=name, **kwargs)
        self.head = MaskedLMHead(encoder.config, name="masked_lm", dtype=self.dtype_policy)
        self.build()

    def build(self, input_shape: Any = None) -> None:
        """Makes the head's weights; called by the constructor."""
        self.head.build()

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """The encoder's inputs to logits `[B, T, V]` float32.

        If the inputs hold `masked_positions` `[B, P]` int32: `[B, P, V]`, only those scored.
        """
        x = self.encoder(inputs, training=training)["sequence_output"]
        table = self.encoder.embeddings.token_embedding
        return self.head(x, table, inputs.get("masked_positions"))
