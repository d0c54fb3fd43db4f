"""Texts as users hold them, to a batch of UTF-8 strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.surrogates import without_surrogates

Texts: TypeAlias = "str | bytes | Sequence[str] | np.ndarray | tf.Tensor"
"""A text or a batch of them."""


def to_strings(texts: Texts) -> tf.Tensor:
    """Texts as strings `[N]`; a single text is a batch of one.

    A lone surrogate, which no encoding can express, becomes U+FFFD.

    Raises:
        InputError: if the texts are not strings, or are nested.
    """
    strings: Any = texts if tf.is_tensor(texts) else _from_python(texts)
    if strings.dtype != tf.string:
        raise InputError(f"Texts must be strings, not {strings.dtype.name}.")
    if strings.shape.rank == 0:
        return strings[tf.newaxis]
    if strings.shape.rank != 1:
        raise InputError(f"Texts must have the shape [N], not {strings.shape}: flatten them.")
    return strings


def _from_python(texts: Any) -> tf.Tensor:
    if isinstance(texts, np.ndarray):
        texts = texts.tolist()
    elif isinstance(texts, Iterable) and not isinstance(texts, (str, bytes)):
        texts = list(texts)
    if texts == []:
        return tf.zeros([0], tf.string)
    try:
        return tf.constant(texts)
    except (TypeError, ValueError):
        return tf.constant(
            [_valid(text) for text in texts] if isinstance(texts, list) else _valid(texts)
        )


def _valid(text: Any) -> str | bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise InputError(f"Texts must be strings: got {text!r} of type {type(text).__name__}.")
    return without_surrogates(text)
