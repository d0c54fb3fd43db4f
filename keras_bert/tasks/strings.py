"""Texts and names of labels in Keras' own methods, such as `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import keras
import numpy as np

from keras_bert.columns import is_strings, to_arrays, to_list
from keras_bert.errors import InputError, closest

Method = TypeVar("Method", bound=Callable[..., Any])

_UNUSED_POOLER = r"Gradients do not exist for variables \[('[^']*encoder/pooler/[^']*'(, )?)+\]"


def _like(other: Callable[..., Any]) -> Callable[[Method], Method]:
    """Gives a method the signature of another, for `help` and editors."""

    def decorated(method: Method) -> Method:
        method.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return method

    return decorated


class TakesStrings:
    """Mixin for tasks with a preprocessor: Keras' methods also take texts.

    `x` may be texts: a list, an array, a pandas Series or another column of N strings; a tuple of
    columns, for example pairs; or a `tf.data.Dataset` of batches of strings. Targets may be one
    name of a label for each text. Tokenization runs in a `tf.data` pipeline, beside the model's
    steps. All other inputs and targets go to Keras as they are.
    """

    preprocessor: Any
    text_preprocessor: Any
    per_token: ClassVar[bool]
    reads_special_tokens: ClassVar[bool] = False
    """Whether special tokens may be written in texts, as `[MASK]` for a language model."""

    @_like(keras.Model.fit)
    def fit(self, *args: Any, **kwargs: Any) -> Any:
        """Trains the model as `keras.Model.fit` does."""
        given = _arguments(keras.Model.fit, args, kwargs)
        self._hold_out(given)
        if given.get("validation_data") is not None:
            given["validation_data"] = self._validation(given)
        with warnings.catch_warnings():
            # Many heads do not read the encoder's pooler.
            warnings.filterwarnings("ignore", _UNUSED_POOLER)
            return super().fit(**self._batches(given, training=True))

    def make_train_function(self, force: bool = False) -> Any:
        """Makes the training step as Keras does, with the optimizer's variables before it.

        TensorFlow traces a function twice if variables are made in it, and the step takes seconds.
        """
        optimizer: Any = getattr(self, "optimizer", None)
        if optimizer is not None and not optimizer.built:
            optimizer.build(self.trainable_variables)  # type: ignore[attr-defined]
        return super().make_train_function(force)  # type: ignore[misc]

    @_like(keras.Model.evaluate)
    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the loss and the metrics as `keras.Model.evaluate` does."""
        given = _arguments(keras.Model.evaluate, args, kwargs)
        return super().evaluate(**self._batches(given))

    @_like(keras.Model.predict)
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the outputs as `keras.Model.predict` does."""
        given = _arguments(keras.Model.predict, args, kwargs)
        return super().predict(**self._batches(given))

    @_like(keras.Model.train_on_batch)
    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Does one training step as `keras.Model.train_on_batch` does."""
        given = _arguments(keras.Model.train_on_batch, args, kwargs)
        return super().train_on_batch(**self._batch(given))

    @_like(keras.Model.test_on_batch)
    def test_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the loss and the metrics of a batch as `keras.Model.test_on_batch` does."""
        given = _arguments(keras.Model.test_on_batch, args, kwargs)
        return super().test_on_batch(**self._batch(given))

    @_like(keras.Model.predict_on_batch)
    def predict_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the outputs of a batch as `keras.Model.predict_on_batch` does."""
        given = _arguments(keras.Model.predict_on_batch, args, kwargs)
        return super().predict_on_batch(**self._batch(given))

    def inputs_of_texts(self, columns: tuple[Any, ...]) -> dict[str, Any]:
        """Returns the inputs of `call` for columns of strings `[B]`, eagerly or in a graph.

        If outputs have a value for each token, all batches have the preprocessor's length, so that
        targets can have this length and `predict` can join the batches.

        Raises:
            InputError: if the model has no preprocessor.
        """
        preprocessor = self.required_preprocessor()
        if self.per_token:
            preprocessor = preprocessor.with_length(preprocessor.sequence_length, "max_length")
        texts = columns if len(columns) > 1 else columns[0]
        return preprocessor(texts, allow_special_tokens=self.reads_special_tokens)

    def required_preprocessor(self) -> Any:
        """Returns the preprocessor that makes the model's inputs of texts.

        Raises:
            InputError: if the model has no preprocessor.
        """
        if self.preprocessor is None:
            raise InputError(
                f"This {type(self).__name__} has no preprocessor, so it cannot take texts; "
                "give it one: model.preprocessor = keras_bert.Preprocessor(...)."
            )
        return self.text_preprocessor

    def targets_of(self, y: Any) -> Any:
        """Returns targets for Keras, with ids in place of the names of labels.

        Raises:
            InputError: if a name is not a label of the model.
        """
        return label_ids(to_list(y), self.label_names) if is_strings(y) else y

    @property
    def label_names(self) -> Sequence[str]:
        """Names of the labels by id; empty for a task without labels."""
        return getattr(self, "labels", ())

    def _hold_out(self, given: dict[str, Any]) -> None:
        """Moves the last texts to `validation_data`, as Keras does for `validation_split`."""
        columns, ratio = _text_columns(given.get("x")), given.get("validation_split")
        if columns is None or not ratio or given.get("validation_data") is not None:
            return
        names = [name for name in ("x", "y", "sample_weight") if given.get(name) is not None]
        given |= {"x": columns, "y": self.targets_of(given.get("y"))}
        kept = int(len(columns[0]) * (1 - ratio))
        arrays = [columns, *(to_arrays(given[name]) for name in names[1:])]
        for part, value in zip(names, arrays, strict=True):
            given[part] = keras.tree.map_structure(lambda column: column[:kept], value)
        given["validation_data"] = keras.tree.map_structure(lambda x: x[kept:], tuple(arrays))
        del given["validation_split"]

    def _batches(self, given: dict[str, Any], *, training: bool = False) -> dict[str, Any]:
        """Returns Keras' arguments with inputs in place of texts, and ids for names of labels."""
        x, rest = given.get("x"), self._weights_by_id(given)
        unshuffled = {"shuffle": False} if training else {}  # Keras cannot shuffle datasets
        if _holds_texts(x):
            from keras_bert.text.batches import with_inputs

            labels = (
                None if getattr(self, "problem_type", "") == "multi_label" else self.label_names
            )
            x = with_inputs(x, self.inputs_of_texts, labels)
            return {**rest, **unshuffled, "x": x}
        if given.get("y") is not None:
            rest["y"] = self.targets_of(given["y"])
        columns = _text_columns(x)
        if columns is None:
            return rest
        from keras_bert.text.batches import text_dataset, with_inputs

        # A pipeline would give an error of this call a long traceback.
        self.inputs_of_texts(tuple(column[:1] for column in columns))
        if given.get("sample_weight") is not None and given.get("y") is None:
            raise InputError("There are sample weights, but no targets y; give both.")
        targets = [rest.pop(name, None) for name in ("y", "sample_weight")]
        dataset = text_dataset(
            columns,
            [part for part in targets if part is not None],
            batch_size=rest.pop("batch_size", None),
            shuffle=training and bool(rest.get("shuffle", True)),
            repeat=training and bool(rest.get("steps_per_epoch")),
        )
        return {**rest, **unshuffled, "x": with_inputs(dataset, self.inputs_of_texts)}

    def _weights_by_id(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns Keras' arguments. In `class_weight`, names of labels are replaced by ids.

        All labels get a weight, because for a dataset, Keras 3.15 fails if the last ids have none.
        """
        weights, labels = given.get("class_weight"), self.label_names
        if not weights or not labels:
            return dict(given)
        if is_strings(list(weights)):
            ids = label_ids(list(weights), labels).tolist()
            weights = dict(zip(ids, weights.values(), strict=True))
        return {**given, "class_weight": dict.fromkeys(range(len(labels)), 1.0) | weights}

    def _validation(self, given: dict[str, Any]) -> Any:
        """Returns `validation_data` for Keras."""
        data, names = given["validation_data"], ("x", "y", "sample_weight")
        data = tuple(data) if isinstance(data, list) else data
        parts = dict(zip(names, data, strict=False)) if isinstance(data, tuple) else {"x": data}
        size = given.get("validation_batch_size") or given.get("batch_size")
        found = self._batches({**parts, "batch_size": size})
        return tuple(found[name] for name in names if name in found) if "y" in found else found["x"]

    def _batch(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a method for one batch; see `_batches`."""
        given = self._weights_by_id(given)
        columns = _text_columns(given["x"])
        if columns is not None:
            given["x"] = self.inputs_of_texts(columns)
        if given.get("y") is not None:
            given["y"] = to_arrays(self.targets_of(given["y"]))
        return given


def label_ids(names: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """Returns the ids int32 `[N]` of the names of labels.

    Raises:
        InputError: if a name is not a label.
    """
    ids = {label: number for number, label in enumerate(labels)}
    names = [name.decode() if isinstance(name, bytes) else name for name in names]
    nested = next((name for name in names if isinstance(name, (list, tuple))), None)
    if nested is not None:
        raise InputError(f"The target {nested!r} is a list, but must be one name for each text.")
    unknown = [name for name in names if name not in ids]
    if unknown:
        raise InputError(
            f"The target {unknown[0]!r} is not a label of the model."
            f"{closest(str(unknown[0]), labels)} Its labels are {', '.join(labels) or 'none'}; "
            "name all labels when you make the model: labels=[...]."
        )
    return np.array([ids[name] for name in names], np.int32)


# Inputs without texts must not import TensorFlow, because tasks run without it on JAX.


def _text_columns(x: Any) -> tuple[Any, ...] | None:
    """Returns columns of strings, or None if `x` has no texts; see `text_columns`."""
    if isinstance(x, (str, bytes)):
        raise InputError(f"x is one text, {x[:50]!r}, but must be a list of texts.")
    if isinstance(x, (list, tuple)) and not len(x):
        raise InputError("x has no texts; give one or more.")
    if not is_strings(x):
        return None
    from keras_bert.text.batches import text_columns

    return text_columns(x)


def _holds_texts(x: Any) -> bool:
    if not hasattr(x, "element_spec"):  # of a `tf.data.Dataset`
        return False
    from keras_bert.text.batches import holds_texts

    return holds_texts(x)


def _arguments(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of a method of `keras.Model` by name."""
    given = inspect.signature(method).bind(None, *args, **kwargs).arguments
    return {name: value for name, value in list(given.items())[1:] if name != "kwargs"} | given.get(
        "kwargs", {}
    )
