"""Lazy imports of optional packages and of a package's public names."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from keras_bert.errors import InputError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Imports an optional package.

    Args:
        module: name of the module to import.
        extra: extra of keras_bert that installs the module.
        purpose: subject of the error message, for example "Learning a vocabulary".

    Raises:
        InputError: if the module is missing; the message names the extra to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{purpose} needs {module} ({error}); run in a clone of keras_bert: "
            f'pip install -e ".[{extra}]".'
        ) from error


def require_tensorflow_backend(purpose: str) -> None:
    """Checks that Keras computes with TensorFlow.

    Args:
        purpose: subject of the error message, for example "Fine-tuning".

    Raises:
        InputError: if Keras' backend is not TensorFlow, whether or not the backend is installed.
    """
    try:
        backend = importlib.import_module("keras").config.backend()
    except ImportError:
        backend = os.environ.get("KERAS_BACKEND", "tensorflow")
        if backend == "tensorflow":
            raise
    if backend != "tensorflow":
        raise InputError(
            f"{purpose} needs TensorFlow, but Keras is set to compute with {backend}; unset "
            "KERAS_BACKEND, or set it to tensorflow."
        )


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package that imports a name when it is first used.

    Args:
        package: `__name__` of the package.
        modules: for each public name, the module that defines it, relative to the package.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
