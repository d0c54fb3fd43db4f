"""Models from files and to files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_bert.checkpoints.card import Card
from keras_bert.checkpoints.contents import Contents
from keras_bert.checkpoints.directories import open_consistently
from keras_bert.checkpoints.google import is_google, open_google, save_google
from keras_bert.checkpoints.hub import download
from keras_bert.checkpoints.huggingface.directory import (
    is_hugging_face,
    open_hugging_face,
    save_hugging_face,
)
from keras_bert.checkpoints.huggingface.sentence_transformers import (
    is_sentence_transformers,
    open_sentence_transformers,
    save_sentence_transformers,
)
from keras_bert.checkpoints.keras_file import SUFFIX, open_keras_file
from keras_bert.checkpoints.keras_hub import is_keras_hub, open_keras_hub, save_keras_hub
from keras_bert.checkpoints.native import is_native, open_native, save_native
from keras_bert.checkpoints.tasks import check_saveable
from keras_bert.errors import CheckpointError, InputError, closest


class Format(NamedTuple):
    """A kind of directory: how to know it, open it and write it."""

    fits: Callable[[Path], bool]
    open: Callable[[Path], Contents]
    save: Callable[..., None]


FORMATS = {  # the first that fits opens a directory
    "native": Format(is_native, open_native, save_native),
    "google": Format(is_google, open_google, save_google),
    "keras-hub": Format(is_keras_hub, open_keras_hub, save_keras_hub),
    "sentence-transformers": Format(
        is_sentence_transformers, open_sentence_transformers, save_sentence_transformers
    ),
    "huggingface": Format(is_hugging_face, open_hugging_face, save_hugging_face),
}
WITH_CARD = ("native", "huggingface", "sentence-transformers")


def load(path: str | os.PathLike, task: str | None = None, **options: Any) -> keras.Model:
    """Opens a model, whoever wrote it.

    Args:
        path: a directory that `save` wrote; a directory of Hugging Face's transformers or of
            sentence-transformers, or the name of one on its hub, "google-bert/bert-base-uncased";
            one of Google's TF1 checkpoints or TF Model Garden's TF2 checkpoints, with
            `bert_config.json`; a KerasHub preset; or a `.keras` file.
        task: "encoder", "classifier", "embedder", "masked_lm", "multiple_choice",
            "next_sentence", "pretraining", "replaced_token", "span_classifier" or
            "token_classifier", to put the encoder into another model than the saved one. Weights
            that the checkpoint lacks are initialized at random and logged as a warning.
        **options: arguments of the model's constructor, for instance `labels=["no", "yes"]`,
            `dtype="mixed_bfloat16"`; they replace the saved ones.

    Returns:
        An `Encoder` or a task. Its `preprocessor` is set if the checkpoint has a vocabulary.

    Raises:
        CheckpointError: if a file is missing, damaged, pickled or does not fit the configuration.
        InputError: if the task or an option is unknown.

    Example:
        >>> classifier = keras_bert.load("run/model", task="classifier", labels=["no", "yes"])
    """
    if Path(path).suffix == SUFFIX and Path(path).is_file():
        return open_keras_file(Path(path))
    return open_checkpoint(path)[1].load(task, **options)


def save(
    model: keras.Model,
    directory: str | os.PathLike,
    format: str = "native",
    card: Card = None,
) -> None:
    """Writes a model, complete or not at all.

    The first three formats come with a model card, `README.md`. One that a person wrote or
    changed stays as it is when a model is saved over it, which is logged.

    LoRA adapters of `layer.enable_lora` are added to the weights that they adapt; the model itself
    keeps them apart.

    Args:
        model: an `Encoder` or a task.
        directory: where to; an earlier model there is replaced.
        format: "native"; "huggingface", which transformers opens; "sentence-transformers", for
            an embedder; "google", Google's TF1 checkpoint with `bert_config.json`; "keras-hub",
            a KerasHub preset.
        card: `keras_bert.checkpoints.card.ModelCardData` for the model card, or the card's whole
            text. A loaded model does not keep the data of the card beside it, because the model may
            have been trained since. `keras-bert convert` takes the data along.

    Raises:
        InputError: if the format is unknown, has no card or cannot express the model, the model
            is of a subclass or quantized, the directory holds something else.
        StorageError: if a file cannot be written.
    """
    if format not in FORMATS:
        raise InputError(
            f"There is no format {format!r}.{closest(format, FORMATS)} "
            f"The formats are {', '.join(FORMATS)}."
        )
    check_saveable(model)
    if format in WITH_CARD:
        FORMATS[format].save(model, directory, card)
    elif card is None:
        FORMATS[format].save(model, directory)
    else:
        raise InputError(f"The format {format!r} has no model card; leave card out.")


def is_on_hub(path: str | os.PathLike) -> bool:
    """Whether this is nothing here, so that `load` takes it for a name on the Hugging Face Hub."""
    here = Path(path)
    return not here.exists() and not any(format.fits(here) for format in FORMATS.values())


def open_checkpoint(path: str | os.PathLike) -> tuple[str, Contents]:
    """The format of a checkpoint, a key of `FORMATS`, and what it holds; no weight is read.

    Raises:
        CheckpointError: if it is not complete, or not of any format, or replaced all the time.
    """
    opened = open_consistently(Path(path), lambda: _open(Path(path)))
    if opened:
        return opened
    if not Path(path).exists():
        return open_checkpoint(download(path))
    inside = sorted(Path(path).glob("*/")) if Path(path).is_dir() else []
    for directory in inside:
        if any(format.fits(directory) for format in FORMATS.values()):
            raise CheckpointError(f"{path} is no model, but {directory} is; give that.")
    raise CheckpointError(
        f"{path} is not a model that can be opened here: expected a directory with "
        "keras_bert.json (ours), config.json (Hugging Face, KerasHub) or bert_config.json "
        "(Google), or a .keras file."
    )


def _open(path: Path) -> tuple[str, Contents] | None:
    """Returns a checkpoint's format and contents, or None if it fits no format."""
    for name, format in FORMATS.items():
        if format.fits(path):
            return name, format.open(path)
    return None
