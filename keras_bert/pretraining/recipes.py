"""Reads configurations of runs from YAML files, the package's recipes and `option=value` texts."""

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from keras_bert.errors import InputError, closest
from keras_bert.options import set_option
from keras_bert.pretraining.config import PretrainingConfig


def recipes() -> dict[str, Path]:
    """Returns the paths of the recipes that come with the package, by name."""
    folder = Path(str(files("keras_bert") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_config(path: str | os.PathLike, overrides: Sequence[str] = ()) -> PretrainingConfig:
    """Returns the configuration in a file, with overrides.

    Args:
        path: a YAML file or, if there is no such file, the name of one of `recipes`.
        overrides: texts "option=value", such as "optimizer.learning_rate=1e-4". A value is YAML.

    Raises:
        InputError: if the file, an override or an option cannot be used.
    """
    return PretrainingConfig.from_dict(read_options(path, overrides))


def read_options(path: str | os.PathLike, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the unchecked options in a file, in groups. Takes the arguments of `read_config`.

    Raises:
        InputError: if the file or an override cannot be read.
    """
    try:
        options = yaml.safe_load(_find(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(options, dict):
        raise InputError(f"{path} must hold lines of the form 'option: value'.")
    for override in overrides:
        _override(options, override)
    return options


def _find(path: str | os.PathLike) -> Path:
    name = os.fspath(path)
    if Path(name).is_file() or Path(name).suffix or len(Path(name).parts) > 1:
        return Path(name)
    if name not in recipes():
        raise InputError(
            f"There is no file or recipe {name!r}.{closest(name, recipes())}"
            f" The recipes are {', '.join(recipes())}."
        )
    return recipes()[name]


def _override(options: dict[str, Any], override: str) -> None:
    name, separator, text = override.partition("=")
    if not separator or not name:
        raise InputError(f"{override!r} is not of the form option=value.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        if not text.startswith("*"):  # a glob; YAML would read an alias that does not exist
            raise InputError(f"{text!r} is not a YAML value for {name}.") from error
        value = text
    set_option(options, name, value)
