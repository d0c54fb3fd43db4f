"""Loads models from files and saves models to files."""

import importlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_bert.checkpoints.card import Card
from keras_bert.checkpoints.contents import Contents, check_saveable
from keras_bert.checkpoints.directories import open_consistently
from keras_bert.checkpoints.hub import at_revision, download
from keras_bert.errors import CheckpointError, InputError, closest


class Format(NamedTuple):
    """Format of a directory. The format's module is imported when it is needed.

    Args:
        module: module in this package with the functions `is_NAME`, `open_NAME` and `save_NAME`.
        name: the NAME in the functions' names.
        has_card: whether a save writes a model card.
    """

    module: str
    name: str
    has_card: bool = False

    def _call(self, verb: str, *args: Any) -> Any:
        module = importlib.import_module(f"{__name__}.{self.module}")
        return getattr(module, f"{verb}_{self.name}")(*args)

    def fits(self, path: Path) -> bool:
        """Returns whether a directory has the format."""
        return self._call("is", path)

    def open(self, path: Path) -> Contents:
        """Returns the contents of a directory without reading weights."""
        return self._call("open", path)

    def save(self, model: keras.Model, directory: str | os.PathLike, card: Card) -> None:
        """Writes a model into a directory."""
        self._call("save", model, directory, *([card] if self.has_card else []))


FORMATS = {  # a directory is opened with the first format that it fits
    "native": Format("native", "native", has_card=True),
    "google": Format("google", "google"),
    "keras-hub": Format("keras_hub", "keras_hub"),
    "sentence-transformers": Format(
        "huggingface.sentence_transformers", "sentence_transformers", has_card=True
    ),
    "huggingface": Format("huggingface.directory", "hugging_face", has_card=True),
}


def load(
    path: str | os.PathLike, task: str | None = None, *, revision: str | None = None, **options: Any
) -> keras.Model:
    """Opens a model of this package or of another library.

    Args:
        path: one of these:
            a directory that `save` wrote;
            a directory of Hugging Face's transformers or of sentence-transformers;
            a model's name on the Hugging Face Hub, "google-bert/bert-base-uncased", or its name
            and a revision, "google-bert/bert-base-uncased@main";
            a TF1 checkpoint of Google or a TF2 checkpoint of TF Model Garden, with
            `bert_config.json`;
            a KerasHub preset;
            a `.keras` file.
        task: task of the returned model: "encoder", "classifier", "embedder", "masked_lm",
            "multiple_choice", "next_sentence", "pretraining", "replaced_token", "span_classifier"
            or "token_classifier". None means the saved task. For another task, weights of the head
            and the pooler that the checkpoint lacks are initialized at random, and a warning lists
            them.
        revision: branch, tag, commit or "refs/pr/1" of a model on the hub; another way to write
            the revision after "@" in `path`.
        **options: arguments of the model's constructor, for instance `labels=["no", "yes"]` or
            `dtype="mixed_bfloat16"`. They replace the saved arguments. `remat=True` is the
            encoder's option to save memory in training.

    Returns:
        An `Encoder` or a task. Its `preprocessor` is set if the checkpoint has a vocabulary.

    Raises:
        CheckpointError: if a file is missing, damaged or pickled, or does not fit the
            configuration.
        InputError: if the task or an option is unknown, or `path` exists here, but `revision` is
            given.

    Example:
        >>> classifier = keras_bert.load("run/model", task="classifier", labels=["no", "yes"])
    """
    if revision is not None and not is_on_hub(path):
        raise InputError(f"revision is {revision!r}, but {path} is not on the hub; leave it out.")
    path = at_revision(path, revision)
    if Path(path).suffix == ".keras" and Path(path).is_file():
        from keras_bert.checkpoints.keras_file import open_keras_file

        return open_keras_file(Path(path))
    return open_checkpoint(path)[1].load(task, **options)


def save(
    model: keras.Model,
    directory: str | os.PathLike,
    format: str = "native",
    card: Card = None,
) -> None:
    """Writes a model, complete or not at all.

    The formats "native", "huggingface" and "sentence-transformers" include a model card,
    `README.md`. If a person wrote or changed the card in the directory, the card stays, and a
    warning says so.

    LoRA adapters of `model.enable_lora` are merged into the saved weights. If a model with adapters
    has int8 kernels, they are saved as float32. The model itself does not change.

    Args:
        model: an `Encoder` or a task.
        directory: directory to write. An earlier model in it is replaced.
        format: one of these:
            "native";
            "huggingface", for transformers;
            "sentence-transformers", for an embedder;
            "google", Google's TF1 checkpoint with `bert_config.json`;
            "keras-hub", a KerasHub preset.
        card: `keras_bert.checkpoints.card.ModelCardData` for the model card, or the card's whole
            text. A loaded model does not keep its card's data, because it may be trained further.
            But `keras-bert convert` copies the data to the new card.

    Raises:
        InputError: if the format is unknown, has no card or cannot express the model; if the model
            belongs to a subclass or is quantized; or if the directory holds something other than a
            model.
        StorageError: if a file cannot be written.

    Example:
        >>> keras_bert.save(classifier, "my-model")
        >>> keras_bert.save(classifier, "for-transformers", format="huggingface")
    """
    if format not in FORMATS:
        raise InputError(
            f"There is no format {format!r}.{closest(format, FORMATS)} "
            f"The formats are {', '.join(FORMATS)}."
        )
    check_saveable(model)
    if card is not None and not FORMATS[format].has_card:
        raise InputError(f"The format {format!r} has no model card; leave card out.")
    FORMATS[format].save(model, directory, card)


def is_on_hub(path: str | os.PathLike) -> bool:
    """Returns whether `load` looks for a path on the Hugging Face Hub, not in local files."""
    here = Path(path)
    return not here.exists() and not any(format.fits(here) for format in FORMATS.values())


def open_checkpoint(path: str | os.PathLike) -> tuple[str, Contents]:
    """Returns the format of a checkpoint, a key of `FORMATS`, and its contents without weights.

    Raises:
        CheckpointError: if the checkpoint is not complete or has no known format, or if another
            process replaces it whenever it is opened.
    """
    opened = open_consistently(Path(path), lambda: _open(Path(path)))
    if opened:
        return opened
    if not Path(path).exists():
        return open_checkpoint(download(path))
    inside = sorted(Path(path).glob("*/")) if Path(path).is_dir() else []
    for directory in inside:
        if any(format.fits(directory) for format in FORMATS.values()):
            raise CheckpointError(f"{path} is not a model, but {directory} is; give that one.")
    raise CheckpointError(
        f"{path} is not a model that can be opened here: expected a directory with "
        "keras_bert.json (this package), config.json (Hugging Face, KerasHub) or "
        "bert_config.json (Google), or a .keras file."
    )


def _open(path: Path) -> tuple[str, Contents] | None:
    """Returns a checkpoint's format and contents, or None if it fits no format."""
    for name, format in FORMATS.items():
        if format.fits(path):
            return name, format.open(path)
    return None
