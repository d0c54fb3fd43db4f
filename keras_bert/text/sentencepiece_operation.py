"""tf.text's `SentencepieceTokenizer`, whose resource is always part of a graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text


class SentencePieceOperation:
    """Splits strings `[N]` with a model; the operation is made where it is used.

    It holds a resource. One made inside a graph belongs to the graph and is saved with it. One made
    outside would have to be tracked by whatever is saved, and is lost when TensorFlow clears its
    kernels, which setting a seed does; hence a graph of our own there.

    Args:
        model: a serialized `ModelProto`.
    """

    def __init__(self, model: bytes) -> None:
        self._model = model
        strings = [tf.TensorSpec([None], tf.string)]
        self._graphs = {
            name: tf.function(getattr(self, name), input_signature=strings, autograph=False)
            for name in ("tokenize", "tokenize_with_offsets")
        }

    def tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Pieces' ids in the model, int32 `[N, (pieces)]`."""
        return self._call("tokenize", strings)

    def tokenize_with_offsets(self, strings: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Ids int32, starts and ends in bytes int64, `[N, (pieces)]`."""
        return self._call("tokenize_with_offsets", strings)

    def _call(self, name: str, strings: tf.Tensor) -> Any:
        if tf.executing_eagerly():
            return self._graphs[name](strings)
        return getattr(tf_text.SentencepieceTokenizer(self._model), name)(strings)
