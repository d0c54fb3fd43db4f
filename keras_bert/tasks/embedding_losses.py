"""Losses of a `TextEmbedder` on groups of texts.

Vectors are `[B, C, H]` float32, for B groups of C texts. The first text of a group is the anchor.
The second text belongs to the anchor. Further texts are hard negatives: they do not belong to the
anchor. A group of two texts is a pair.
"""

from typing import Any

import keras
from keras import ops


def unit_length(x: Any) -> Any:
    """Scales vectors `[..., H]` to length 1. A vector of zeros stays zero."""
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squares, 1e-24))


def pair_features(vectors: Any) -> Any:
    """Returns [u, v, |u - v|], `[B, 3 H]`, of the vectors u and v of pairs `[B, 2, H]`."""
    u, v = vectors[:, 0], vectors[:, 1]
    return ops.concatenate([u, v, ops.abs(u - v)], axis=-1)


@keras.saving.register_keras_serializable(package="keras_bert")
class CosineSimilarityLoss(keras.losses.Loss):
    """Squared difference between the cosine of a pair's vectors and the pair's score.

    Reimers and Gurevych 2019, section 3, https://arxiv.org/abs/1908.10084. Targets are the scores,
    float32 `[B]`, usually from 0 to 1. Vectors are `[B, 2, H]`.
    """

    def __init__(self, name: str = "cosine_similarity", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns losses `[B]` of targets `[B]` and vectors `[B, 2, H]`."""
        unit = unit_length(y_pred)
        return ops.square(ops.sum(unit[:, 0] * unit[:, 1], axis=-1) - ops.reshape(y_true, (-1,)))


@keras.saving.register_keras_serializable(package="keras_bert")
class ContrastiveLoss(keras.losses.Loss):
    """Cross-entropy of finding an anchor's own text among the texts of the batch.

    See Henderson et al. 2017, section 4, https://arxiv.org/abs/1705.00652. This loss compares
    vectors by the cosine instead of the inner product. Other names of the loss are multiple
    negatives ranking and InfoNCE. The candidates of every anchor are all texts of the batch that
    are not anchors, hard negatives included. So a larger batch is harder. With several replicas or
    gradient accumulation, candidates come from one micro-batch of one replica.

    Targets are int32 `[B]`, a number for each anchor. If two anchors have the same number, the text
    that belongs to one anchor does not count as wrong for the other anchor. If all numbers differ,
    all other texts are wrong.

    Args:
        scale: factor of the cosines, the inverse of a temperature.
        symmetric: whether the loss is the mean of two cross-entropies: of finding an anchor's own
            text among all texts, and of finding a text's anchor among all anchors.
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
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "scale": self.scale, "symmetric": self.symmetric}

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the losses `[B]` for the anchors' numbers `[B]` and the vectors `[B, C, H]`."""
        unit = unit_length(y_pred)
        anchors, own = unit[:, 0], unit[:, 1]
        hard = ops.reshape(unit[:, 2:], (-1, y_pred.shape[-1]))  # [B * (C - 2), H]
        numbers = ops.reshape(y_true, (-1,))
        same = ops.cast(ops.equal(numbers[:, None], numbers[None, :]), unit.dtype)
        # 1 at the own texts of other anchors with the same number.
        also_right = same - ops.eye(ops.shape(unit)[0], dtype=unit.dtype)
        scores = self.scale * ops.matmul(anchors, ops.transpose(own)) - 1e9 * also_right  # [B, B]
        others = self.scale * ops.matmul(anchors, ops.transpose(hard))
        losses = _cross_entropy(ops.concatenate([scores, others], axis=1), scores)
        if self.symmetric:
            losses = (losses + _cross_entropy(ops.transpose(scores), scores)) / 2
        return losses


@keras.saving.register_keras_serializable(package="keras_bert")
class PairLabelLoss(keras.losses.Loss):
    """Cross-entropy of the labels of pairs.

    Reimers and Gurevych 2019, section 3, https://arxiv.org/abs/1908.10084. Targets are label ids,
    int32 `[B]`. Predictions are the logits `[B, L]` of `TextEmbedder.pair_logits`, not vectors.
    """

    def __init__(self, name: str = "pair_label", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns losses `[B]` of label ids `[B]` and logits `[B, L]`."""
        ids = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        return keras.losses.sparse_categorical_crossentropy(ids, y_pred, from_logits=True)


def _cross_entropy(scores: Any, own: Any) -> Any:
    """Returns losses `[B]` of scores `[B, candidates]`; right scores are the diagonal of `own`."""
    return ops.logsumexp(scores, axis=1) - ops.diagonal(own)
