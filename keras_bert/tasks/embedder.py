"""Texts to vectors that are near each other where the texts mean the like."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.layers.encoder import Encoder
from keras_bert.layers.pooling import TextPooling
from keras_bert.tasks.embedding_losses import ContrastiveLoss, unit_length
from keras_bert.tasks.task import Task, padding_mask


@keras.saving.register_keras_serializable(package="keras_bert")
class TextEmbedder(Task):
    """An encoder whose tokens become one vector per text: Sentence-BERT's bi-encoder.

    Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084.

    Args:
        encoder: the encoder.
        pooling: how tokens become one vector; see `TextPooling`.
        normalize: whether vectors are scaled to length 1, so that their inner product is their
            cosine; a vector of zeros stays one.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if the pooling is unknown, or the encoder lacks what it needs.

    Example:
        >>> embedder = keras_bert.load("all-MiniLM-L6-v2", task="embedder")
        >>> embedder.similarity(["How old are you?"], ["What is your age?", "It rains."]).round(1)
        array([[0.8, 0.1]], dtype=float32)
    """

    def __init__(
        self, encoder: Encoder, *, pooling: str = "mean", normalize: bool = True, **kwargs: Any
    ):
        super().__init__(encoder, **kwargs)
        self.pooling = pooling
        self.normalize = normalize
        self.text_pooling = self.part(TextPooling, pooling, name="pooling")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "pooling": self.pooling, "normalize": self.normalize}

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """The encoder's inputs to vectors float32.

        `[B, T]` int32 each becomes `[B, H]`; `[B, C, T]`, C texts that belong together, becomes
        `[B, C, H]`.
        """
        grouped = len(inputs["token_ids"].shape) == 3
        flat = inputs
        if grouped:
            texts, length = ops.shape(inputs["token_ids"])[1:]
            flat = {name: ops.reshape(value, (-1, length)) for name, value in inputs.items()}
        outputs = self.encoder(flat, training=training)
        x = ops.cast(self.text_pooling(outputs, padding_mask(flat)), "float32")
        if self.normalize:
            x = unit_length(x)
        return ops.reshape(x, (-1, texts, self.config.hidden_size)) if grouped else x

    def default_loss(self) -> keras.losses.Loss:
        """The loss for pairs of texts without further labels; see `ContrastiveLoss`.

        For pairs with scores there is `CosineSimilarityLoss`, for pairs with classes
        `PairClassifier`.
        """
        return ContrastiveLoss()

    def encode(self, texts: Any, batch_size: int = 32) -> np.ndarray:
        """The vectors float32 `[N, H]` of N texts; texts of like length share a batch.

        Args:
            texts: a list of N strings; a longer text than the preprocessor's `sequence_length`
                is cut.
            batch_size: texts per step.

        Raises:
            InputError: if the model has no preprocessor.
        """
        if len(texts) == 0:
            return np.zeros((0, self.config.hidden_size), "float32")
        return self.predict_texts(texts, batch_size)

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """The cosine of each of N texts with each of M texts: float32 `[N, M]`.

        Args:
            a: N strings, or their vectors `[N, H]`.
            b: M strings, or their vectors `[M, H]`.
        """
        a, b = (x if isinstance(x, np.ndarray) and x.ndim == 2 else self.encode(x) for x in (a, b))
        return ops.convert_to_numpy(ops.matmul(unit_length(a), ops.transpose(unit_length(b))))
