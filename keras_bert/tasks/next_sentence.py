"""Next sentence prediction: whether the second text follows the first."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead
from keras_bert.tasks.task import Task, check_pooler


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
