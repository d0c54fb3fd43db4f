"""Opens the `.keras` files that Keras' `model.save` writes."""

import importlib
import zipfile
from pathlib import Path, PurePosixPath

import keras

from keras_bert.errors import CheckpointError, InputError, first_sentence
from keras_bert.tasks.registry import TASKS

_MOST_EXPANSION, _ALWAYS_ALLOWED = 10, 2**24
"""Largest unpacked size: 10 times the file's size plus 16 MiB. Weights hardly shrink in a ZIP."""


def open_keras_file(path: Path) -> keras.Model:
    """Opens a `.keras` file without running code in it.

    Raises:
        CheckpointError: if the file is damaged, is far larger when it is unpacked, or needs a class
            that is not registered.
    """
    _check_archive(path)
    _register_classes()
    try:
        return keras.models.load_model(path, safe_mode=True)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise CheckpointError(
            f"{path} cannot be opened as a model of Keras: {first_sentence(error)}."
        ) from error


def _register_classes() -> None:
    """Imports the classes that files can name, because Keras finds only registered classes."""
    for entry in TASKS.values():
        _ = entry.model_class
    importlib.import_module("keras_bert.text.preprocessor")
    importlib.import_module("keras_bert.optimizers.schedules")
    if keras.backend.backend() == "tensorflow":
        importlib.import_module("keras_bert.optimizers.keras_adamw")


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is damaged: {first_sentence(error)}.") from error
    stored, unpacked = path.stat().st_size, sum(entry.file_size for entry in entries)
    if unpacked > _MOST_EXPANSION * stored + _ALWAYS_ALLOWED:
        raise CheckpointError(
            f"{path} has {stored:,} bytes, but would be unpacked to {unpacked:,}, so it is not "
            "opened. Save the model again with model.save."
        )
    for entry in entries:
        name = PurePosixPath(entry.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts:
            raise CheckpointError(
                f"{path} contains the path {entry.filename!r}, which is outside of the file's own "
                "directory, so the file is not opened."
            )
