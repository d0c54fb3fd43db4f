"""Text embeddings: vectors that are near each other if the texts mean the same."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError, closest
from keras_bert.layers.configured import ACTIVATION_FUNCTIONS
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.fused import project
from keras_bert.layers.heads import TextPooling
from keras_bert.tasks.embedding_losses import (
    ContrastiveLoss,
    CosineSimilarityLoss,
    PairLabelLoss,
    pair_features,
    unit_length,
)
from keras_bert.tasks.task import TextTask, resolve_labels

LOSSES = {
    "contrastive": ContrastiveLoss,
    "cosine": CosineSimilarityLoss,
    "softmax": PairLabelLoss,
}
"""Loss class of each objective."""
PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
"""Types of the vectors that `TextEmbedder.encode` returns."""
_FEW = 100  # sentence-transformers warns below this number of vectors, too

logger = logging.getLogger(__name__)


@keras.saving.register_keras_serializable(package="keras_bert")
class TextEmbedder(TextTask):
    """An encoder that turns each text into one vector: Sentence-BERT's bi-encoder.

    Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084.

    Args:
        encoder: the encoder.
        pooling: mode of `TextPooling`, which makes one vector of the tokens.
        projections: dense layers on this vector, in their order. Each is a dictionary with
            arguments of `keras.layers.Dense`: `units` and, optionally, `activation` ("linear" by
            default, "gelu", "gelu_tanh", "relu", "silu" or "tanh") and `use_bias` (True by
            default). The last one's `units` is the size D of the model's vectors. Without
            projections, D is the encoder's hidden size H.
        normalize: whether vectors are scaled to length 1, so that their inner product is their
            cosine. A vector of zeros stays zero.
        objective: training objective:
            "contrastive" learns from pairs of texts that belong together, with or without wrong
            texts for the first text; see `ContrastiveLoss`.
            "cosine" learns from pairs with a similarity score; see `CosineSimilarityLoss`.
            "softmax" learns from pairs with a label; see `PairLabelLoss`. A linear layer on
            [u, v, |u - v|], made from a pair's vectors u and v, predicts the label.
        labels: names of the pairs' labels, by id; only for "softmax".
        prompts: texts to put before each text, by name. `encode_query` uses "query".
            `encode_document` uses the first that exists of "document", "passage" and "corpus".
        default_prompt: name of the prompt that `encode` uses; None means no prompt.
        score_range: lowest and highest possible similarity score; only for "cosine". Fine-tuning
            scales scores linearly: the lowest becomes a cosine of 0, the highest a cosine of 1.
        **kwargs: `windows` and `max_windows`, for long texts, see `TextTask`; `preprocessor`,
            `name` and `dtype`, see `Task`.

    Raises:
        InputError: if the pooling or the objective is unknown, a projection is not valid, or
            arguments contradict each other.

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
        projections: Sequence[Mapping[str, Any]] = (),
        normalize: bool = True,
        objective: str = "contrastive",
        labels: Sequence[str] | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
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
                f"The objective is {objective!r} and labels are {labels!r}, but the objective "
                "'softmax' needs labels, and the others must not have any."
            )
        low, high = score_range
        if not low < high:
            raise InputError(f"score_range is {score_range!r}, but low must be below high.")
        self.prompts = dict(prompts or {})
        self.default_prompt = default_prompt
        self._prompt(default_prompt)  # checks the name
        self.pooling = pooling
        self.projections = [_projection(each) for each in projections]
        self.normalize = normalize
        self.objective = objective
        self.labels = () if labels is None else resolve_labels(None, labels)
        self.score_range = (float(low), float(high))
        self.text_pooling = self.part(TextPooling, pooling, name="pooling")
        self.projection_layers = []
        self.vector_size = self.config.hidden_size
        for index, arguments in enumerate(self.projections):
            activation = ACTIVATION_FUNCTIONS.get(arguments["activation"])  # None is "linear"
            options = {**arguments, "activation": activation, "name": f"projection_{index}"}
            layer = self.keras_layer(keras.layers.Dense, **options)
            layer.build((None, self.vector_size))
            self.projection_layers.append(layer)
            self.vector_size = layer.units
        self.pair_classifier = None
        if self.labels:
            self.pair_classifier = self.keras_layer(
                keras.layers.Dense, len(self.labels), name="pair_classifier", dtype="float32"
            )
            self.pair_classifier.build((None, 3 * self.vector_size))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "pooling": self.pooling,
            "projections": [dict(each) for each in self.projections],
            "normalize": self.normalize,
            "objective": self.objective,
            "labels": list(self.labels) or None,
            "prompts": self.prompts,
            "default_prompt": self.default_prompt,
            "score_range": list(self.score_range),
            "windows": self.windows,
            "max_windows": self.max_windows,
        }

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns one float32 vector for each text.

        If the inputs are `[B, T]`, the vectors are `[B, D]`. If the inputs are groups of C texts,
        `[B, C, T]`, the vectors are `[B, C, D]`.
        """
        grouped = len(inputs["token_ids"].shape) == 3
        flat = inputs
        if grouped:
            texts, length = ops.shape(inputs["token_ids"])[1:]
            flat = {name: ops.reshape(value, (-1, length)) for name, value in inputs.items()}
        x = self.vectors(flat, training)
        for layer in self.projection_layers:
            x = project(layer, x, training)
        x = ops.cast(x, "float32")
        if self.normalize:
            x = unit_length(x)
        return ops.reshape(x, (-1, texts, self.vector_size)) if grouped else x

    def inputs_of_texts(self, columns: tuple[Any, ...]) -> dict[str, Any]:
        """Returns inputs `[B, T]` of one column of texts, or `[B, C, T]` of C columns."""
        if len(columns) == 1:
            return super().inputs_of_texts(columns)
        from keras_bert.text.batches import grouped

        return grouped([ops.stack(columns, axis=1)], super().inputs_of_texts)

    def default_loss(self) -> keras.losses.Loss:
        """Returns the objective's loss on vectors of groups `[B, C, D]`.

        Targets for "contrastive" are numbers of the anchors, int32 `[B]`; see `ContrastiveLoss`.
        Targets for "cosine" are scores from 0 to 1, float32 `[B]`. Targets for "softmax" are label
        ids, int32 `[B]`.
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
        """Returns the compiled loss. For "softmax", the loss gets `pair_logits` of the vectors."""
        if self.pair_classifier is not None:
            y_pred = self.pair_logits(y_pred)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def pair_logits(self, vectors: Any) -> Any:
        """Returns the label logits `[B, L]` float32 of pairs of vectors `[B, 2, D]`."""
        return self.pair_classifier(pair_features(vectors))

    def encode(
        self,
        texts: Any,
        batch_size: int = 32,
        *,
        prompt: str | None = None,
        dimensions: int | None = None,
        precision: str = "float32",
        ranges: Any = None,
    ) -> np.ndarray:
        """Returns the vectors `[N, D]` of N texts. Texts of similar length share a batch.

        Args:
            texts: a list of N strings. A text of more than `text_length` tokens is cut, and a
                warning gives the number of cut texts.
            batch_size: texts per step or, with `windows`, windows per step.
            prompt: name of one of `prompts`; None means `default_prompt`.
            dimensions: number of entries to keep, the first ones, for models whose training
                allows it (Kusupati et al. 2022, https://arxiv.org/abs/2205.13147). If the model
                normalizes, the shorter vectors have length 1.
            precision: "float32", or a smaller type as in `quantize_vectors`: "int8", "uint8",
                "binary" or "ubinary". The last two pack 8 entries into one.
            ranges: lowest and highest value of each entry, `[2, D]`, for "int8" and "uint8". Give
                equal ranges for texts and queries. By default, the ranges of these vectors.

        Raises:
            InputError: if the model has no preprocessor or no such prompt, `dimensions` is not
                from 1 to D, or `precision` or `ranges` is not valid.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)  # a tuple is not a pair here
        before, size = self._prompt(prompt or self.default_prompt), self.vector_size
        if dimensions is not None and not 1 <= dimensions <= size:
            raise InputError(f"dimensions is {dimensions}, but must be from 1 to {size}.")
        _check_precision(precision, ranges, len(texts), dimensions or size)
        if before:
            texts = [before + text for text in texts]
        rows = self.rows(texts)
        self.warn_of_cut_texts(rows)
        vectors = self.predict_rows(rows, batch_size)
        vectors = np.reshape(vectors, (-1, size)).astype("float32")[:, :dimensions]
        if dimensions is not None and self.normalize:
            vectors = ops.convert_to_numpy(unit_length(vectors))
        return quantize_vectors(vectors, precision, ranges)

    def encode_query(self, texts: Any, batch_size: int = 32, **options: Any) -> np.ndarray:
        """Returns vectors of questions as `encode`, with the prompt "query" if there is one."""
        return self._encode_with(("query",), texts, batch_size, options)

    def encode_document(self, texts: Any, batch_size: int = 32, **options: Any) -> np.ndarray:
        """Returns vectors of documents as `encode`, with the documents' prompt if there is one."""
        return self._encode_with(("document", "passage", "corpus"), texts, batch_size, options)

    def _encode_with(
        self, names: tuple[str, ...], texts: Any, batch_size: int, options: dict[str, Any]
    ) -> np.ndarray:
        prompt = next((name for name in names if name in self.prompts), None)
        return self.encode(texts, batch_size, **{"prompt": prompt} | options)

    def _prompt(self, name: str | None) -> str:
        if name is not None and name not in self.prompts:
            raise InputError(
                f"There is no prompt {name!r}; the prompts are {', '.join(self.prompts) or 'none'}."
            )
        return "" if name is None else self.prompts[name]

    def predict_text(self, texts: Any, batch_size: int = 32) -> list[dict[str, Any]]:
        """Returns the vectors of texts, or the cosines of pairs of texts.

        Args:
            texts: a list of N strings, or a tuple of two such lists for pairs.
            batch_size: texts per step.

        Returns:
            N dictionaries. A text has `embedding`, a list of D numbers. A pair has `cosine` and,
            if the objective is "softmax", `label` and `score`, the label's probability.

        Raises:
            InputError: if the model has no preprocessor, or the lists differ in length.
        """
        columns = texts if isinstance(texts, tuple) else (texts,)
        columns = tuple([column] if isinstance(column, str) else list(column) for column in columns)
        if len({len(column) for column in columns}) > 1:
            raise InputError(
                f"There are {' and '.join(str(len(column)) for column in columns)} texts, but "
                "pairs need as many second texts as first ones."
            )
        groups = zip(*columns, strict=True)
        vectors = self.encode([text for group in groups for text in group], batch_size)
        return self.predictions(vectors.reshape(-1, len(columns), vectors.shape[1]))

    def predictions(self, vectors: np.ndarray) -> list[dict[str, Any]]:
        """Returns the dictionaries of `predict_text` from the vectors `[N, C, D]` of N groups.

        If C is above 2, each dictionary has `cosines`, the list that `self.cosines` returns for the
        group.
        """
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
        """Returns the cosine of each group's first vector with each of its other vectors.

        The vectors are `[N, C, D]`, the cosines float32 `[N, C - 1]`.
        """
        unit = unit_length(vectors)
        return ops.convert_to_numpy(ops.sum(unit[:, :1] * unit[:, 1:], axis=-1))

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Returns the cosine of each of N texts with each of M texts: float32 `[N, M]`.

        Args:
            a: N strings, or their vectors `[N, D]`.
            b: M strings, or their vectors `[M, D]`.
        """
        a, b = (unit_length(x if getattr(x, "ndim", 1) == 2 else self.encode(x)) for x in (a, b))
        return ops.convert_to_numpy(ops.matmul(a, ops.transpose(b)))


def quantize_vectors(vectors: np.ndarray, precision: str, ranges: Any = None) -> np.ndarray:
    """Converts float vectors to a smaller type, with the formulas of sentence-transformers.

    "int8" and "uint8" divide each entry's range into 255 equal steps. "ubinary" keeps one bit of
    each entry, 1 if the entry is above 0, and packs 8 bits into a uint8. "binary" is "ubinary"
    minus 128, an int8.

    Args:
        vectors: float32 vectors `[N, D]`.
        precision: one of `PRECISIONS`.
        ranges: lowest and highest value of each entry, `[2, D]`, for "int8" and "uint8". Values
            outside are clipped. By default, the lowest and the highest values in `vectors`.

    Returns:
        `[N, D]` or, if bits are packed, `[N, ceil(D / 8)]`.
    """
    if precision == "float32":
        return vectors
    if precision.endswith("binary"):
        bits = np.packbits(vectors > 0, axis=-1)
        return bits if precision == "ubinary" else (bits.astype("int16") - 128).astype("int8")
    if not len(vectors):
        return vectors.astype(precision)
    if ranges is None:
        ranges = (vectors.min(axis=0), vectors.max(axis=0))
    low, high = np.asarray(ranges, "float32")
    steps = (high - low) / 255
    numbers = np.floor((vectors - low) / np.where(steps == 0, np.float32(1), steps))
    numbers = np.clip(numbers, 0, 255)
    return (numbers - 128 if precision == "int8" else numbers).astype(precision)


def _check_precision(precision: str, ranges: Any, count: int, size: int) -> None:
    """Checks the arguments of `quantize_vectors`. Warns if ranges would come from few vectors.

    Args:
        precision: one of `PRECISIONS`.
        ranges: as in `quantize_vectors`.
        count: number N of the vectors.
        size: size D of the vectors.

    Raises:
        InputError: if the precision is unknown, the ranges have another shape or do not belong to
            the precision, or they are missing and there is only one vector.
    """
    if precision not in PRECISIONS:
        raise InputError(
            f"There is no precision {precision!r}.{closest(precision, PRECISIONS)} Choose one of "
            f"{', '.join(PRECISIONS)}."
        )
    if ranges is not None:
        if not precision.endswith("int8"):
            raise InputError(f"ranges are for int8 and uint8, but the precision is {precision!r}.")
        if np.shape(ranges) != (2, size):
            raise InputError(
                f"ranges have the shape {list(np.shape(ranges))}, but must have [2, {size}]: the "
                "lowest and the highest value of each entry."
            )
    elif precision.endswith("int8") and count == 1:
        raise InputError(
            f"The precision {precision!r} needs the range of each entry, which one vector does not "
            "have; give ranges, the lowest and the highest values in many vectors."
        )
    elif precision.endswith("int8") and 0 < count < _FEW:
        logger.warning(
            "The ranges for %s come from only %d vectors; give ranges of more vectors.",
            precision,
            count,
        )


def _projection(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all arguments of a projection, with the defaults.

    Raises:
        InputError: if an argument is unknown, missing or not valid.
    """
    activations = ("linear", *ACTIVATION_FUNCTIONS)
    values = {"units": 0, "activation": "linear", "use_bias": True, **given}
    units, activation, use_bias, *others = values.values()
    valid = not others and type(units) is int and units > 0 and type(use_bias) is bool
    if not valid or activation not in activations:
        raise InputError(
            f"A projection is {dict(given)!r}, but must have units, a whole number of at least 1, "
            f"and may have use_bias, True or False, and activation, one of "
            f"{', '.join(activations)}."
        )
    return values
