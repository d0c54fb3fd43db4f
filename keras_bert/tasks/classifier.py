"""Texts, or pairs of texts, to labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead
from keras_bert.layers.pooling import TextPooling
from keras_bert.tasks.task import Task, padding_mask

PROBLEM_TYPES = ("single_label", "multi_label", "regression")


@keras.saving.register_keras_serializable(package="keras_bert")
class SequenceClassifier(Task):
    """An encoder with a linear layer on one vector per text (BERT, section 4.1).

    Args:
        encoder: the encoder.
        num_labels: number of labels; may be left out where `labels` are given.
        labels: the labels' names, by id; default "0", "1", ...
        problem_type: "single_label" (softmax), "multi_label" (sigmoid per label) or
            "regression" (the logits are the values).
        pooling: how tokens become one vector; see `TextPooling`. Default: the encoder's pooler,
            or the first token where there is none.
        dropout: rate before the linear layer; None means the encoder's `hidden_dropout`.
        preprocessor: texts to the encoder's inputs, for `predict_text` and exports.

    Raises:
        InputError: if the arguments contradict each other or are unknown.

    Example:
        >>> encoder = keras_bert.Encoder(keras_bert.EncoderConfig.preset("bert_tiny"))
        >>> classifier = SequenceClassifier(encoder, labels=["no", "yes"])
        >>> classifier.compile("adam", classifier.default_loss())
        >>> classifier({"token_ids": np.ones((2, 8), "int32")}).shape
        (2, 2)
    """

    def __init__(
        self,
        encoder: Encoder,
        num_labels: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        problem_type: str = "single_label",
        pooling: str | None = None,
        dropout: float | None = None,
        preprocessor: Any = None,
        name: str = "sequence_classifier",
        **kwargs: Any,
    ):
        super().__init__(encoder, preprocessor=preprocessor, name=name, **kwargs)
        if problem_type not in PROBLEM_TYPES:
            raise InputError(
                f"There is no problem_type {problem_type!r}; it is one of "
                f"{', '.join(PROBLEM_TYPES)}."
            )
        self.num_labels, self.labels = _labels(num_labels, labels)
        self.problem_type = problem_type
        self.pooling = pooling or ("pooled" if encoder.config.pooler else "first")
        self.text_pooling = TextPooling(
            encoder.config, self.pooling, name="pooling", dtype=self.dtype_policy
        )
        self.head = ClassificationHead(
            encoder.config, self.num_labels, dropout, name="classifier", dtype=self.dtype_policy
        )
        self.dropout = self.head.rate
        self.build()

    def build(self, input_shape: Any = None) -> None:
        """Makes the head's weights; called by the constructor."""
        self.text_pooling.build()
        self.head.build()

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "labels": list(self.labels),
            "problem_type": self.problem_type,
            "pooling": self.pooling,
            "dropout": self.dropout,
        }

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """The encoder's inputs to logits `[B, num_labels]` float32."""
        outputs = self.encoder(inputs, training=training)
        return self.head(self.text_pooling(outputs, padding_mask(inputs)), training=training)

    def default_loss(self) -> keras.losses.Loss:
        """The usual loss on the logits.

        Targets are int32 `[B]` for "single_label", float32 `[B, num_labels]` for the others.
        """
        if self.problem_type == "single_label":
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        if self.problem_type == "multi_label":
            return keras.losses.BinaryCrossentropy(from_logits=True)
        return keras.losses.MeanSquaredError()

    def scores(self, logits: Any) -> Any:
        """Logits `[B, num_labels]` to probabilities, or to themselves for a regression."""
        if self.problem_type == "single_label":
            return keras.ops.softmax(logits, axis=-1)
        return keras.ops.sigmoid(logits) if self.problem_type == "multi_label" else logits

    def predict_text(self, texts: Any, batch_size: int = 32) -> list[dict[str, Any]]:
        """Labels texts.

        Args:
            texts: a list of N strings, or a tuple of two such lists for pairs.
            batch_size: texts per step.

        Returns:
            N dictionaries: `label` and `score` (its probability) for "single_label"; `labels`
            (those of probability 0.5 or more) and `scores` (all, by label) for "multi_label";
            `score` (one value, or a list of `num_labels`) for "regression".

        Raises:
            InputError: if the model has no preprocessor.
        """
        scores = np.asarray(self.scores(self.predict_texts(texts, batch_size)))
        return [self._prediction(row.tolist()) for row in scores]

    def _prediction(self, row: list[float]) -> dict[str, Any]:
        if self.problem_type == "regression":
            return {"score": row[0] if self.num_labels == 1 else row}
        scores = dict(zip(self.labels, row, strict=True))
        if self.problem_type == "multi_label":
            return {"labels": [label for label in scores if scores[label] >= 0.5], "scores": scores}
        label = max(scores, key=scores.__getitem__)
        return {"label": label, "score": scores[label]}


def _labels(num_labels: int | None, labels: Sequence[str] | None) -> tuple[int, tuple[str, ...]]:
    """Number and names of the labels, from either or both."""
    if labels is None:
        if not isinstance(num_labels, int) or num_labels < 1:
            raise InputError(f"num_labels is {num_labels!r}, but must be 1 or more.")
        return num_labels, tuple(str(index) for index in range(num_labels))
    names = tuple(labels)
    if num_labels not in (None, len(names)):
        raise InputError(f"num_labels is {num_labels}, but {len(names)} labels are named.")
    if not names or len(set(names)) != len(names):
        raise InputError(f"The labels {list(names)} must be one or more different names.")
    return len(names), names
