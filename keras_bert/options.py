"""Base class of configurations, whose fields have a type, a range, a default and a help text.

A configuration is a frozen pydantic model, divided into groups. The YAML reader, the `key=value`
arguments, `--help` and the reference page all use these fields.
"""

import os
import types
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic
from pydantic.fields import FieldInfo

from keras_bert.errors import InputError, closest

LARGEST = 2**31
"""Largest count. Messages do not show this bound, because no user needs so large a count."""


def _to_number(value: Any) -> Any:
    """Converts text to a number: PyYAML reads numbers without a point, such as 1e-4, as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _to_names(value: Any) -> Any:
    """Converts one file name, or a list of file names, to a tuple of strings."""
    values = [value] if isinstance(value, (str, os.PathLike)) else value
    if values is not None and (
        not isinstance(values, (list, tuple))
        or not all(isinstance(each, (str, os.PathLike)) for each in values)
    ):
        raise ValueError("a file name or a list of them")
    return tuple(os.fspath(each) for each in values or ())


Count = Annotated[int, pydantic.Field(ge=1, le=LARGEST)]
OptionalCount = Annotated[int | None, pydantic.Field(ge=1, le=LARGEST)]
Number = Annotated[float, pydantic.BeforeValidator(_to_number)]
OptionalNumber = Annotated[float | None, pydantic.BeforeValidator(_to_number)]
Numbers = Annotated[
    tuple[Number, ...],
    pydantic.BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]
Names = Annotated[tuple[str, ...], pydantic.BeforeValidator(_to_names)]


class Options(pydantic.BaseModel):
    """Base class of configurations and of their groups of options.

    Raises:
        InputError: if an option is unknown, missing, of another type or out of its range.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            raise InputError(_sentence(type(self), error)) from None

    # Makes pydantic validate a group inside a configuration without this `__init__`. Then the
    # configuration's error also names the group.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _to_int(cls, value: Any) -> Any:
        """Converts a NumPy integer to an int."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return int(value) if whole else value

    def to_dict(self) -> dict[str, Any]:
        """Returns the options, in groups, as values for JSON and YAML."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """Makes a configuration from the dictionary of `to_dict`.

        Raises:
            InputError: if an option is unknown, missing, of another type or out of its range.
        """
        return cls(**{str(name): value for name, value in values.items()})


def fields(options: type[Options]) -> dict[str, FieldInfo]:
    """Returns the fields of a configuration by their dotted names, such as `model.family`."""
    return dict(_fields(options, ""))


def flatten(options: type[Options], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of `to_dict` by their dotted names. A missing option has its default."""
    flat = {}
    for name, field in fields(options).items():
        group, _, last = name.rpartition(".")
        inside = values.get(group, {}) if group else values
        flat[name] = inside.get(last, field.get_default(call_default_factory=True))
    return flat


def set_option(values: dict[str, Any], name: str, value: Any) -> None:
    """Sets the option with a dotted name in nested values, in place.

    Raises:
        InputError: if a part of the name before the last is not a group.
    """
    *groups, last = name.split(".")
    for depth, group in enumerate(groups, 1):
        inside = values.get(group)
        if inside is not None and not isinstance(inside, dict):
            raise InputError(
                f"{'.'.join(groups[:depth])} is {inside!r}, but must be a group of options."
            )
        values[group] = values = dict(inside or {})
    values[last] = value


def expected_range(field: FieldInfo) -> str:
    """Returns the range of a field in words, or "" if every value is allowed."""
    bounds = {
        name: value
        for entry in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if (value := getattr(entry, name, None)) is not None and value != LARGEST
    }
    optional = ", or null" if type(None) in get_args(field.annotation) else ""
    upper = f"at most {bounds['le']}" if "le" in bounds else ""
    upper = f"below {bounds['lt']}" if "lt" in bounds else upper
    if "gt" in bounds:
        words = "positive" if bounds["gt"] == 0 else f"more than {bounds['gt']}"
        return f"{words}{f' and {upper}' if upper else ''}{optional}"
    if "ge" in bounds and upper:
        return f"from {bounds['ge']} to {upper.removeprefix('at most ')}{optional}"
    if "ge" in bounds:
        return f"{bounds['ge']} or more{optional}"
    return f"{upper}{optional}" if upper else ""


def no_option(name: str, options: type[Options]) -> str:
    """Returns the message for an unknown option. It suggests the option with the closest name."""
    names = list(fields(options))
    last = name.rpartition(".")[2]
    groups = dict.fromkeys(known.partition(".")[0] for known in names if "." in known)
    by_last = {known.rpartition(".")[2]: known for known in names}
    found = last if last in by_last else ""
    found = found or next((each for each in by_last if last in each.split("_")), "")
    if not found:
        match = closest(name, names) or closest(last, by_last)
        found = match.partition("'")[2].rpartition("'")[0]
    hint = f"did you mean {by_last.get(found, found)}?" if found else ""
    hint = hint or f"the groups of options are {', '.join(groups)}."
    return f"There is no option {name}; {hint}"


def _fields(options: type[Options], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in options.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Options):
            yield from _fields(annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def expected_type(annotation: Any) -> str:
    """Returns the type of a field in words."""
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(
            expected_type(each) for each in get_args(annotation) if each is not type(None)
        )
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(annotation)))}"
    if get_origin(annotation) is tuple:
        of_names = get_args(annotation)[0] is str
        return "a file name or a list of them" if of_names else "a list of numbers"
    if get_origin(annotation) is dict:
        return f"a mapping of {'options' if get_args(annotation)[1] is Any else 'names to numbers'}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return words[annotation]


def _sentence(options: type[Options], error: pydantic.ValidationError) -> str:
    """Returns the message for pydantic's first error that is not a missing option.

    If all errors are missing options, returns the message that lists them.
    """
    problems = error.errors(include_url=False)
    known = fields(options)
    missing = [
        full
        for name in (_name(p["loc"]) for p in problems if p["type"] == "missing")
        for full in known
        if known[full].is_required() and (full == name or full.startswith(f"{name}."))
    ]
    problem = next((p for p in problems if p["type"] != "missing"), None)
    if problem is None:
        return f"These options are needed: {', '.join(missing)}."
    name, kind, value = _name(problem["loc"]), problem["type"], problem["input"]
    while (
        name not in known and name.rpartition(".")[0] in known
    ):  # the last part is a type of a union
        name = name.rpartition(".")[0]
    if kind == "value_error" and isinstance(problem["ctx"]["error"], InputError):
        return str(problem["ctx"]["error"])  # from a validator of the configuration
    if kind == "extra_forbidden":
        return no_option(name, options)
    if name not in known:  # a group
        inside = [full for full in known if full.startswith(f"{name}.")]
        return f"{name} is {value!r}, but is a group of options: {', '.join(inside)}."
    field = known[name]
    if kind == "literal_error":
        choices = get_args(field.annotation)
        return (
            f"{name} is {value!r}.{closest(str(value), choices)} "
            f"Choose one of {', '.join(choices)}."
        )
    if kind == "too_short":
        return f"{name} is empty, but must name text files."
    in_range = kind in ("greater_than_equal", "greater_than", "less_than_equal", "less_than")
    expected = expected_range(field) if in_range else expected_type(field.annotation)
    return f"{name} is {value!r}, but must be {expected}."


def _name(location: tuple[int | str, ...]) -> str:
    return ".".join(part for part in location if isinstance(part, str))
