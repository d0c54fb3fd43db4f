"""Classification of texts or pairs of texts."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead, TextPooling
from keras_bert.tasks.task import Task, padding_mask, resolve_labels

PROBLEM_TYPES = ("single_label", "multi_label", "regression")


@keras.saving.register_keras_serializable(package="keras_bert")
class SequenceClassifier(Task):
    """An encoder with a linear layer on one vector per text (BERT, section 4.1).

    If the encoder's configuration has a `classifier_activation`, the head has a dense layer, unless
    `pooling` is "pooled". By default, a head with a dense layer takes the first token instead of
    the pooler's output, as in RoBERTa's code.

    Args:
        encoder: the encoder.
        num_labels: number of labels; may be left out if `labels` are given.
        labels: names of the labels, by id; default "0", "1", ...
        problem_type: "single_label" (softmax), "multi_label" (sigmoid per label) or
            "regression" (the logits are the values).
        pooling: mode of `TextPooling`, which makes one vector of the tokens. The default is
            "pooled", or "first" if the encoder has no pooler or has a `classifier_activation`.
        dropout: dropout rate before the linear layer; None means the encoder's
            `classifier_dropout`.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if `problem_type` or `pooling` is unknown, or the labels are not valid.

    Example:
        >>> encoder = keras_bert.Encoder(keras_bert.EncoderConfig.preset("bert_tiny"))
        >>> classifier = SequenceClassifier(encoder, labels=["no", "yes"])
        >>> classifier.compile("adam", classifier.default_loss())
        >>> classifier({"token_ids": np.ones((2, 8), "int32")}).shape
        TensorShape([2, 2])
    """

    arguments = ("num_labels", "labels", "problem_type", "pooling", "dropout")

    def __init__(
        self,
        encoder: Encoder,
        num_labels: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        problem_type: str = "single_label",
        pooling: str | None = None,
        dropout: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        if problem_type not in PROBLEM_TYPES:
            raise InputError(
                f"There is no problem_type {problem_type!r}; choose one of "
                f"{', '.join(PROBLEM_TYPES)}."
            )
        self.labels = resolve_labels(num_labels, labels)
        self.num_labels = len(self.labels)
        self.problem_type = problem_type
        hidden = self.config.classifier_activation
        self.pooling = pooling or ("pooled" if self.config.pooler and not hidden else "first")
        self.text_pooling = self.part(TextPooling, self.pooling, name="pooling")
        if self.pooling == "pooled":
            hidden = ""
        options = (self.num_labels, dropout, hidden, self.config.classifier_input_dropout)
        self.head = self.part(ClassificationHead, *options, name="classifier")
        self.dropout = self.head.rate

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns logits `[B, num_labels]` float32 of the encoder's inputs."""
        outputs = self.encoder(inputs, training=training)
        return self.head(self.text_pooling(outputs, padding_mask(inputs)), training=training)

    def default_loss(self) -> keras.losses.Loss:
        """Returns the usual loss on the logits.

        Targets are int32 `[B]` for "single_label", float32 `[B, num_labels]` for the others.
        """
        if self.problem_type == "single_label":
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        if self.problem_type == "multi_label":
            return keras.losses.BinaryCrossentropy(from_logits=True)
        return keras.losses.MeanSquaredError()

    def scores(self, logits: Any) -> Any:
        """Returns the probabilities of logits `[B, num_labels]`; for "regression", the logits."""
        if self.problem_type == "single_label":
            return ops.softmax(logits, axis=-1)
        return ops.sigmoid(logits) if self.problem_type == "multi_label" else logits

    def predict_text(self, texts: Any, batch_size: int = 32) -> list[dict[str, Any]]:
        """Predicts labels or numbers of texts.

        Args:
            texts: a list of N strings, or a tuple of two such lists for pairs.
            batch_size: texts per step.

        Returns:
            N dictionaries.
            "single_label": `label` and its probability, `score`.
            "multi_label": `scores`, the probability of every label, and `labels`, the list of the
            labels whose probability is 0.5 or more.
            "regression": `score`, one number, or a list of `num_labels` numbers.

        Raises:
            InputError: if the model has no preprocessor.
        """
        return self.predictions(self.predict_rows(self.rows(texts), batch_size))

    def predictions(self, logits: Sequence[np.ndarray]) -> list[dict[str, Any]]:
        """Returns the dictionaries of `predict_text` from N rows' logits, each `[num_labels]`."""
        scores = ops.convert_to_numpy(self.scores(np.reshape(logits, (-1, self.num_labels))))
        return [self._prediction(row.tolist()) for row in scores]

    def _prediction(self, row: list[float]) -> dict[str, Any]:
        if self.problem_type == "regression":
            return {"score": row[0] if self.num_labels == 1 else row}
        scores = dict(zip(self.labels, row, strict=True))
        if self.problem_type == "multi_label":
            return {"labels": [label for label in scores if scores[label] >= 0.5], "scores": scores}
        label = max(scores, key=scores.__getitem__)
        return {"label": label, "score": scores[label]}
