"""Our own directory: configuration, weights and text format, each in a file one can read.

keras_bert.json        format version, class and configuration of the model
weights.safetensors    weights by the names of `named_variables`
preprocessor.json, vocab.txt    the text format, if the model has a preprocessor
"""

import os
from pathlib import Path
from typing import Any

import keras

import keras_bert
from keras_bert.atomic import replacing
from keras_bert.checkpoints.json_files import read_json, write_json
from keras_bert.checkpoints.mapping import SAME, Link, read_model
from keras_bert.checkpoints.safetensors import SafetensorsFiles, save_tensors
from keras_bert.checkpoints.tasks import TASKS, build_model, check_task, task_name
from keras_bert.checkpoints.variables import named_variables
from keras_bert.errors import CheckpointError
from keras_bert.layers.encoder import Encoder

CONFIGURATION, WEIGHTS, PREPROCESSOR = "keras_bert.json", "weights.safetensors", "preprocessor.json"
FORMAT_VERSION = 1


def save_native(model: keras.Model, directory: str | os.PathLike) -> None:
    """Writes a model's directory, complete or not at all.

    Raises:
        InputError: if the directory holds something else, or the disk refuses.
    """
    with replacing(directory, marker=CONFIGURATION) as path:
        write_native(model, path)


def write_native(model: keras.Model, path: Path) -> None:
    """Writes the model's files into a new directory."""
    path.mkdir()
    save_tensors(named_variables(model), path / WEIGHTS)
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None:
        preprocessor.save(path)
    write_json(_describe(model), path / CONFIGURATION)


def load_native(
    directory: str | os.PathLike, task: str | None = None, **options: Any
) -> keras.Model:
    """Reads a model's directory.

    Args:
        directory: what `save_native` wrote.
        task: a key of `TASKS`, to put the encoder into another model than the one saved; what
            the file lacks for it is initialised at random and logged as a warning.
        **options: arguments of the model's constructor that replace the saved ones.

    Raises:
        CheckpointError: if a file is missing, damaged or does not fit the configuration.
        InputError: if the task or an option is unknown.
    """
    directory = Path(directory)
    check_task(task)
    description = _read_description(directory)
    saved = description["task"]
    arguments = description["arguments"] if task in (None, saved) else {}
    if (directory / PREPROCESSOR).exists():
        from keras_bert.text.preprocessor import Preprocessor  # brings TensorFlow

        arguments["preprocessor"] = Preprocessor.load(directory)
    model = build_model(task or saved, description["encoder"], arguments | options, str(directory))
    source = SafetensorsFiles({directory / WEIGHTS: None})
    table = [Link(name, name, SAME) for name in named_variables(model)]
    read_model(model, table, source, another_task=task not in (None, saved))
    return model


def _describe(model: keras.Model) -> dict[str, Any]:
    encoder = model if isinstance(model, Encoder) else model.encoder
    not_arguments = ("name", "dtype", "trainable", "encoder", "preprocessor", "config")
    return {
        "format": "keras_bert",
        "format_version": FORMAT_VERSION,
        "keras_bert_version": keras_bert.__version__,
        "task": task_name(model),
        "arguments": {k: v for k, v in model.get_config().items() if k not in not_arguments},
        "encoder": encoder.config.to_dict(),
    }


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
