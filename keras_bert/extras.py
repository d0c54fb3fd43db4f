"""Packages that not everything here needs, which are asked for only when they are needed."""

import importlib
import os
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


def require_tensorflow_backend(purpose: str) -> None:
    """Passes if Keras computes with TensorFlow.

    Args:
        purpose: what needs it, as a message begins ("Fine-tuning").

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
