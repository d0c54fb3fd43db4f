"""Optional packages, imported when they are needed."""

import importlib
import os
from types import ModuleType

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
            f'{purpose} needs {module} ({error}); run: pip install "keras-bert-encoders[{extra}]".'
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
