"""Classification of texts or pairs of texts."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.columns import is_strings, to_arrays, to_list
from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import ClassificationHead, TextPooling
from keras_bert.tasks.strings import label_ids
from keras_bert.tasks.task import TextTask, resolve_labels

PROBLEM_TYPES = ("single_label", "multi_label", "regression")


@keras.saving.register_keras_serializable(package="keras_bert")
class SequenceClassifier(TextTask):
    """An encoder with a linear layer on one vector per text (BERT, section 4.1).

    If the encoder's configuration has a `classifier_activation`, the head has a dense layer, unless
    `pooling` is "pooled" or "late". By default, a head with a dense layer takes the first token
    instead of the pooler's output, as in RoBERTa's code.

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
        **kwargs: `windows` and `max_windows`, for long texts, see `TextTask`; `preprocessor`,
            `name` and `dtype`, see `Task`.

    Raises:
        InputError: if `problem_type` or `pooling` is unknown, or the labels are not valid.

    Example:
        >>> encoder = keras_bert.Encoder(keras_bert.EncoderConfig.preset("bert_tiny"))
        >>> classifier = SequenceClassifier(encoder, labels=["no", "yes"])
        >>> classifier.compile("adam", classifier.default_loss())
        >>> classifier({"token_ids": np.ones((2, 8), "int32")}).shape
        TensorShape([2, 2])
    """

    arguments = (
        "num_labels",
        "labels",
        "problem_type",
        "pooling",
        "dropout",
        "windows",
        "max_windows",
    )

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
        if self.pooling in ("pooled", "late"):
            hidden = ""
        options = (self.num_labels, dropout, hidden, self.config.classifier_input_dropout)
        self.head = self.part(ClassificationHead, *options, name="classifier")
        self.dropout = self.head.rate

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns logits `[B, num_labels]` float32 of the encoder's inputs."""
        return self.head(self.vectors(inputs, training), training=training)

    def targets_of(self, y: Any) -> Any:
        """Returns targets for Keras, with ids in place of the names of labels.

        For "multi_label", lists of names become a row of 0 and 1 for each text.

        Raises:
            InputError: if a name or an id belongs to no label of the model.
        """
        if self.problem_type != "multi_label" or not is_strings(y):
            targets = super().targets_of(y)
            if self.problem_type == "single_label":
                _check_ids(targets, self.num_labels)
            return targets
        rows = np.zeros((len(y), self.num_labels), np.float32)
        for row, names in zip(rows, to_list(y), strict=True):
            if not isinstance(names, (list, tuple)):
                raise InputError(f"The target {names!r} must be a list of labels: [{names!r}].")
            row[label_ids(names, self.labels)] = 1
        return rows

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

    def predict_text(
        self, texts: Any, batch_size: int = 32, *, top_k: int | None = 1
    ) -> list[dict[str, Any]]:
        """Predicts labels or numbers of texts.

        Args:
            texts: a list of N strings, or a tuple of two such lists for pairs.
            batch_size: texts per step or, with `windows`, windows per step.
            top_k: number of labels in `scores`; None means all labels. With 1, "single_label" has
                no `scores`, and "multi_label" has the scores of all labels in the order of their
                ids.

        Returns:
            N dictionaries.
            "single_label": `label` and its probability, `score`. If `top_k` is not 1, also
            `scores`: the probabilities of the `top_k` best labels, the best label first.
            "multi_label": `scores`, the probability of every label, and `labels`, the list of the
            labels whose probability is 0.5 or more. If `top_k` is not 1, `scores` has the `top_k`
            best labels, the best label first.
            "regression": `score`, one number, or a list of `num_labels` numbers.

        Raises:
            InputError: if the model has no preprocessor, or `top_k` is unsuitable.

        Example:
            >>> classifier.predict_text(["a fine film"], top_k=None)
            [{'label': 'good', 'score': 0.98, 'scores': {'good': 0.98, 'bad': 0.02}}]
        """
        self.check_top_k(top_k)
        rows = self.rows(texts)
        self.warn_of_cut_texts(rows)
        return self.predictions(self.predict_rows(rows, batch_size), top_k)

    def check_top_k(self, top_k: int | None) -> None:
        """Checks the argument `top_k` of `predict_text`.

        Raises:
            InputError: if the number is not 1 or more, or the model predicts numbers and `top_k` is
                not 1.
        """
        if top_k is not None and (type(top_k) is not int or top_k < 1):
            raise InputError(f"top_k is {top_k!r}, but must be 1 or more, or None for all labels.")
        if top_k != 1 and self.problem_type == "regression":
            raise InputError(
                f"top_k is {top_k}, but this model predicts numbers and has no labels to rank; "
                "leave top_k at 1."
            )

    def predictions(
        self, logits: Sequence[np.ndarray], top_k: int | None = 1
    ) -> list[dict[str, Any]]:
        """Returns the dictionaries of `predict_text` from N rows' logits, each `[num_labels]`."""
        scores = ops.convert_to_numpy(self.scores(np.reshape(logits, (-1, self.num_labels))))
        return [self._prediction(row.tolist(), top_k) for row in scores]

    def _prediction(self, row: list[float], top_k: int | None) -> dict[str, Any]:
        if self.problem_type == "regression":
            return {"score": row[0] if self.num_labels == 1 else row}
        return prediction_of(self.labels, row, self.problem_type == "multi_label", top_k)


