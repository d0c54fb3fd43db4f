"""Directories of sentence-transformers: a directory of transformers, and these files.

modules.json                        the modules, in order, and their folders
1_Pooling/config.json               pooling of token vectors
sentence_bert_config.json           largest number of tokens in a text
config_sentence_transformers.json   prompts
"""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import keras

from keras_bert.atomic import replacing
from keras_bert.checkpoints.card import Card, write_card
from keras_bert.checkpoints.contents import Contents
from keras_bert.checkpoints.directories import replaceable_files
from keras_bert.checkpoints.files import read_json, read_json_if_there, write_json
from keras_bert.checkpoints.huggingface.directory import FILES, open_hugging_face, save_hugging_face
from keras_bert.errors import CheckpointError, InputError
from keras_bert.tasks.embedder import TextEmbedder

MODULES, CONFIGURATION, LENGTH = "modules.json", "config.json", "sentence_bert_config.json"
OPTIONS = "config_sentence_transformers.json"
_FLAG = "pooling_mode_"
_FLAGS = {
    "mean": "pooling_mode_mean_tokens",
    "first": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "weighted": "pooling_mode_weightedmean_tokens",
    "last": "pooling_mode_lasttoken",
}
_NAMES = {  # names of the poolings in newer releases
    "mean": "mean",
    "cls": "first",
    "max": "max",
    "weightedmean": "weighted",
    "lasttoken": "last",
}
_SUPPORTED = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_EARLIER = functools.partial(
    replaceable_files,
    marker=MODULES,
    is_known=lambda x: isinstance(x, list) and bool(x) and all(map(_is_module, x)),
    files=(MODULES, LENGTH, OPTIONS, f"1_Pooling/{CONFIGURATION}", *FILES),
)


def is_sentence_transformers(directory: Path) -> bool:
    """Returns whether a directory looks like a directory of sentence-transformers."""
    return (directory / MODULES).is_file()


def open_sentence_transformers(directory: Path) -> Contents:
    """Returns the contents of a directory of sentence-transformers.

    By default, the directory opens as the `Encoder` that its `config.json` describes. With
    `task="embedder"`, it opens as a `TextEmbedder`, unless `TextEmbedder` does not support the
    directory's modules, pooling or `do_lower_case`. A cross-encoder, whose only module is a
    Transformer, opens as the task in its `config.json`.

    Raises:
        CheckpointError: if a file is missing or damaged.
    """
    kinds, folders = _read_modules(directory)
    contents = open_hugging_face(folders[0])
    if kinds == ["Transformer"]:  # a cross-encoder: its head is in the model
        return contents._replace(place=directory)
    contents = contents._replace(
        place=directory, task="embedder", unless_asked="encoder", arguments={}, errors={}
    )
    if kinds not in _SUPPORTED:
        message = (
            f"{directory / MODULES} lists the modules {', '.join(kinds)}, but an embedder must "
            "have Transformer, Pooling and perhaps Normalize. Load only the encoder with "
            'task="encoder".'
        )
        return contents._replace(errors={"task": message})
    path = folders[1] / CONFIGURATION
    poolings = _read_poolings(path)
    if poolings not in [[name] for name in _FLAGS]:
        message = (
            f"{path}: the pooling {' and '.join(poolings) or 'none'} is not supported; only one of "
            f'{", ".join(_NAMES)} is. Load only the encoder with task="encoder".'
        )
        return contents._replace(errors={"task": message})
    options = read_json_if_there(directory / OPTIONS)
    if options.get("prompts") and not read_json(path).get("include_prompt", True):
        message = (
            f"{path}: include_prompt false is not supported, because the mean would be without the "
            'prompt. Load only the encoder with task="encoder".'
        )
        return contents._replace(errors={"task": message})
    # In older releases, the file's name contains the family's name.
    path = next(iter(sorted(folders[0].glob("sentence_*_config.json"))), folders[0] / LENGTH)
    values = read_json_if_there(path)
    preprocessor = contents.preprocessor
    if preprocessor is not None:
        if values.get("do_lower_case") and not getattr(preprocessor.tokenizer, "lowercase", False):
            message = (
                f"{path}: do_lower_case is not supported, since the tokenizer keeps the case. Load "
                'only the encoder with task="encoder".'
            )
            return contents._replace(errors={"task": message})
        length = values.get("max_seq_length")
        # The encoder itself may take longer texts.
        if isinstance(length, int) and 2 < length <= contents.encoder["max_positions"]:
            preprocessor = preprocessor.with_length(length)
    arguments = {
        "pooling": poolings[0],
        "normalize": "Normalize" in kinds,
        "prompts": options.get("prompts"),
        "default_prompt": options.get("default_prompt_name"),
        "preprocessor": preprocessor,
    }
    return contents._replace(arguments=arguments)


