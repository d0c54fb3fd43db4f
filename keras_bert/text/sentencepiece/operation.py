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
        self._graphs: dict[str, Any] = {}

    def tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Pieces' ids in the model, int32 `[N, (pieces)]`."""
        return self._call("tokenize", strings)

    def tokenize_with_offsets(self, strings: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Ids int32, starts and ends in bytes int64, `[N, (pieces)]`."""
        return self._call("tokenize_with_offsets", strings)

    def _call(self, name: str, strings: tf.Tensor) -> Any:
        if not tf.executing_eagerly():
            return getattr(tf_text.SentencepieceTokenizer(self._model), name)(strings)
        if name not in self._graphs:
            # Concrete: of functions of one name in many tokenizers TensorFlow warns as retraced.
            signature = [tf.TensorSpec([None], tf.string)]
            function = tf.function(getattr(self, name), signature, autograph=False)
            self._graphs[name] = function.get_concrete_function()
        return self._graphs[name](tf.convert_to_tensor(strings, tf.string))
