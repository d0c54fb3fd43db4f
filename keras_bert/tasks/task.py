"""The base class of all tasks, and checks that several tasks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.configured import HasPreprocessor, KerasMethods, arguments_of
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.lora import LowRankAdaptation
from keras_bert.layers.quantization import KEY, add_policies, quantize_layers
from keras_bert.layers.rematerialization import RematerializedByEncoder
from keras_bert.surrogates import without_surrogates
from keras_bert.tasks.strings import TakesStrings

if TYPE_CHECKING:  # keras_bert.text needs TensorFlow, but a task does not
    from keras_bert.text.rows import Overlap, Rows

_SHORTEST = 16  # length of the shortest padded batch; all padded lengths are multiples of it


class Task(
    TakesStrings,
    LowRankAdaptation,
    KerasMethods,
    RematerializedByEncoder,
    HasPreprocessor,
    keras.Model,
):
    """Model made of an encoder, a head and, if it takes texts, a preprocessor.

    The constructor makes all weights.

    Args:
        encoder: the encoder.
        preprocessor: a `keras_bert.Preprocessor` that turns texts into the encoder's inputs.
        **kwargs: `name` and `dtype`, as in every Keras model.
    """

    per_token: ClassVar[bool] = False
    """Whether outputs are `[B, T, ...]`, with a value for each token."""
    arguments: ClassVar[tuple[str, ...]] = ()
    """Names of the constructor's own arguments. Each argument is also an attribute of the model."""

    def __init__(self, encoder: Encoder, *, preprocessor: Any = None, **kwargs: Any):
        super().__init__(dtype=kwargs.pop("dtype", encoder.dtype_policy), **kwargs)
        self.encoder = encoder
        self.config = encoder.config
        self.preprocessor = preprocessor
        self.built = True

    def part(self, layer: type, *args: Any, name: str, per_token: bool | None = None) -> Any:
        """Makes and builds a layer of the head, with the encoder's configuration.

        Args:
            layer: class of the layer.
            *args: arguments of the layer after the configuration.
            name: name of the layer.
            per_token: whether the input has a vector for each token; by default, as the outputs of
                the model.
        """
        part = layer(self.config, *args, name=name, dtype=self.dtype_policy)
        per_token = self.per_token if per_token is None else per_token
        part.build((None, *[None] * per_token, self.config.hidden_size))
        return part

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments and, if there are any, the quantized layers.

        Encoder and preprocessor are serialized.
        """
        serialize = keras.saving.serialize_keras_object
        config = {
            **super().get_config(),
            "encoder": serialize(self.encoder),
            "preprocessor": serialize(self.preprocessor),
            **arguments_of(self),
        }
        return add_policies(config, self._head_layers())

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Makes a model from `get_config`'s dictionary."""
        values = {
            key: keras.saving.deserialize_keras_object(value)
            if key in ("encoder", "preprocessor")
            else value
            for key, value in config.items()
        }
        policies = values.pop(KEY, None)
        model = cls(**values)
        quantize_layers(model._head_layers(), policies)
        return model

    def _head_layers(self) -> list[Any]:
        """Returns all layers that are not in the encoder."""
        layers = set(self.encoder._flatten_layers())
        return [layer for layer in self._flatten_layers() if layer not in layers]

    def get_build_config(self) -> None:
        """Returns None: the constructor builds the model."""

    def rows(self, texts: Any, *, overlap: Overlap = None, offsets: bool = False) -> Rows:
        """Turns texts into rows with the model's preprocessor; see `Preprocessor.rows`.

        Raises:
            InputError: if the model has no preprocessor.
        """
        return self.required_preprocessor().rows(texts, overlap=overlap, offsets=offsets)

    def predict_rows(
        self,
        rows: Rows,
        batch_size: int = 32,
        run: Callable[[dict[str, np.ndarray]], Any] | None = None,
    ) -> Any:
        """Returns the model's outputs for rows. Rows of similar length share a batch.

        Args:
            rows: R rows.
            batch_size: rows per step.
            run: function to call instead of the model, for example an exported artifact. The
                function takes a batch of rows, `[B, T]` int32 each, and returns outputs like the
                model's.

        Returns:
            A list of R NumPy arrays for each of the model's outputs. If outputs are
            `[B, T, ...]`, padding is removed: each array is as long as its row.
        """
        order, lengths = rows.order_by_length(), rows.lengths
        results: list[list[Any]] = []
        run = run or (lambda batch: self.predict_on_batch(self.inputs_of(batch)))
        for first in range(0, max(len(order), 1), batch_size):
            indices = order[first : first + batch_size]
            # Each new shape may have to be compiled. So the last of several batches is filled up to
            # `batch_size`, and at most two lengths lie between one power of two and the next.
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
        """Returns the inputs of `call` for a batch of rows, `[B, T]` int32 each."""
        return batch


def check_pooler(encoder: Encoder, task: str) -> None:
    """Checks that an encoder has a pooler.

    Raises:
        InputError: if the encoder has no pooler.
    """
    if encoder.pooler is None:
        raise InputError(f"A {task} needs an encoder with a pooler; configure it with pooler=True.")


def padding_mask(inputs: Mapping[str, Any]) -> Any:
    """Returns the inputs' `padding_mask` `[B, T]` int32, or ones if there is no mask."""
    mask = inputs.get("padding_mask")
    return ops.ones_like(inputs["token_ids"]) if mask is None else mask


def resolve_labels(num_labels: int | None, labels: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the labels' names by id, from their number, their names, or both.

    Raises:
        InputError: if neither is given, the number differs from the count of names, or a name
            repeats or contains a lone surrogate.
    """
    if labels is None:
        if not isinstance(num_labels, int) or num_labels < 1:
            raise InputError(f"num_labels is {num_labels!r}, but must be 1 or more.")
        return tuple(str(index) for index in range(num_labels))
    names = tuple(labels)
    if num_labels not in (None, len(names)):
        raise InputError(f"num_labels is {num_labels}, but labels has {len(names)} names.")
    if not names or len(set(names)) != len(names):
        raise InputError(f"The labels {list(names)} must be one or more different names.")
    broken = next((name for name in names if without_surrogates(str(name)) != str(name)), None)
    if broken is not None:
        raise InputError(f"The label {broken!r} has a lone surrogate, so no file can hold it.")
    return names
