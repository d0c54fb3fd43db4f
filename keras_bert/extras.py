"""Packages of the extras, which are asked for only when they are needed."""

import importlib
from types import ModuleType

from keras_bert.errors import InputError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """An optional package.

    Args:
        module: the name to import.
        extra: the one of this package that brings it.
        purpose: what needs it, as a message begins ("Learning a vocabulary").

    Raises:
        InputError: naming the extra to install, if the package is missing.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f'{purpose} needs {module} ({error}); run: pip install "keras-bert-encoders[{extra}]".'
        ) from error
