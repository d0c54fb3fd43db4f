"""The ways into an artifact, and texts as each of them takes them."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.export.check import Arrays
from keras_bert.export.process import Process
from keras_bert.export.saved_model import NAMES
from keras_bert.export.signatures import ids_function
from keras_bert.text.strings import to_strings

_OURS = {theirs: ours for names in NAMES.values() for ours, theirs in names.items()}
_TAKES = {  # names of inputs to what is given there
    ("text",): "text",
    ("text", "text_pair"): "text pair",
    ("question", "context"): "text pair",
}


@dataclasses.dataclass(frozen=True)
class Way:
    """A signature of an artifact that gives outputs of the model.

    Args:
        signature: its name.
        takes: "text", "text pair" or "ids".
        columns: names of its inputs, those of the texts in their order.
        shape: of each of them; what is free is -1.
        outputs: names of what it gives.
    """

    signature: str
    takes: str
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    outputs: frozenset[str]

    @property
    def length(self) -> int | None:
        """The only number of tokens that it takes; None: any, or as many as the text has."""
        return self.shape[1] if self.takes == "ids" and self.shape[1] > 0 else None

    @property
    def batch(self) -> int | None:
        """The only number of texts that it takes at once, or None for any."""
        return self.shape[0] if self.shape[0] > 0 else None

    def inputs(self, texts: Any, ids: Arrays) -> Arrays:
        """Texts, and the same as ids `[N, T]` by our names, to what the signature takes."""
        if self.takes == "ids":
            return {name: ids[_OURS.get(name, name)] for name in self.columns}
        several = texts if isinstance(texts, tuple) else (texts,)
        return dict(zip(self.columns, map(_strings, several), strict=True))


def ways_into(process: Process, outputs: Iterable[str], texts: Any) -> list[Way]:
    """The ways by which an artifact takes given texts, pairs of texts, or ids.

    Args:
        process: in which it runs.
        outputs: names of the model's outputs; signatures that give none of them answer in a form
            of their own, and are left out.
        texts: texts, a tuple of two lists of them, or ids by name.

    Raises:
        InputError: if there is none.
    """
    kinds = {"ids"}
    if not isinstance(texts, Mapping):
        kinds.add("text pair" if isinstance(texts, tuple) else "text")
    ways = [
        way
        for way in map(_way, *zip(*process.signatures.items(), strict=True))
        if way.takes in kinds and way.outputs & set(outputs)
    ]
    if not ways:
        raise InputError(
            f"{process.path} cannot be compared: it has no signature from "
            f"{' or '.join(sorted(kinds))} to outputs of the model."
        )
    return sorted(ways, key=lambda way: way.takes, reverse=True)


def _way(name: str, signature: Mapping[str, Any]) -> Way:
    inputs = signature["inputs"]
    columns = next((names for names in _TAKES if set(names) == set(inputs)), tuple(inputs))
    takes, shape = _TAKES.get(columns, "ids"), tuple(inputs[columns[0]])
    return Way(name, takes, columns, shape, frozenset(signature["outputs"]))


def output_names(model: Any) -> set[str]:
    """The names of a model's outputs in all formats."""
    shapes = ids_function(model).get_concrete_function().structured_outputs
    return set(shapes)


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


def _strings(texts: Any) -> np.ndarray:
    """Texts as an array of bytes `[N]`."""
    return to_strings(texts).numpy()
