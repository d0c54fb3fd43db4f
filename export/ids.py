"""Texts, or ids of any length, as the inputs that every artifact of ids knows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.export.check import Arrays


def ids_of(model: Any, texts: Any, length: int | None = None) -> dict[str, np.ndarray]:
    """`token_ids`, `segment_ids` and `padding_mask`, `[N, T]` int32; T is `length`, if given.

    Args:
        model: whose preprocessor makes them.
        texts: N texts; a tuple of two lists for pairs; or ids by name, of which `token_ids` are
            enough: without a mask there is no padding.
        length: what they are cut or filled up to.

    Raises:
        InputError: if there are none, the model cannot take texts, or ids are longer or have other
            shapes.
    """
    if isinstance(texts, Mapping):
        ids = filled_up(_given(texts), length)
    else:
        preprocessor = getattr(model, "preprocessor", None)
        if preprocessor is None:
            raise InputError(
                f"This {type(model).__name__} has no preprocessor, so it cannot take texts; give "
                "token_ids and padding_mask [N, T] in a dictionary instead."
            )
        if length is not None:
            preprocessor = preprocessor.with_length(length)
        ids = {name: np.asarray(array) for name, array in preprocessor(texts).items()}
    if not len(ids["token_ids"]):
        raise InputError("There are no texts; give at least one.")
    return ids


def filled_up(ids: Arrays, length: int | None) -> dict[str, np.ndarray]:
    """Ids `[N, T]` with padding up to a length, if one is given.

    Raises:
        InputError: if they are longer.
    """
    tokens = next(iter(ids.values())).shape[1]
    if length is not None and tokens > length:
        raise InputError(f"The ids have {tokens} tokens; the artifact takes {length}.")
    missing = 0 if length is None else length - tokens
    return {name: np.pad(array, ((0, 0), (0, missing))) for name, array in ids.items()}


def without_padding(ids: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Ids `[N, T]` without the columns at the end that are padding in every row; one stays."""
    lengths = tf.reduce_sum(ids["padding_mask"], axis=1)
    longest = tf.maximum(tf.reduce_max(lengths), 1)  # there may be no rows
    return {name: tf.convert_to_tensor(array)[:, :longest] for name, array in ids.items()}


def _given(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if "token_ids" not in arrays:
        raise InputError(f"The ids hold {sorted(arrays)}, but need 'token_ids' [N, T].")
    token_ids = np.asarray(arrays["token_ids"], "int32")
    defaults = {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": np.ones_like(token_ids),
    }
    ids = {name: np.asarray(arrays.get(name, array), "int32") for name, array in defaults.items()}
    for name, array in ids.items():
        if array.ndim != 2 or array.shape != token_ids.shape:
            raise InputError(f"{name} have the shape {array.shape}; all ids need one, [N, T].")
    return ids
