"""Imports when they are needed: of optional packages, and of a package's public names."""

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
        module: name to import.
        extra: extra of this package that installs it.
        purpose: subject of the message ("Learning a vocabulary").

    Raises:
        InputError: naming the extra to install, if the package is missing.
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
        purpose: subject of the message ("Fine-tuning").

    Raises:
        InputError: if Keras computes with another library, installed or not.
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
        modules: public names to the modules that hold them, named below the package.
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
