"""Signatures of an artifact: the inputs that they take, and how to make these inputs."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from keras_bert.errors import InputError
from keras_bert.export.formats import INPUT_NAMES
from keras_bert.export.process import Process
from keras_bert.export.signatures import Arrays, ids_function
from keras_bert.layers.configured import INPUTS
from keras_bert.text.tokenizer import to_strings

_OURS = dict(zip(INPUTS, INPUTS, strict=True))
_OURS |= {theirs: ours for names in INPUT_NAMES.values() for ours, theirs in names.items()}
_TAKES = {
    ("text",): "text",
    ("text", "text_pair"): "text pair",
    ("question", "context"): "text pair",
}
"""Kind of texts by the names of the text inputs."""


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature of an artifact that gives outputs of the model.

    Args:
        name: name of the signature.
        takes: "text", "text pair" or "ids".
        columns: names of the inputs. Text inputs are in the order of the texts.
        shape: shape of each input, with -1 for a free size.
        outputs: names of the outputs.
    """

    name: str
    takes: str
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    outputs: frozenset[str]

    @property
    def length(self) -> int | None:
        """Fixed number of tokens, or None if the number is free or the artifact takes texts."""
        return self.shape[1] if self.takes == "ids" and self.shape[1] > 0 else None

    @property
    def batch(self) -> int | None:
        """Fixed batch size, or None if the batch size is free."""
        return self.shape[0] if self.shape[0] > 0 else None

    def inputs(self, texts: Any, ids: Arrays) -> Arrays:
        """Selects the signature's inputs from texts and from their ids `[N, T]`."""
        if self.takes == "ids":
            return {name: ids[_OURS[name]] for name in self.columns}
        several = texts if isinstance(texts, tuple) else (texts,)
        strings = (to_strings(column).numpy() for column in several)
        return dict(zip(self.columns, strings, strict=True))


def signatures_for(process: Process, outputs: Iterable[str], texts: Any) -> list[Signature]:
    """Returns the signatures of an artifact that take the given texts, pairs of texts, or ids.

    Args:
        process: the artifact's process.
        outputs: names of the model's outputs. A signature without any of them is left out.
        texts: texts, a tuple of two lists of texts, or ids by name.

    Raises:
        InputError: if no signature takes the texts.
    """
    kinds = {"ids"}
    if not isinstance(texts, Mapping):
        kinds.add("text pair" if isinstance(texts, tuple) else "text")
    signatures = [
        signature
        for name, description in process.signatures.items()
        if (signature := _read(name, description)) is not None
        and signature.takes in kinds
        and signature.outputs & set(outputs)
    ]
    if not signatures:
        raise InputError(
            f"{process.path} cannot be compared: it has no signature from "
            f"{' or '.join(sorted(kinds))} to outputs of the model."
        )
    return sorted(signatures, key=lambda signature: signature.takes, reverse=True)


def _read(name: str, description: Mapping[str, Any]) -> Signature | None:
    """Reads a signature; returns None if it takes neither texts nor ids."""
    inputs = description["inputs"]
    columns = next((names for names in _TAKES if set(names) == set(inputs)), tuple(inputs))
    takes = _TAKES.get(columns, "ids")
    if not columns or (takes == "ids" and not _OURS.keys() >= inputs.keys()):
        return None
    shape, outputs = tuple(inputs[columns[0]]), frozenset(description["outputs"])
    return Signature(name, takes, columns, shape, outputs)


def output_names(model: Any) -> set[str]:
    """Returns the names that a model's outputs have in all formats."""
    return set(ids_function(model).get_concrete_function().structured_outputs)