def save_sentence_transformers(
    model: keras.Model, directory: str | os.PathLike, card: Card = None
) -> None:
    """Writes a directory for sentence-transformers with its card, complete or not at all.

    Raises:
        InputError: if sentence-transformers cannot express the model, or the directory holds
            something other than a model.
        StorageError: if a file cannot be written.
    """
    if not isinstance(model, TextEmbedder):
        raise InputError(
            f"sentence-transformers holds embedders, but this is a {type(model).__name__}; load "
            'it with task="embedder" first.'
        )
    if model.pooling not in _FLAGS:
        raise InputError(
            f"sentence-transformers has no pooling {model.pooling!r}; only "
            f"{' and '.join(map(repr, _FLAGS))} are supported."
        )
    if model.windows is not None:
        raise InputError(
            "sentence-transformers cannot express this TextEmbedder: it cuts long texts, but this "
            f"model's windows is {model.windows!r}. Set model.windows = None to save it without."
        )
    prompts = {"prompts": model.prompts, "default_prompt_name": model.default_prompt}
    kinds = _SUPPORTED[model.normalize]
    folders = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds) if index)]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, folders, strict=True))
    ]
    pooling = {flag: name == model.pooling for name, flag in _FLAGS.items()}
    with replacing(directory, owned=_EARLIER) as path:
        with _lent(model.encoder, model.preprocessor):
            save_hugging_face(model.encoder, path)
        for folder in folders[1:]:
            (path / folder).mkdir()
        size = {"word_embedding_dimension": model.config.hidden_size}
        write_json(size | pooling, path / folders[1] / CONFIGURATION)
        if model.preprocessor is not None:
            length = {"max_seq_length": model.preprocessor.sequence_length, "do_lower_case": False}
            write_json(length, path / LENGTH)
        if model.prompts:
            write_json(prompts, path / OPTIONS)
        write_json(modules, path / MODULES)
        write_card(path, model, "sentence-transformers", card, earlier=Path(directory))


def _is_module(value: Any) -> bool:
    return isinstance(value, dict) and {"path", "type"} <= value.keys()


def _read_modules(directory: Path) -> tuple[list[str], list[Path]]:
    """Returns the modules' classes and folders.

    Raises:
        CheckpointError: if the file is damaged or names a folder outside of the directory.
    """
    path = directory / MODULES
    modules = read_json(path, list)
    try:
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        folders = [PurePosixPath(module["path"]) for module in modules]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not a list of modules: {error!r}.") from error
    if not folders:
        raise CheckpointError(f"{path} lists no modules.")
    for folder in folders:
        if folder.is_absolute() or ".." in folder.parts:
            raise CheckpointError(
                f"{path} names the folder {str(folder)!r}; modules must be in its own directory."
            )
    return kinds, [directory / folder for folder in folders]


def _read_poolings(path: Path) -> list[str]:
    """Returns the requested poolings. Poolings that `TextPooling` lacks have the file's names."""
    values = read_json(path)
    modes = values.get("pooling_mode")
    if isinstance(modes, (str, list)):
        modes = [modes] if isinstance(modes, str) else map(str, modes)
        return [_NAMES.get(mode, mode) for mode in modes]
    ours = {flag: name for name, flag in _FLAGS.items()}
    flags = (name for name, value in values.items() if name.startswith(_FLAG) and value)
    return [ours.get(flag, flag.removeprefix(_FLAG)) for flag in flags]


@contextmanager
def _lent(encoder: Any, preprocessor: Any) -> Iterator[None]:
    """Sets the encoder's preprocessor within the block."""
    before, encoder.preprocessor = encoder.preprocessor, preprocessor
    try:
        yield
    finally:
        encoder.preprocessor = before
