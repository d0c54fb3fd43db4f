"""The base classes of tasks, and checks that several tasks share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.layers import windows as text_windows
from keras_bert.layers.configured import HasPreprocessor, KerasMethods, arguments_of
from keras_bert.layers.encoder import Encoder
from keras_bert.layers.heads import TextPooling
from keras_bert.layers.lora import LowRankAdaptation
from keras_bert.layers.quantization import KEY, add_policies, quantize_layers
from keras_bert.layers.rematerialization import RematerializedByEncoder
from keras_bert.surrogates import without_surrogates
from keras_bert.tasks.strings import TakesStrings

if TYPE_CHECKING:  # keras_bert.text needs TensorFlow, but a task does not
    from keras_bert.text.rows import Overlap, Rows

logger = logging.getLogger(__name__)

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
            batch_size: rows per step or, if the model divides rows into windows, windows per step.
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
        first, end = 0, max(len(order), 1)
        while first < end:
            longest = int(lengths[order[first : first + 1]].max(initial=1))
            size = max(batch_size // self.windows_of(longest), 1)
            indices = order[first : first + size]
            # Each new shape may have to be compiled. So the last of several batches is filled up to
            # `size`, and a padded length is a power of two or 3/4 of one, such as 128, 192, 256.
            missing = size - len(indices) if first else 0
            first += size
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

    def windows_of(self, length: int) -> int:
        """Returns the number of windows into which the model divides a row of `length` tokens."""
        return 1

    def warn_of_cut_texts(self, *rows: Rows) -> None:
        """Logs one warning if texts or pairs of some rows were cut."""
        cut, count = sum(part.cut for part in rows), sum(len(part) for part in rows)
        self.warn_of_cut(cut, count, pairs=rows[0].pairs)

    def warn_of_cut(self, cut: int, count: int, *, pairs: bool = False) -> None:
        """Logs a warning that `cut` of `count` texts or pairs were cut, unless `cut` is 0."""
        if not cut:
            return
        what, are = "pairs" if pairs else "texts", "is" if cut == 1 else "are"
        limit, advice = self._limit_of_texts(pairs)
        logger.warning(
            "%d of %d %s %s longer than %s and %s cut%s", cut, count, what, are, limit, are, advice
        )

    def _limit_of_texts(self, pairs: bool) -> tuple[str, str]:
        """Returns the length of the longest text that is not cut, and advice on longer texts."""
        length = self.preprocessor.sequence_length
        if length < self.config.max_positions:
            return f"{length} tokens", "; set a larger sequence_length."
        return f"{length} tokens", ": the encoder has no more positions."


class TextTask(Task):
    """Task on one vector per text. The task can read a long text in windows.

    A text of more than `preprocessor.sequence_length` tokens is divided into overlapping windows of
    this length; see `layers.windows.divide`. The text's vector is the mean or the maximum of the
    windows' vectors. Windows need single texts, not pairs: it is not clear which text of a pair
    should be divided.

    Args:
        encoder: the encoder.
        windows: "mean" or "max"; or None for no windows: long texts are cut.
        max_windows: largest number of windows of a text. A longer text is cut. None means 32.
        **kwargs: `preprocessor`, `name` and `dtype`; see `Task`.

    Raises:
        InputError: if `windows` or `max_windows` is not valid.
    """

    text_pooling: TextPooling
    """Layer that makes one vector of the tokens of a window; made by the subclass."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        windows: str | None = None,
        max_windows: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        max_windows = text_windows.MAX_WINDOWS if max_windows is None else max_windows
        text_windows.check_windows(windows, max_windows)
        self.windows = windows
        self.max_windows = max_windows

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("preprocessor", "windows"):  # compiled steps have the earlier windows
            self.train_function = self.test_function = self.predict_function = None

    @property
    def window_length(self) -> int:
        """Largest number of tokens that the encoder reads at once."""
        if self.preprocessor is None:
            return self.config.max_positions
        return self.preprocessor.sequence_length

    @property
    def _separator_at_end(self) -> bool:
        return self.preprocessor is None or self.preprocessor.separator_at_end

    @property
    def text_length(self) -> int:
        """Largest number of tokens in a text. Longer texts are cut."""
        count = 1 if self.windows is None else self.max_windows
        return text_windows.text_length(self.window_length, count, self._separator_at_end)

    @property
    def text_preprocessor(self) -> Any:
        """The preprocessor, with room for all windows of a text; or None."""
        if self.preprocessor is None or self.windows is None:
            return self.preprocessor
        return self.preprocessor.with_length(self.text_length)

    def vectors(self, inputs: Mapping[str, Any], training: bool | None = None) -> Any:
        """Returns the vectors `[B, H]` of texts from the encoder's inputs `[B, T]`."""

        def pooled(inputs: Mapping[str, Any]) -> Any:
            outputs = self.encoder(inputs, training=training)
            return self.text_pooling(outputs, padding_mask(inputs), training=training)

        size = inputs["token_ids"].shape[1]
        if self.windows is None or (size is not None and size <= self.window_length):
            return pooled(inputs)
        parts, is_window = text_windows.divide(inputs, self.window_length, self._separator_at_end)
        return text_windows.pool(pooled(parts), is_window, self.windows)

    def windows_of(self, length: int) -> int:
        """Returns the number of windows into which the model divides a row of `length` tokens."""
        if self.windows is None:
            return 1
        return text_windows.window_count(length, self.window_length, self._separator_at_end)

    def rows(self, texts: Any, *, overlap: Overlap = None, offsets: bool = False) -> Rows:
        """Turns texts into rows, as `Task.rows`. The model divides the rows into windows.

        Raises:
            InputError: if the model has no preprocessor, or texts are pairs and the model reads
                windows.
        """
        self._check_windows_of_pairs(isinstance(texts, tuple))
        return super().rows(texts, overlap=overlap, offsets=offsets)

    def inputs_of_texts(self, columns: tuple[Any, ...]) -> dict[str, Any]:
        """Returns the inputs of `call` for columns of strings, as `TakesStrings.inputs_of_texts`.

        Raises:
            InputError: if texts are pairs and the model reads windows.
        """
        self._check_windows_of_pairs(len(columns) > 1)
        return super().inputs_of_texts(columns)

    def _check_windows_of_pairs(self, pairs: bool) -> None:
        if pairs and self.windows is not None:
            raise InputError(
                f"windows is {self.windows!r}, but only single texts can be read in windows, not "
                "pairs; set windows=None."
            )

    def _limit_of_texts(self, pairs: bool) -> tuple[str, str]:
        if self.windows is None:
            limit, advice = super()._limit_of_texts(pairs)
            if pairs:
                return limit, advice
            longer = " or a larger sequence_length" if advice.startswith(";") else ""
            return limit, f"; set windows='mean'{longer}."
        length = f"{self.window_length} tokens"
        return f"{self.max_windows} windows of {length}", "; set a larger max_windows."


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
        InputError: if neither is given, the number differs from the count of names, or a name is
            not a string, repeats or contains a lone surrogate.
    """
    if labels is None:
        if num_labels is None:
            raise InputError(
                "The names of the labels are missing; give labels=[...] or num_labels."
            )
        if not isinstance(num_labels, int) or num_labels < 1:
            raise InputError(f"num_labels is {num_labels!r}, but must be 1 or more.")
        return tuple(str(index) for index in range(num_labels))
    if isinstance(labels, (int, str)):
        raise InputError(f"labels is {labels!r}, but must be a list of names; see also num_labels.")
    names = tuple(labels)
    other = next((name for name in names if not isinstance(name, str)), None)
    if other is not None:
        raise InputError(
            f"labels has {other!r}, but names must be strings: [{str(other)!r}, ...]. Targets are "
            "such names, or ids from 0."
        )
    if num_labels not in (None, len(names)):
        raise InputError(f"num_labels is {num_labels}, but labels has {len(names)} names.")
    if not names or len(set(names)) != len(names):
        raise InputError(f"The labels {list(names)} must be one or more different names.")
    broken = next((name for name in names if without_surrogates(name) != name), None)
    if broken is not None:
        raise InputError(f"The label {broken!r} has a lone surrogate, so no file can hold it.")
    return names
