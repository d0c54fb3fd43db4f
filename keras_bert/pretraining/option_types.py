"""Options as they are written, and as the fields of a dataclass want them."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from keras_bert.errors import InputError

_TYPES: dict[str, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "text"),
    "tuple[str, ...]": (tuple, "a list of names"),
    "collections.abc.Mapping[str, typing.Any]": (Mapping, "a mapping of options"),
}


def check_type(field: dataclasses.Field, value: Any) -> None:
    """Passes for a value of a field's type.

    Raises:
        InputError: for another.
    """
    annotation = _annotation(field)
    if value is None and annotation.endswith(" | None"):
        return
    expected, words = _TYPES[annotation.removesuffix(" | None")]
    accepted = (int, float) if expected is float else expected
    if not isinstance(value, accepted) or (isinstance(value, bool) and expected is not bool):
        raise InputError(f"{field.name} is {value!r}, but must be {words}.")


def read_value(field: dataclasses.Field, value: Any) -> Any:
    """A value of YAML or JSON for a field; PyYAML reads 1e-4, without a point, as text.

    Raises:
        InputError: for text that is no number where one is wanted.
    """
    if "float" not in _annotation(field) or not isinstance(value, (int, str)):
        return value
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{field.name} is {value!r}, but must be a number.") from None


def to_strings(name: str, value: Any) -> tuple[str, ...]:
    """File names of one or a list of them.

    Raises:
        InputError: for anything else.
    """
    values = [value] if isinstance(value, (str, os.PathLike)) else value or []
    if not isinstance(values, (list, tuple)) or not all(
        isinstance(v, (str, os.PathLike)) for v in values
    ):
        raise InputError(f"{name} is {value!r}, but must be a file name or a list of them.")
    return tuple(os.fspath(v) for v in values)


def _annotation(field: dataclasses.Field) -> str:
    return field.type.__name__ if isinstance(field.type, type) else str(field.type)
