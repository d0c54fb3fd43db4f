"""This package's own format: a directory with configuration, weights and tokenizer.

keras_bert.json        format version, class and configuration of the model
weights.safetensors    weights by the names of `saved_weights`
README.md              the model card
preprocessor.json      the preprocessor, if the model has one
vocab.txt              the vocabulary of WordPiece; other tokenizers have other files
"""

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

import keras_bert
from keras_bert.atomic import replacing
from keras_bert.checkpoints.card import README, Card, write_card
from keras_bert.checkpoints.contents import Contents
from keras_bert.checkpoints.directories import TEXT_FILES, replaceable_files
from keras_bert.checkpoints.files import SafetensorsFiles, read_json, save_tensors, write_json
from keras_bert.checkpoints.mapping import SAME, Link
from keras_bert.checkpoints.variables import saved_weights, task_arguments, task_name
from keras_bert.errors import CheckpointError
from keras_bert.layers.encoder import Encoder
from keras_bert.tasks.registry import TASKS

CONFIGURATION, WEIGHTS, PREPROCESSOR = "keras_bert.json", "weights.safetensors", "preprocessor.json"
FORMAT_VERSION = 1
FILES = (CONFIGURATION, WEIGHTS, PREPROCESSOR, README, *TEXT_FILES)
"""Names of all files that `save_native` can write."""

_EARLIER = functools.partial(
    replaceable_files,
    marker=CONFIGURATION,
    is_known=lambda values: isinstance(values, dict) and values.get("format") == "keras_bert",
    files=FILES,
)


def save_native(model: keras.Model, directory: str | os.PathLike, card: Card = None) -> None:
    """Writes a model's directory with its card, complete or not at all.

    Raises:
        InputError: if the directory holds something other than a model.
        StorageError: if a file cannot be written.
    """
    with replacing(directory, owned=_EARLIER) as path:
        write_native(model, path)
        write_card(path, model, card=card, earlier=Path(directory))


def write_native(model: keras.Model, path: Path, tensors: Mapping[str, Any] | None = None) -> None:
    """Writes a model's files into a new directory. If `tensors` are given, writes them as weights.

    Otherwise, writes the weights that the model has now.
    """
    path.mkdir()
    save_tensors(saved_weights(model) if tensors is None else tensors, path / WEIGHTS)
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None:
        preprocessor.save(path)
    encoder = model if isinstance(model, Encoder) else model.encoder
    description = {
        "format": "keras_bert",
        "format_version": FORMAT_VERSION,
        "keras_bert_version": keras_bert.__version__,
        "task": task_name(model),
        "arguments": task_arguments(model),
        "encoder": encoder.config.to_dict(),
    }
    write_json(description, path / CONFIGURATION)


def is_native(directory: Path) -> bool:
    """Returns whether a directory looks like one that this package wrote."""
    return (directory / CONFIGURATION).is_file()


def open_native(directory: Path) -> Contents:
    """Returns the contents of a directory that `save_native` wrote.

    Raises:
        CheckpointError: if a file is missing or damaged.
    """
    description = _read_description(directory)
    source = SafetensorsFiles({directory / WEIGHTS: None})
    return Contents(
        place=directory,
        task=description["task"],
        encoder=description["encoder"],
        arguments=description["arguments"],
        preprocessor=_read_preprocessor(directory),
        source=source,
        table=[Link(name, name, SAME) for name in source.names()],
    )


def _read_preprocessor(directory: Path) -> Any:
    path = directory / PREPROCESSOR
    if not path.exists():
        return None
    from keras_bert.text.preprocessor import Preprocessor  # imports TensorFlow

    try:
        return Preprocessor.load(directory)
    except OSError as error:
        raise CheckpointError(f"{path} is not a preprocessor's configuration: {error}.") from error


def _read_description(directory: Path) -> dict[str, Any]:
    path = directory / CONFIGURATION
    description = read_json(path)
    if description.get("format") != "keras_bert":
        raise CheckpointError(f"{path} does not describe a keras_bert model.")
    if description.get("format_version") != FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {description.get('format_version')!r}, but this release "
            f"reads version {FORMAT_VERSION}; use a newer keras-bert-encoders."
        )
    if description.get("task") not in TASKS:
        raise CheckpointError(f"{path} names an unknown task {description.get('task')!r}.")
    for key in ("arguments", "encoder"):
        if not isinstance(description.get(key), dict):
            raise CheckpointError(f"{path} lacks {key!r}.")
    return description
