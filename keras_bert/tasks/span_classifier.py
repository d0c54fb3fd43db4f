"""Question answering: the span of a context that answers a question."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead
from keras_bert.tasks.answers import MAX_ANSWER_TOKENS, N_BEST, candidates_of, choose
from keras_bert.tasks.task import Task


@keras.saving.register_keras_serializable(package="keras_bert")
class SpanClassifier(Task):
    """An encoder that scores every token as start and as end of a span (BERT, section 4.2).

    Args:
        encoder: the encoder.
        dropout: dropout rate before the linear layer.
        null_threshold: a question has no answer if the score of `[CLS]` as start and end exceeds
            the best answer's score by more than this number (SQuAD 2.0). None means that every
            question has an answer (SQuAD 1.1).
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Example:
        >>> model = keras_bert.load("squad-model", task="span_classifier")
        >>> model.predict_text((["Who?"], ["It was Ada."]))
        [{'answer': 'Ada', 'start': 7, 'end': 10, 'score': 0.93}]
    """

    per_token = True
    arguments = ("dropout", "null_threshold")

    def __init__(
        self,
        encoder: Encoder,
        *,
        dropout: float = 0.0,
        null_threshold: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        self.dropout = dropout
        self.null_threshold = null_threshold
        hidden = self.config.classifier_activation if self.config.prediction_head else ""
        self.head = self.part(ClassificationHead, 2, dropout, hidden, name="span")

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> dict[str, Any]:
        """Returns `start_logits` and `end_logits`, each `[B, T]` float32."""
        outputs = self.encoder(inputs, training=training)
        logits = self.head(outputs["sequence_output"], training=training)
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def default_loss(self) -> dict[str, keras.losses.Loss]:
        """Returns the losses of start and end; targets are positions of tokens, int32 `[B]` each.

        Keras adds the two losses. Each loss is half of a cross-entropy, so the sum is the mean of
        both cross-entropies, as in BERT's `run_squad.py`. If a question has no answer, both
        positions are 0, the position of `[CLS]`.
        """
        return {name: HalfCrossentropy(from_logits=True) for name in ("start_logits", "end_logits")}

    def predict_text(
        self,
        texts: tuple[Sequence[str], Sequence[str]],
        batch_size: int = 32,
        *,
        n_best: int = 1,
        max_answer_tokens: int = MAX_ANSWER_TOKENS,
    ) -> list[dict[str, Any]]:
        """Answers questions; a context may be of any length.

        Args:
            texts: a tuple of N questions and the N contexts that may answer them.
            batch_size: windows of contexts per step.
            n_best: number of answers to return for each question.
            max_answer_tokens: largest number of tokens in an answer.

        Returns:
            N dictionaries: `answer`, which is `context[start:end]`; `start` and `end`; and `score`,
            the answer's probability among the best candidates. If there is no answer, `answer` is
            "", and `start` and `end` are 0. With a `null_threshold`, there is also
            `null_difference`: the score of "no answer" minus the best answer's score. If the
            argument `n_best` is above 1, the key `n_best` holds the list of answers.

        Raises:
            InputError: if `texts` is not such a tuple, an argument is out of its range, or the
                model has no preprocessor.
        """
        questions, contexts = _pairs(texts)
        for name, value in (("n_best", n_best), ("max_answer_tokens", max_answer_tokens)):
            if value < 1:
                raise InputError(f"{name} is {value}, but must be 1 or more.")
        rows = self.rows((questions, contexts), overlap="auto", offsets=True)
        outputs = self.predict_rows(rows, batch_size)
        kept = max(N_BEST, n_best)
        return [
            choose(candidates, self.null_threshold, n_best)
            for candidates in candidates_of(rows, outputs, contexts, kept, max_answer_tokens)
        ]


@keras.saving.register_keras_serializable(package="keras_bert")
class HalfCrossentropy(keras.losses.SparseCategoricalCrossentropy):
    """Half of the cross-entropy: the sum of two such losses is the mean of two cross-entropies."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns losses `[B]` of positions `[B]` and logits `[B, T]`."""
        return super().call(y_true, y_pred) / 2


def _pairs(texts: Any) -> list[list[str]]:
    if not isinstance(texts, tuple) or len(texts) != 2:
        raise InputError(
            "Give a tuple of two lists, the questions and the contexts: "
            "model.predict_text((questions, contexts))."
        )
    return [[part] if isinstance(part, str) else list(part) for part in texts]
