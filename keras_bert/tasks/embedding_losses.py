"""What a `TextEmbedder` learns from pairs of texts, or from more that belong together.

The first text of a group is the anchor, the second the one that belongs to it; vectors are
`[B, C, H]` float32.
"""

from typing import Any

import keras
from keras import ops


def unit_length(x: Any) -> Any:
    """Vectors `[..., H]` scaled to length 1; zeros stay zeros, and have a gradient of zero."""
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squares, 1e-24))


def pair_features(vectors: Any) -> Any:
    """Vectors of pairs `[B, 2, H]` to [u, v, |u - v|], `[B, 3 H]`."""
    u, v = vectors[:, 0], vectors[:, 1]
    return ops.concatenate([u, v, ops.abs(u - v)], axis=-1)


@keras.saving.register_keras_serializable(package="keras_bert")
class CosineSimilarityLoss(keras.losses.Loss):
    """The squared difference between the cosine of a pair and its score.

    Reimers and Gurevych 2019, section 3, https://arxiv.org/abs/1908.10084. Targets are float32
    `[B]`, usually scaled to 0..1; vectors are `[B, 2, H]`.
    """

    def __init__(self, name: str = "cosine_similarity", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Targets `[B]` and vectors `[B, 2, H]` to losses `[B]`."""
        unit = unit_length(y_pred)
        return ops.square(ops.sum(unit[:, 0] * unit[:, 1], axis=-1) - ops.reshape(y_true, (-1,)))


@keras.saving.register_keras_serializable(package="keras_bert")
class ContrastiveLoss(keras.losses.Loss):
    """The cross-entropy of finding an anchor's own text among all texts of the batch.

    Henderson et al. 2017, section 4, https://arxiv.org/abs/1705.00652, with the cosine in place
    of the inner product; also known as multiple negatives ranking, or InfoNCE. The candidates of
    every anchor are the second texts of all groups of the batch and, where groups have more than
    two texts, the others (hard negatives) too, so larger batches are harder. Candidates are those
    of one replica and of one micro-batch.

    Targets are int32 `[B]`, a number for each anchor: what belongs to another anchor with the
    same number is right, too, and therefore not counted as wrong. Distinct numbers make every
    other text a wrong one.

    Args:
        scale: by which cosines are multiplied, the inverse of a temperature.
        symmetric: whether the anchors must be found by their texts, too; the loss is the mean of
            both ways.
        **kwargs: `name`, `reduction` and `dtype`, as in every Keras loss.
    """

    def __init__(
        self,
        scale: float = 20.0,
        symmetric: bool = False,
        name: str = "contrastive",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.scale = scale
        self.symmetric = symmetric

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "scale": self.scale, "symmetric": self.symmetric}

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Anchors' numbers `[B]` and vectors `[B, C, H]` to losses `[B]`."""
        unit = unit_length(y_pred)
        anchors, own = unit[:, 0], unit[:, 1]
        hard = ops.reshape(unit[:, 2:], (-1, y_pred.shape[-1]))  # [B * (C - 2), H]
        numbers = ops.reshape(y_true, (-1,))
        same = ops.cast(ops.equal(numbers[:, None], numbers[None, :]), unit.dtype)
        # Of the same number, but not the anchor's own.
        also_right = same - ops.eye(ops.shape(unit)[0], dtype=unit.dtype)
        scores = self.scale * ops.matmul(anchors, ops.transpose(own)) - 1e9 * also_right  # [B, B]
        others = self.scale * ops.matmul(anchors, ops.transpose(hard))
        losses = _cross_entropy(ops.concatenate([scores, others], axis=1), scores)
        if self.symmetric:
            losses = (losses + _cross_entropy(ops.transpose(scores), scores)) / 2
        return losses


@keras.saving.register_keras_serializable(package="keras_bert")
class PairLabelLoss(keras.losses.Loss):
    """The cross-entropy of the labels of pairs.

    Reimers and Gurevych 2019, section 3, https://arxiv.org/abs/1908.10084. Targets are int32
    `[B]`. A `TextEmbedder` gives it not its vectors, but the logits `[B, L]` of its layer on
    `pair_features`.
    """

    def __init__(self, name: str = "pair_label", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Label ids `[B]` and logits `[B, L]` to losses `[B]`."""
        ids = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        return keras.losses.sparse_categorical_crossentropy(ids, y_pred, from_logits=True)


def _cross_entropy(scores: Any, own: Any) -> Any:
    """Scores `[B, candidates]`, and those whose diagonal are the right ones, to losses `[B]`."""
    return ops.logsumexp(scores, axis=1) - ops.diagonal(own)
