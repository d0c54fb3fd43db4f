"""The ways into an artifact, and texts as each of them takes them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.export.check import Arrays
from keras_bert.export.process import Process
from keras_bert.export.saved_model import NAMES
from keras_bert.text.strings import to_strings

_OURS = {theirs: ours for names in NAMES.values() for ours, theirs in names.items()}
_TEXT_COLUMNS = {"text": ("text",), "text pair": ("text", "text_pair")}
_SIGNATURES = ("serving_default", "text_pair", "ids")  # others answer in forms of their own


@dataclasses.dataclass(frozen=True)
class Way:
    """A signature of an artifact whose outputs are those of the model.

    Args:
        signature: its name.
        takes: "text", "text pair" or "ids".
        shapes: of its inputs, by their names in the artifact; what is free is -1.
    """

    signature: str
    takes: str
    shapes: Mapping[str, list[int]]

    @property
    def length(self) -> int | None:
        """The only number of tokens that it takes, or None: any, or as many as the text has."""
        length = next(iter(self.shapes.values()))[-1]
        return length if self.takes == "ids" and length > 0 else None

    @property
    def batch(self) -> int | None:
        """The only number of texts that it takes at once, or None for any."""
        size = next(iter(self.shapes.values()))[0]
        return size if size > 0 else None

    def inputs(self, texts: Any, ids: Arrays) -> Arrays:
        """Texts, and the same as ids `[N, T]` by our names, to what the signature takes."""
        if self.takes == "ids":
            return {name: ids[_OURS.get(name, name)] for name in self.shapes}
        columns = texts if isinstance(texts, tuple) else (texts,)
        return dict(zip(_TEXT_COLUMNS[self.takes], map(_strings, columns), strict=True))


def ways_into(process: Process, texts: Any) -> list[Way]:
    """The ways by which an artifact takes given texts, pairs of texts, or ids.

    Raises:
        InputError: if there is none.
    """
    wanted = ("ids",) if isinstance(texts, Mapping) else ("text", "text pair", "ids")
    wanted = tuple(kind for kind in wanted if kind != _other(texts))
    ways = []
    for signature in _SIGNATURES:
        shapes = process.signatures.get(signature, {})
        takes = next((k for k, names in _TEXT_COLUMNS.items() if set(names) == set(shapes)), "ids")
        if shapes and takes in wanted:
            ways.append(Way(signature, takes, shapes))
    if not ways:
        raise InputError(f"{process.path} does not take {' or '.join(wanted)}.")
    return ways


def ids_of(model: Any, texts: Any, length: int | None = None) -> dict[str, np.ndarray]:
    """Texts as ids `[N, T]` int32; T is `length`, where that is given.

    Args:
        model: whose preprocessor makes them.
        texts: N texts; a tuple of two lists for pairs; or ids by name.
        length: what they are cut or filled up to.

    Raises:
        InputError: if there are none, or the model cannot take texts.
    """
    if isinstance(texts, Mapping):
        return _given_ids(texts, length)
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None:
        raise InputError(
            f"This {type(model).__name__} has no preprocessor, so it cannot be verified on texts; "
            "give token_ids and padding_mask [N, T] in a dictionary instead."
        )
    if length is not None:
        preprocessor = preprocessor.with_length(length)
    ids = {name: np.asarray(array) for name, array in preprocessor(texts).items()}
    return _not_empty(ids)


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


def _given_ids(arrays: Mapping[str, Any], length: int | None) -> dict[str, np.ndarray]:
    if "token_ids" not in arrays:
        raise InputError(f"The ids hold {sorted(arrays)}, but need 'token_ids' [N, T].")
    token_ids = np.asarray(arrays["token_ids"], "int32")
    defaults = {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": np.ones_like(token_ids),
    }
    ids = {name: np.asarray(arrays.get(name, array), "int32") for name, array in defaults.items()}
    return _not_empty(filled_up(ids, length))


def _not_empty(ids: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if not len(ids["token_ids"]):
        raise InputError("There are no texts to verify the artifacts on; give at least one.")
    return ids


def _other(texts: Any) -> str:
    """What texts of the one kind are not."""
    return "text" if isinstance(texts, tuple) else "text pair"


def _strings(texts: Any) -> np.ndarray:
    """Texts as an array of bytes `[N]`."""
    return to_strings(texts).numpy()
