"""Tasks of BERT's pretraining: masked tokens with next sentence, and next sentence alone."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead, MaskedLMHead
from keras_bert.tasks.task import Task, check_pooler


@keras.saving.register_keras_serializable(package="keras_bert")
class PretrainingModel(Task):
    """An encoder with the masked language model and next sentence heads (BERT, section 3.1).

    Args:
        encoder: an encoder with a pooler.
        tied: whether the output matrix is the token embedding.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if the encoder has no pooler.

    Example:
        >>> encoder = keras_bert.Encoder(keras_bert.EncoderConfig.preset("bert_tiny"))
        >>> outputs = PretrainingModel(encoder)({"token_ids": np.ones((2, 8), "int32")})
        >>> outputs["mlm_logits"].shape, outputs["nsp_logits"].shape
        (TensorShape([2, 8, 30522]), TensorShape([2, 2]))
    """

    per_token = True
    reads_special_tokens = True
    arguments = ("tied",)
    pooling = "pooled"

    def __init__(self, encoder: Encoder, *, tied: bool = True, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        check_pooler(encoder, type(self).__name__)
        self.tied = tied
        self.masked_lm = self.part(MaskedLMHead, tied, name="masked_lm")
        # As in BERT's code, there is no dropout between the pooler and these logits.
        self.next_sentence = self.part(
            ClassificationHead, 2, 0.0, name="next_sentence", per_token=False
        )

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> dict[str, Any]:
        """Returns the logits of both heads, float32.

        Args:
            inputs: the encoder's inputs. `masked_positions` `[B, P]` int32 selects the positions to
                score. Without `masked_positions`, all positions are scored.

        Returns:
            `mlm_logits` `[B, P, V]` (or `[B, T, V]`) and `nsp_logits` `[B, 2]`. Class 0 means that
            the second text follows the first, class 1 that it is a random text.
        """
        outputs = self.encoder(inputs, training=training)
        table = self.encoder.embeddings.token_embedding
        positions = inputs.get("masked_positions")
        return {
            "mlm_logits": self.masked_lm(
                outputs["sequence_output"], table, positions, training=training
            ),
            "nsp_logits": self.next_sentence(outputs["pooled_output"], training=training),
        }


@keras.saving.register_keras_serializable(package="keras_bert")
class NextSentencePredictor(Task):
    """An encoder with the next sentence head of BERT (section 3.1, task 2).

    Args:
        encoder: an encoder with a pooler.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if the encoder has no pooler.

    Example:
        >>> encoder = keras_bert.Encoder(keras_bert.EncoderConfig.preset("bert_tiny"))
        >>> NextSentencePredictor(encoder)({"token_ids": np.ones((2, 8), "int32")}).shape
        TensorShape([2, 2])
    """

    pooling = "pooled"

    def __init__(self, encoder: Encoder, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        check_pooler(encoder, type(self).__name__)
        self.head = self.part(ClassificationHead, 2, 0.0, name="next_sentence")

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns logits `[B, 2]` float32 for the encoder's inputs.

        Class 0 means that the second text follows the first, class 1 that it does not.
        """
        outputs = self.encoder(inputs, training=training)
        return self.head(outputs["pooled_output"], training=training)
