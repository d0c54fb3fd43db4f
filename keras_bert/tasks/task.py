"""What every task shares."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder


class Task(keras.Model):
    """A model made of an encoder, a head and, if texts are to go in, a preprocessor.

    All weights are made in the constructor.

    Args:
        encoder: the encoder.
        preprocessor: texts to the encoder's inputs; a `keras_bert.Preprocessor`.
        **kwargs: `name` and `dtype`, as in every Keras model.
    """

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

    def preprocess(self, texts: Any) -> Mapping[str, Any]:
        """`preprocessor(texts)`.

        Raises:
            InputError: if the model has no preprocessor.
        """
        if self.preprocessor is None:
            raise InputError(
                f"This {type(self).__name__} has no preprocessor, so it cannot take texts; "
                "give it one: model.preprocessor = keras_bert.Preprocessor(...)."
            )
        return self.preprocessor(texts)

    def predict_texts(self, texts: Any, batch_size: int) -> Any:
        """The model's outputs for texts, as NumPy arrays with one row per text."""
        return self.predict(dict(self.preprocess(texts)), batch_size=batch_size, verbose=0)


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
