"""Our own directory: configuration, weights and text format, each in a file one can read.

keras_bert.json        format version, class and configuration of the model
weights.safetensors    weights by the names of `named_variables`
preprocessor.json, vocab.txt    the text format, if the model has a preprocessor
"""

import json
import logging
import os
from pathlib import Path
from typing import Any

import keras

import keras_bert
from keras_bert.atomic import replacing
from keras_bert.checkpoints.tensors import assign_tensors, save_tensors
from keras_bert.checkpoints.variables import named_variables
from keras_bert.config import EncoderConfig, closest
from keras_bert.errors import CheckpointError, InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.tasks.classifier import SequenceClassifier
from keras_bert.tasks.masked_lm import MaskedLanguageModel
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.next_sentence import NextSentencePredictor
from keras_bert.tasks.pretraining_model import PretrainingModel
from keras_bert.tasks.span import SpanClassifier
from keras_bert.tasks.tagger import TokenClassifier

CONFIGURATION, WEIGHTS, PREPROCESSOR = "keras_bert.json", "weights.safetensors", "preprocessor.json"
FORMAT_VERSION = 1

TASKS = {
    "encoder": Encoder,
    "classifier": SequenceClassifier,
    "masked_lm": MaskedLanguageModel,
    "multiple_choice": MultipleChoice,
    "next_sentence": NextSentencePredictor,
    "pretraining": PretrainingModel,
    "span": SpanClassifier,
    "tagger": TokenClassifier,
}

logger = logging.getLogger(__name__)


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
    (path / CONFIGURATION).write_text(json.dumps(_describe(model), indent=2) + "\n")


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
    description = _read_description(directory)
    saved = description["task"]
    if task is not None and task not in TASKS:
        raise InputError(
            f"There is no task {task!r}.{closest(task, TASKS)} The tasks are {', '.join(TASKS)}."
        )
    arguments = description["arguments"] if task in (None, saved) else {}
    model = _build(task or saved, description["encoder"], arguments | options, directory)
    missing = assign_tensors(named_variables(model), directory / WEIGHTS)
    needed = [name for name in missing if name.startswith("encoder/") or task in (None, saved)]
    if needed:
        raise CheckpointError(f"{directory / WEIGHTS} lacks the tensor {needed[0]!r}.")
    if missing:
        logger.warning(
            "%s has no %s; initialised at random, to be trained.", directory, ", ".join(missing)
        )
    return model


def _describe(model: keras.Model) -> dict[str, Any]:
    encoder = model if isinstance(model, Encoder) else model.encoder
    names = {cls: name for name, cls in TASKS.items()}
    if type(model) not in names:
        raise InputError(
            f"Cannot save a {type(model).__name__}; the native format holds "
            f"{', '.join(cls.__name__ for cls in names)}."
        )
    not_arguments = ("name", "dtype", "trainable", "encoder", "preprocessor", "config")
    return {
        "format": "keras_bert",
        "format_version": FORMAT_VERSION,
        "keras_bert_version": keras_bert.__version__,
        "task": names[type(model)],
        "arguments": {k: v for k, v in model.get_config().items() if k not in not_arguments},
        "encoder": encoder.config.to_dict(),
    }


def _read_description(directory: Path) -> dict[str, Any]:
    path = directory / CONFIGURATION
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(description, dict) or description.get("format") != "keras_bert":
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


def _build(task: str, encoder_config: dict, arguments: dict, directory: Path) -> keras.Model:
    dtype = arguments.pop("dtype", None)
    try:
        encoder = Encoder(EncoderConfig.from_dict(encoder_config), dtype=dtype)
        if task == "encoder":
            return encoder
        if "preprocessor" not in arguments and (directory / PREPROCESSOR).exists():
            from keras_bert.text.preprocessor import Preprocessor  # brings TensorFlow

            arguments["preprocessor"] = Preprocessor.load(directory)
        return TASKS[task](encoder, **arguments)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{directory}: {error}.") from error