def _check_ids(targets: Any, count: int) -> None:
    # Negative ids are left to the loss, which may ignore them.
    ids = to_arrays(targets)
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iuf":
        return
    wrong = ids[~(ids < count)]  # also NaN
    if len(wrong):
        raise InputError(
            f"The target {wrong[0]} is not the id of a label. The model has the ids 0 to "
            f"{count - 1}; targets may also be the names of labels."
        )


def prediction_of(
    labels: Sequence[str], probabilities: Sequence[float], multi_label: bool, top_k: int | None
) -> dict[str, Any]:
    """Returns a dictionary of `SequenceClassifier.predict_text` from each label's probability."""
    scores = dict(zip(labels, probabilities, strict=True))
    ranked = dict(sorted(scores.items(), key=lambda item: -item[1])[:top_k])
    if multi_label:
        found = [label for label in scores if scores[label] >= 0.5]
        return {"labels": found, "scores": scores if top_k == 1 else ranked}
    label = next(iter(ranked))
    answer = {"label": label, "score": scores[label]}
    return answer if top_k == 1 else {**answer, "scores": ranked}


def zero_shot(
    model: Any,
    texts: str | Sequence[str],
    labels: Sequence[str],
    hypothesis: str = "This example is {}.",
    *,
    multi_label: bool = False,
    batch_size: int = 32,
) -> list[dict[str, Any]]:
    """Classifies texts with labels that the model was not trained on.

    The model decides whether a text entails a sentence about each label (Yin et al. 2019,
    https://arxiv.org/abs/1909.00161). The scores follow the formula of transformers'
    `ZeroShotClassificationPipeline`.

    Args:
        model: a `SequenceClassifier` with a preprocessor, trained on natural language inference.
            The label of entailment is found by its name, which begins with "entail".
        texts: N texts; a single text is a batch of one.
        labels: L different labels.
        hypothesis: sentence about a label, with "{}" in place of the label.
        multi_label: whether several labels, or none, may be right. If False, the scores are the
            softmax of all labels' logits of entailment, so they add up to 1. If True, or if there
            is only one label, a label's score is the softmax of its logits of entailment and
            contradiction. The label of contradiction begins with "contradict". If no label does,
            the model's first label is used, or the last label if the first means entailment.
        batch_size: pairs of a text and a label per step.

    Returns:
        N dictionaries as from `predict_text(top_k=None)`. If not `multi_label`: `label`, `score`
        and `scores`, the score of each label, the best label first. If `multi_label`: `labels`, the
        labels whose score is 0.5 or more, and `scores`.

    Raises:
        InputError: if the model has no label for entailment, fewer than two labels or no
            preprocessor; if the labels are not valid; or if the hypothesis has no "{}".

    Example:
        >>> zero_shot(model, "The goalkeeper was injured.", ["sports", "politics"])
        [{'label': 'sports', 'score': 0.98, 'scores': {'sports': 0.98, 'politics': 0.02}}]
    """
    entailment, contradiction = _inference_ids(model)
    if isinstance(labels, str):
        raise InputError(f"The labels are {labels!r}, but must be a list of strings.")
    names = resolve_labels(None, labels)
    if "{}" not in hypothesis:
        raise InputError(
            f"The hypothesis is {hypothesis!r}, but must have {{}} in place of the label."
        )
    texts = [texts] if isinstance(texts, str) else list(texts)
    hypotheses = [hypothesis.replace("{}", name) for name in names]
    pairs = ([text for text in texts for _ in names], hypotheses * len(texts))
    rows = model.rows(pairs)
    model.warn_of_cut_texts(rows)
    logits = np.reshape(model.predict_rows(rows, batch_size), (-1, len(names), model.num_labels))
    if multi_label or len(names) == 1:
        both = ops.softmax(logits[..., [contradiction, entailment]], axis=-1)
        scores = ops.convert_to_numpy(both)[..., 1]
    else:
        scores = ops.convert_to_numpy(ops.softmax(logits[..., entailment], axis=-1))
    return [prediction_of(names, row.tolist(), multi_label, None) for row in scores]


def _inference_ids(model: Any) -> tuple[int, int]:
    """Returns the ids of entailment and contradiction among the labels of a model.

    Raises:
        InputError: if the model is not a classifier with a label for entailment.
    """
    single = isinstance(model, SequenceClassifier) and model.problem_type == "single_label"
    if not single or model.num_labels < 2:
        raise InputError(
            f"A {type(model).__name__} cannot classify without training; give a SequenceClassifier "
            "that predicts one of two or more labels and was trained on natural language inference."
        )
    starts = ("entail", "contradict")
    ids: list[int | None] = [
        next((i for i, name in enumerate(model.labels) if name.lower().startswith(start)), None)
        for start in starts
    ]
    entailment, contradiction = ids
    if entailment is None:
        raise InputError(
            f"No label of the model begins with 'entail'; its labels are {list(model.labels)}. "
            "Give a model that was trained on natural language inference. If this model was, name "
            "its labels: keras_bert.load(path, labels=[...])."
        )
    if contradiction is None:
        contradiction = model.num_labels - 1 if entailment == 0 else 0
    return entailment, contradiction
