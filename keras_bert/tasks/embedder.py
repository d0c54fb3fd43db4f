"""Vectors of texts, near each other if the texts mean the same."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError, closest
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import TextPooling
from keras_bert.tasks.embedding_losses import (
    ContrastiveLoss,
    CosineSimilarityLoss,
    PairLabelLoss,
    pair_features,
    unit_length,
)
from keras_bert.tasks.task import Task, padding_mask, resolve_labels

LOSSES = {
    "contrastive": ContrastiveLoss,
    "cosine": CosineSimilarityLoss,
    "softmax": PairLabelLoss,
}
"""Losses by objective."""


@keras.saving.register_keras_serializable(package="keras_bert")
class TextEmbedder(Task):
    """An encoder with one vector per text: Sentence-BERT's bi-encoder.

    Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084.

    Args:
        encoder: the encoder.
        pooling: pooling of the tokens to one vector; see `TextPooling`.
        normalize: whether vectors are scaled to length 1, so that their inner product is their
            cosine; a vector of zeros stays one.
        objective: training objective. "contrastive" learns from pairs that belong together, or
            from a text with its own text and wrong texts; see `ContrastiveLoss`. "cosine" learns
            from pairs with scores; see `CosineSimilarityLoss`. "softmax" learns from pairs with
            labels, by a linear layer on [u, v, |u - v|] for training only; see `PairLabelLoss`.
        labels: labels of pairs, by id; only for "softmax".
        score_range: lowest and highest possible score, which become cosines of 0 and 1; only for
            "cosine".
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if the pooling or the objective is unknown, or arguments contradict each
            other.

    Example:
        >>> embedder = keras_bert.load("all-MiniLM-L6-v2", task="embedder")
        >>> embedder.similarity(["How old are you?"], ["What is your age?", "It rains."]).round(1)
        array([[0.8, 0.1]], dtype=float32)
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        pooling: str = "mean",
        normalize: bool = True,
        objective: str = "contrastive",
        labels: Sequence[str] | None = None,
        score_range: Sequence[float] = (0.0, 1.0),
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        if objective not in LOSSES:
            raise InputError(
                f"There is no objective {objective!r}.{closest(objective, LOSSES)} "
                f"Choose one of {', '.join(LOSSES)}."
            )
        if (objective == "softmax") != (labels is not None):
            raise InputError(
                f"The objective is {objective!r} and labels are {labels!r}, but labels are what "
                "'softmax' needs, and nothing else takes."
            )
        low, high = score_range
        if not low < high:
            raise InputError(f"score_range is {score_range!r}, but must be (low, high).")
        self.pooling = pooling
        self.normalize = normalize
        self.objective = objective
        self.labels = () if labels is None else resolve_labels(None, labels)
        self.score_range = (float(low), float(high))
        self.text_pooling = self.part(TextPooling, pooling, name="pooling")
        self.pair_classifier = None
        if self.labels:
            self.pair_classifier = keras.layers.Dense(
                len(self.labels), name="pair_classifier", dtype="float32"
            )
            self.pair_classifier.build((None, 3 * self.config.hidden_size))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "pooling": self.pooling,
            "normalize": self.normalize,
            "objective": self.objective,
            "labels": list(self.labels) or None,
            "score_range": list(self.score_range),
        }

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns vectors float32 of the encoder's inputs.

        The vectors of inputs `[B, T]` are `[B, H]`; of `[B, C, T]`, C texts that belong together,
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
        """Returns the objective's loss on vectors of groups `[B, C, H]`.

        Targets are numbers of the first texts, int32 `[B]`, for "contrastive"; scores from 0 to 1,
        float32 `[B]`, for "cosine"; ids of labels, int32 `[B]`, for "softmax".
        """
        return LOSSES[self.objective]()

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Returns the compiled loss; for "softmax", on `pair_logits`."""
        if self.pair_classifier is not None:
            y_pred = self.pair_logits(y_pred)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def pair_logits(self, vectors: Any) -> Any:
        """Returns a logit per label of a pair, `[B, L]` float32, of vectors `[B, 2, H]`."""
        return self.pair_classifier(pair_features(vectors))

    def encode(self, texts: Any, batch_size: int = 32) -> np.ndarray:
        """Returns the vectors float32 `[N, H]` of N texts. Texts of similar length share a batch.

        Args:
            texts: a list of N strings. A text with more tokens than the preprocessor's
                `sequence_length` is truncated.
            batch_size: texts per step.

        Raises:
            InputError: if the model has no preprocessor.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)  # a tuple is no pair here
        vectors = self.predict_rows(self.rows(texts), batch_size)
        return np.reshape(vectors, (-1, self.config.hidden_size)).astype("float32")

    def predict_text(self, texts: Any, batch_size: int = 32) -> list[dict[str, Any]]:
        """Returns vectors of texts, or cosines of pairs of texts.

        Args:
            texts: a list of N strings, or a tuple of two such lists for pairs.
            batch_size: texts per step.

        Returns:
            N dictionaries: `embedding`, a list of H numbers, for texts; `cosine` for pairs. If
            the model has learned labels of pairs, also `label` and `score`, its probability.

        Raises:
            InputError: if the model has no preprocessor, or the lists differ in length.
        """
        columns = texts if isinstance(texts, tuple) else (texts,)
        if len({len(column) for column in columns}) > 1:
            raise InputError(
                f"There are {' and '.join(str(len(column)) for column in columns)} texts, but "
                "pairs need as many second texts as first ones."
            )
        vectors = [self.encode(column, batch_size) for column in columns]
        return self.predictions(np.stack(vectors, axis=1))

    def predictions(self, vectors: np.ndarray) -> list[dict[str, Any]]:
        """Returns the dictionaries of `predict_text`; `cosines` if C of `[N, C, H]` is above 2."""
        if vectors.shape[1] == 1:
            return [{"embedding": vector.tolist()} for vector in vectors[:, 0]]
        cosines = self.cosines(vectors).tolist()
        if vectors.shape[1] > 2:
            return [{"cosines": row} for row in cosines]
        results: list[dict[str, Any]] = [{"cosine": row[0]} for row in cosines]
        if self.pair_classifier is not None:
            scores = ops.convert_to_numpy(ops.softmax(self.pair_logits(vectors)))
            for result, row in zip(results, scores, strict=True):
                best = int(row.argmax())
                result |= {"label": self.labels[best], "score": float(row[best])}
        return results

    def cosines(self, vectors: Any) -> np.ndarray:
        """Returns cosines of the first and each other of vectors `[N, C, H]`: `[N, C - 1]`."""
        unit = unit_length(vectors)
        return ops.convert_to_numpy(ops.sum(unit[:, :1] * unit[:, 1:], axis=-1))

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Returns the cosine of each of N texts with each of M texts: float32 `[N, M]`.

        Args:
            a: N strings, or their vectors `[N, H]`.
            b: M strings, or their vectors `[M, H]`.
        """
        a, b = (unit_length(x if getattr(x, "ndim", 1) == 2 else self.encode(x)) for x in (a, b))
        return ops.convert_to_numpy(ops.matmul(a, ops.transpose(b)))
