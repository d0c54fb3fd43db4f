"""Choice of one of several continuations."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead, TextPooling
from keras_bert.tasks.task import Task, padding_mask


@keras.saving.register_keras_serializable(package="keras_bert")
class MultipleChoice(Task):
    """An encoder that scores each of C choices separately (BERT, section 4.4).

    The head scores the pooler's output. If the encoder has no pooler, the head scores the first
    token, and has a dense layer if the configuration has a `classifier_activation`.

    Args:
        encoder: the encoder.
        dropout: dropout rate before the linear layer; None means the encoder's
            `classifier_dropout`.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Example:
        >>> encoder = keras_bert.Encoder(keras_bert.EncoderConfig.preset("bert_tiny"))
        >>> model = MultipleChoice(encoder)
        >>> model({"token_ids": np.ones((2, 3, 8), "int32")}).shape  # 2 texts with 3 choices each
        TensorShape([2, 3])
    """

    arguments = ("dropout",)
    ids_shape = (None, None, None)

    def __init__(self, encoder: Encoder, *, dropout: float | None = None, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        self.pooling, hidden = "first", self.config.classifier_activation
        if self.config.pooler:
            self.pooling, hidden = "pooled", ""
        self.text_pooling = self.part(TextPooling, self.pooling, name="pooling")
        self.head = self.part(ClassificationHead, 1, dropout, hidden, name="classifier")
        self.dropout = self.head.rate

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns logits `[B, C]` float32 for inputs `[B, C, T]` int32.

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
        pooled = self.text_pooling(outputs, padding_mask(flat), training=training)
        return ops.reshape(self.head(pooled, training=training), (-1, choices))

    def inputs_of_texts(self, columns: tuple[Any, ...]) -> dict[str, Any]:
        """Returns inputs `[B, C, T]` of a column of texts `[B]` and their choices `[B, C]`."""
        if len(columns) != 2:
            raise InputError("Give a tuple of the texts and a list of choices for each text.")
        from keras_bert.text.batches import grouped

        texts, choices = columns
        return grouped([texts[:, None], choices], super().inputs_of_texts)

    def inputs_of(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the inputs of `call` for rows `[B, T]`: each row is the only choice of a text."""
        return {name: values[:, np.newaxis] for name, values in batch.items()}

    def default_loss(self) -> keras.losses.Loss:
        """Returns the usual loss on the logits; targets are indices of choices, int32 `[B]`."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def predict_text(
        self, texts: tuple[Sequence[str], Sequence[Sequence[str]]], batch_size: int = 32
    ) -> list[dict[str, Any]]:
        """Chooses the continuation of each text.

        Args:
            texts: a tuple of two lists: N texts, and for each text a list of choices.
            batch_size: pairs of text and choice per step.

        Returns:
            N dictionaries: `choice`, the index of the best choice, `text`, its text, and
            `scores`, the probability of each choice.

        Raises:
            InputError: if the texts are not such a tuple, a text has no choices, or the model has
                no preprocessor.
        """
        contexts, choices = _choices(texts)
        firsts = [text for text, own in zip(contexts, choices, strict=True) for _ in own]
        rows = self.rows((firsts, [choice for own in choices for choice in own]))
        self.warn_of_cut_texts(rows)
        return self.predictions(choices, self.predict_rows(rows, batch_size))

    def predictions(
        self, choices: Sequence[Sequence[str]], logits: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Returns the dictionaries of `predict_text` from a logit `[1]` for each choice."""
        scores = iter(np.reshape(logits, -1).tolist())
        predictions = []
        for own in choices:
            row = np.array([next(scores) for _ in own])
            weights = np.exp(row - row.max())
            best = int(row.argmax())
            probabilities = (weights / weights.sum()).tolist()
            predictions.append({"choice": best, "text": own[best], "scores": probabilities})
        return predictions


def _choices(texts: Any) -> tuple[list[str], list[list[str]]]:
    if not isinstance(texts, tuple) or len(texts) != 2:
        raise InputError(
            "Give a tuple of two lists, the texts and a list of choices for each text: "
            "model.predict_text((texts, choices))."
        )
    contexts, choices = ([part] if isinstance(part, str) else list(part) for part in texts)
    if len(contexts) != len(choices):
        raise InputError(
            f"{len(contexts)} texts have {len(choices)} lists of choices; give one list for each "
            "text."
        )
    for number, own in enumerate(choices):
        if isinstance(own, str) or not len(own):
            raise InputError(
                f"The choices of text {number} are {own!r}, but must be a list of one or more."
            )
    return contexts, [list(own) for own in choices]
