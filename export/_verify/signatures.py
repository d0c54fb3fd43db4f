"""The ways into an artifact."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from keras_bert.errors import InputError
from keras_bert.export.formats import INPUT_NAMES
from keras_bert.export.process import Process
from keras_bert.export.signatures import Arrays, ids_function
from keras_bert.layers.encoder import INPUTS
from keras_bert.text.tokenizer import to_strings

_OURS = dict(zip(INPUTS, INPUTS, strict=True))
_OURS |= {theirs: ours for names in INPUT_NAMES.values() for ours, theirs in names.items()}
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
            return {name: ids[_OURS[name]] for name in self.columns}
        several = texts if isinstance(texts, tuple) else (texts,)
        strings = (to_strings(column).numpy() for column in several)
        return dict(zip(self.columns, strings, strict=True))


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
        for way in itertools.starmap(_way, process.signatures.items())
        if way is not None and way.takes in kinds and way.outputs & set(outputs)
    ]
    if not ways:
        raise InputError(
            f"{process.path} cannot be compared: it has no signature from "
            f"{' or '.join(sorted(kinds))} to outputs of the model."
        )
    return sorted(ways, key=lambda way: way.takes, reverse=True)


def _way(name: str, signature: Mapping[str, Any]) -> Way | None:
    """A signature, if it takes something that is known here."""
    inputs = signature["inputs"]
    columns = next((names for names in _TAKES if set(names) == set(inputs)), tuple(inputs))
    takes = _TAKES.get(columns, "ids")
    if not columns or (takes == "ids" and not _OURS.keys() >= inputs.keys()):
        return None
    return Way(name, takes, columns, tuple(inputs[columns[0]]), frozenset(signature["outputs"]))


def output_names(model: Any) -> set[str]:
    """The names of a model's outputs in all formats."""
    shapes = ids_function(model).get_concrete_function().structured_outputs
    return set(shapes)
