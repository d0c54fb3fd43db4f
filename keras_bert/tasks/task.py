"""What every task shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder

if TYPE_CHECKING:  # text needs TensorFlow, and a task does not
    from keras_bert.text.rows import Overlap, Rows

_SHORTEST = 16  # what the lengths of batches are multiples of


class Task(keras.Model):
    """A model made of an encoder, a head and, if texts are to go in, a preprocessor.

    All weights are made in the constructor.

    Args:
        encoder: the encoder.
        preprocessor: texts to the encoder's inputs; a `keras_bert.Preprocessor`.
        **kwargs: `name` and `dtype`, as in every Keras model.
    """

    per_token: ClassVar[bool] = False
    """Whether outputs are `[B, T, ...]`, a value for each token."""

    def __init__(self, encoder: Encoder, *, preprocessor: Any = None, **kwargs: Any):
        super().__init__(dtype=kwargs.pop("dtype", encoder.dtype_policy), **kwargs)
        self.encoder = encoder
        self.config = encoder.config
        self.preprocessor = preprocessor
        self.built = True

    def part(self, layer: type, *args: Any, name: str) -> Any:
        """A layer of the head, described by the encoder's configuration, with its weights."""
        part = layer(self.config, *args, name=name, dtype=self.dtype_policy)
        part.build()
        return part

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments; encoder and preprocessor serialized."""
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "encoder": serialize(self.encoder),
            "preprocessor": serialize(self.preprocessor),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The inverse of `get_config`."""
        values = {
            key: keras.saving.deserialize_keras_object(value)
            if key in ("encoder", "preprocessor")
            else value
            for key, value in config.items()
        }
        return cls(**values)

    def get_build_config(self) -> None:
        """None: the constructor builds the model."""

    def rows(self, texts: Any, *, overlap: Overlap = None, offsets: bool = False) -> Rows:
        """`preprocessor.rows(texts)`.

        Raises:
            InputError: if the model has no preprocessor.
        """
        if self.preprocessor is None:
            raise InputError(
                f"This {type(self).__name__} has no preprocessor, so it cannot take texts; "
                "give it one: model.preprocessor = keras_bert.Preprocessor(...)."
            )
        return self.preprocessor.rows(texts, overlap=overlap, offsets=offsets)

    def predict_rows(
        self,
        rows: Rows,
        batch_size: int = 32,
        run: Callable[[dict[str, np.ndarray]], Any] | None = None,
    ) -> Any:
        """The model's outputs for rows; rows of like length share a batch.

        Args:
            rows: R rows.
            batch_size: rows per step.
            run: what takes the model's place, such as an exported artifact: a batch of rows,
                `[B, T]` int32 each, to outputs like the model's.

        Returns:
            For each of the model's outputs a list of R NumPy arrays; where outputs are
            `[B, T, ...]`, each as long as its row.
        """
        order, lengths = rows.order_by_length(), rows.lengths
        results: list[list[Any]] = []
        run = run or (lambda batch: self.predict_on_batch(self.inputs_of(batch)))
        for first in range(0, max(len(order), 1), batch_size):
            indices = order[first : first + batch_size]
            # Shapes are to be few, as each may have to be compiled: whole batches, and no more
            # than two lengths from one power of two to the next.
            missing = batch_size - len(indices) if first else 0
            longest = int(lengths[indices].max(initial=1))
            multiple = max(_SHORTEST, 1 << (longest - 1).bit_length() >> 2)
            batch = rows.padded(np.pad(indices, (0, missing), "edge"), multiple)
            outputs = run(batch)
            leaves = keras.tree.flatten(outputs)
            results = results or [[None] * len(rows) for _ in leaves]
            for values, result in zip(leaves, results, strict=True):
                for value, index in zip(values, indices, strict=False):
                    result[index] = value[: lengths[index]] if self.per_token else value
        return keras.tree.pack_sequence_as(outputs, results)

    def inputs_of(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What `call` takes for a batch of rows, `[B, T]` int32 each."""
        return batch


def check_pooler(encoder: Encoder, task: str) -> None:
    """Passes for an encoder with a pooler.

    Raises:
        InputError: for another.
    """
    if encoder.pooler is None:
        raise InputError(f"A {task} needs an encoder with a pooler; configure it with pooler=True.")


def padding_mask(inputs: Mapping[str, Any]) -> Any:
    """The mask `[B, T]` int32 among the inputs, or ones."""
    mask = inputs.get("padding_mask")
    return ops.ones_like(inputs["token_ids"]) if mask is None else mask
