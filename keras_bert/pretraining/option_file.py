"""Options of a run from a YAML file and `option=value`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from keras_bert.errors import InputError


def read_options(path: str | os.PathLike, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Reads a mapping of option to value.

    Args:
        path: a YAML file.
        overrides: "option=value", the value as in YAML; "encoder.option=value" for the encoder.

    Raises:
        InputError: if the file or an override cannot be read.
    """
    try:
        options = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(options, dict):
        raise InputError(f"{path} must hold lines of the form 'option: value'.")
    for override in overrides:
        _override(options, override)
    return options


def _override(options: dict[str, Any], override: str) -> None:
    name, separator, text = override.partition("=")
    if not separator or not name:
        raise InputError(f"{override!r} is not of the form option=value.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{text!r} is not a YAML value for {name}.") from error
    group, dot, option = name.partition(".")
    if not dot:
        options[name] = value
    elif group == "encoder":
        options["encoder"] = {**(options.get("encoder") or {}), option: value}
    else:
        raise InputError(f"{name!r} is no option; only encoder has options of its own.")
