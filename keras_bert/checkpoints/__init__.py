"""Models from files and to files."""

import os
from pathlib import Path
from typing import Any

import keras

from keras_bert.checkpoints.huggingface import (
    is_hugging_face,
    load_hugging_face,
    save_hugging_face,
)
from keras_bert.checkpoints.native import CONFIGURATION, load_native, save_native
from keras_bert.errors import CheckpointError, InputError

_SAVERS = {"native": save_native, "huggingface": save_hugging_face}


def load(path: str | os.PathLike, task: str | None = None, **options: Any) -> keras.Model:
    """Opens a model.

    Args:
        path: a directory that `save` wrote, or a `.keras` file.
        task: "encoder", "classifier", "masked_lm" or "pretraining", to put the encoder of a
            directory into another model than the one that was saved.
        **options: arguments of the model's constructor, for instance `labels=["no", "yes"]`,
            `dtype="mixed_bfloat16"`.

    Returns:
        An `Encoder` or a task.

    Raises:
        CheckpointError: if a file is missing, damaged or does not fit the configuration.
        InputError: if the task or an option is unknown.

    Example:
        >>> classifier = keras_bert.load("run/model", task="classifier", labels=["no", "yes"])
    """
    path = Path(path)
    if path.suffix == ".keras" and path.is_file():
        return keras.models.load_model(path)
    if (path / CONFIGURATION).is_file():
        return load_native(path, task, **options)
    if is_hugging_face(path):
        return load_hugging_face(path, task, **options)
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; give the directory of a saved model.")
    raise CheckpointError(
        f"{path} is not a model that can be opened here: expected a directory with "
        f"{CONFIGURATION}, or a .keras file."
    )


def save(model: keras.Model, directory: str | os.PathLike, format: str = "native") -> None:
    """Writes a model, complete or not at all.

    Args:
        model: an `Encoder` or a task.
        directory: where to; an earlier model there is replaced.
        format: "native".

    Raises:
        InputError: if the format is unknown, the directory holds something else, or the disk
            refuses.
    """
    if format not in _SAVERS:
        raise InputError(f"There is no format {format!r}; choose one of {', '.join(_SAVERS)}.")
    _SAVERS[format](model, directory)
