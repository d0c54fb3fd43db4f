"""Token classification: a label for every token, and a tag for every word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from keras_bert.columns import not_a_text
from keras_bert.errors import InputError, closest
from keras_bert.layers.crf import IGNORED, ConditionalRandomField
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead
from keras_bert.tasks.entities import SCHEMES, allowed_transitions
from keras_bert.tasks.task import Task, resolve_labels
from keras_bert.tasks.windowed_words import entities_of, tag_words

if TYPE_CHECKING:
    from keras_bert.text.rows import Rows
    from keras_bert.text.words import Words


@keras.saving.register_keras_serializable(package="keras_bert")
class TokenClassifier(Task):
    """An encoder with a linear layer on every token (BERT, section 5.3).

    Args:
        encoder: the encoder.
        num_labels: number of labels; may be left out if `labels` are given.
        labels: names of the labels, by id; default "0", "1", ...
        crf: whether a linear-chain CRF chooses the tags of all words of a text together. The
            attribute `crf` is the `ConditionalRandomField`, or None.
        scheme: scheme of labels that mark entities, "iob1", "iob2" or "bioes". A CRF predicts
            only sequences that the scheme allows. None means that any label may follow any label.
        continue_labels: whether every token of a word has the word's label in fine-tuning. If the
            label is "B-PER", the later tokens have "I-PER". By default, and always with a CRF,
            only a word's first token has a label.
        dropout: dropout rate before the linear layer; None means the encoder's
            `classifier_dropout`.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if the arguments contradict each other.

    Example:
        >>> tagger = TokenClassifier(encoder, labels=["O", "B-PER", "I-PER"], crf=True)
        >>> tagger.preprocessor = preprocessor  # then train the model
        >>> tagger.predict_text(["Then Ada Lovelace came."])[0]["entities"]
        [{'label': 'PER', 'start': 5, 'end': 17, 'text': 'Ada Lovelace', 'score': 0.97}]
    """

    per_token = True

    def __init__(
        self,
        encoder: Encoder,
        num_labels: int | None = None,
        *,
        labels: Sequence[str] | None = None,
        crf: bool = False,
        scheme: str | None = None,
        continue_labels: bool = False,
        dropout: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        self.labels = resolve_labels(num_labels, labels)
        self.num_labels = len(self.labels)
        hidden = self.config.classifier_activation if self.config.prediction_head else ""
        self.head = self.part(
            ClassificationHead, self.num_labels, dropout, hidden, name="classifier"
        )
        self.dropout = self.head.rate
        if scheme not in (None, *SCHEMES):
            raise InputError(
                f"There is no scheme {scheme!r}.{closest(scheme, SCHEMES)} "
                f"Choose one of {', '.join(SCHEMES)}, or None."
            )
        self.scheme = scheme
        self.continue_labels = continue_labels
        self.crf = None
        if crf:
            allowed = allowed_transitions(self.labels, scheme)
            self.crf = ConditionalRandomField(self.num_labels, allowed, name="crf")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "labels": list(self.labels),
            "crf": self.crf is not None,
            "scheme": self.scheme,
            "continue_labels": self.continue_labels,
            "dropout": self.dropout,
        }

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns logits `[B, T, num_labels]` float32 of the encoder's inputs."""
        outputs = self.encoder(inputs, training=training)
        return self.head(outputs["sequence_output"], training=training)

    def default_loss(self) -> keras.losses.Loss | None:
        """Returns the usual loss on the logits, or None with a CRF, whose loss is built in.

        Targets are int32 `[B, T]`, `IGNORED` (-1) at tokens without a label.
        """
        if self.crf is not None:
            return None
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=IGNORED)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Returns the training loss; called by Keras.

        If the model has a CRF and `compile` was given no loss, the loss is the negative
        log-likelihood of a text's labels, averaged over the texts. `sample_weight` `[B]` weights
        the texts. `IGNORED` tokens are skipped.
        """
        if self.crf is None or self._compile_loss is not None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        return sum(self.losses, _CrfLoss(self.crf)(y, y_pred, sample_weight))

    def predict_text(self, texts: Sequence[str], batch_size: int = 32) -> list[dict[str, Any]]:
        """Finds entities in texts of any length.

        Args:
            texts: N texts.
            batch_size: windows of texts per step.

        Returns:
            N dictionaries. `entities` is a list of dictionaries, in the order of the text: `label`;
            `start` and `end`, positions of characters; `text`, the slice of the text between them;
            and `score`, the mean probability of the words' tags.

        Raises:
            InputError: if the texts are not strings, or the model has no preprocessor.
        """
        from keras_bert.text.words import split_words

        texts = _texts(texts)
        words = [split_words(text) for text in texts]
        tags, scores = self._predict(texts, words, batch_size)
        return [
            {"entities": entities_of(*each)}
            for each in zip(texts, words, tags, scores, strict=True)
        ]

    def predict_words(
        self, sentences: Sequence[Sequence[str]], batch_size: int = 32
    ) -> list[dict[str, Any]]:
        """Predicts tags of sentences that are split into words.

        Args:
            sentences: N lists of words.
            batch_size: windows of sentences per step.

        Returns:
            N dictionaries. `tags` has a label for each word ("O" for a word without tokens).
            `entities` are dictionaries as in `predict_text`; `start` and `end` are positions in the
            sentence's words joined with spaces. An entity also has `words`: the index of its first
            word, and the index of the word after its last.

        Raises:
            InputError: if the sentences are not lists of words, or the model has no preprocessor.
        """
        from keras_bert.text.words import spaced

        if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
            raise InputError("Sentences must be lists of words; for texts use predict_text.")
        joined = [spaced(_texts(words)) for words in sentences]
        texts, spans = [text for text, _ in joined], [places for _, places in joined]
        tags, scores = self._predict(texts, spans, batch_size)
        return [
            {"tags": own, "entities": entities_of(text, words, own, own_scores, number_words=True)}
            for text, words, own, own_scores in zip(texts, spans, tags, scores, strict=True)
        ]

    def _predict(
        self, texts: list[str], words: Sequence[Words], batch_size: int
    ) -> tuple[list[list[str]], list[np.ndarray]]:
        rows = self.rows(texts, overlap="auto", offsets=True)
        return self.tag_words(rows, words, self.predict_rows(rows, batch_size))

    def tag_words(
        self, rows: Rows, words: Sequence[Words], logits: Sequence[np.ndarray]
    ) -> tuple[list[list[str]], list[np.ndarray]]:
        """Calls `windowed_words.tag_words` with the model's labels and CRF."""
        return tag_words(rows, words, logits, self.labels, self.crf)


class _CrfLoss(keras.losses.Loss):
    """Negative log-likelihood of each text's labels; Keras weights and averages the values."""

    def __init__(self, crf: ConditionalRandomField):
        super().__init__(name="crf")
        self.crf = crf

    def call(self, y_true: Any, y_pred: Any) -> Any:
        tags = ops.cast(y_true, "int32")  # Keras has converted the targets to float32
        return -self.crf.log_likelihood(y_pred, tags, ops.not_equal(tags, IGNORED))


def _texts(texts: Any) -> list[str]:
    texts = [texts] if isinstance(texts, str) else list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise not_a_text(number, text)
    return texts
