"""Directories of sentence-transformers: a directory of transformers, and these files.

modules.json                        the modules, in order, and their folders
1_Pooling/config.json               pooling of token vectors
2_Dense/config.json                 dense layer on the pooled vector, and model.safetensors
sentence_bert_config.json           largest number of tokens in a text
config_sentence_transformers.json   prompts
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.card import Card, write_card
from keras_bert.checkpoints.contents import Contents
from keras_bert.checkpoints.directories import replaceable_files
from keras_bert.checkpoints.files import (
    SafetensorsFiles,
    read_json,
    read_json_if_there,
    save_tensors,
    write_json,
)
from keras_bert.checkpoints.huggingface.directory import (
    FILES,
    WEIGHTS,
    open_hugging_face,
    save_hugging_face,
)
from keras_bert.checkpoints.mapping import SAME, TRANSPOSED, Link, TensorSource
from keras_bert.checkpoints.variables import saved_weights
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
_ACTIVATIONS = {  # classes of torch, which sentence-transformers makes without arguments
    "gelu": "torch.nn.modules.activation.GELU",
    "linear": "torch.nn.modules.linear.Identity",
    "relu": "torch.nn.modules.activation.ReLU",
    "silu": "torch.nn.modules.activation.SiLU",
    "tanh": "torch.nn.modules.activation.Tanh",
}
_SUPPORTED = re.compile("Transformer Pooling( Dense)*( Normalize)?")
_FIXED = {
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
    "use_residual": False,
}


def is_sentence_transformers(directory: Path) -> bool:
    """Returns whether a directory looks like a directory of sentence-transformers."""
    return (directory / MODULES).is_file()


def open_sentence_transformers(directory: Path) -> Contents:
    """Returns the contents of a directory of sentence-transformers.

    The directory opens as a `TextEmbedder`. If a `TextEmbedder` does not support its modules, its
    pooling or `do_lower_case`, it opens only as another task, such as the `Encoder` that its
    `config.json` describes. A cross-encoder, whose only module is a Transformer, opens as the task
    in its `config.json`.

    Raises:
        CheckpointError: if a file is missing or damaged.
    """
    kinds, folders = _read_modules(directory)
    contents = open_hugging_face(folders[0])
    if kinds == ["Transformer"]:  # a cross-encoder: its head is in the model
        return contents._replace(place=directory)
    contents = contents._replace(place=directory, task="embedder", arguments={}, errors={})
    if not _SUPPORTED.fullmatch(" ".join(kinds)):
        return _only_encoder(
            contents,
            f"{directory / MODULES} lists the modules {', '.join(kinds)}, but an embedder must "
            "have Transformer, Pooling and perhaps Dense and Normalize.",
        )
    path = folders[1] / CONFIGURATION
    poolings = _read_poolings(path)
    if poolings not in [[name] for name in _FLAGS]:
        return _only_encoder(
            contents,
            f"{path}: the pooling {' and '.join(poolings) or 'none'} is not supported; only one of "
            f"{', '.join(_NAMES)} is.",
        )
    options = read_json_if_there(directory / OPTIONS)
    if options.get("prompts") and not read_json(path).get("include_prompt", True):
        return _only_encoder(
            contents,
            f"{path}: include_prompt false is not supported, because the mean would be without the "
            "prompt.",
        )
    # In older releases, the file's name contains the family's name.
    path = next(iter(sorted(folders[0].glob("sentence_*_config.json"))), folders[0] / LENGTH)
    values = read_json_if_there(path)
    preprocessor = contents.preprocessor
    if preprocessor is not None:
        if values.get("do_lower_case") and not getattr(preprocessor.tokenizer, "lowercase", False):
            return _only_encoder(
                contents,
                f"{path}: do_lower_case is not supported, since the tokenizer keeps the case.",
            )
        length = values.get("max_seq_length")
        # The encoder itself may take longer texts.
        if isinstance(length, int) and 2 < length <= contents.encoder["max_positions"]:
            preprocessor = preprocessor.with_length(length)
    projections: list[dict[str, Any]] = []
    for folder in folders[2 : 2 + kinds.count("Dense")]:
        projection, message = _read_projection(folder)
        if message:
            return _only_encoder(contents, message)
        contents = _with_projection(contents, len(projections), folder)
        projections.append(projection)
    arguments = {
        "pooling": poolings[0],
        "projections": projections,
        "normalize": "Normalize" in kinds,
        "prompts": options.get("prompts"),
        "default_prompt": options.get("default_prompt_name"),
        "preprocessor": preprocessor,
    }
    return contents._replace(arguments=arguments)


def _only_encoder(contents: Contents, message: str) -> Contents:
    """Returns contents that cannot be opened as an embedder."""
    error = f'{message} Load only the encoder with task="encoder".'
    return contents._replace(errors={"task": error})


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
    for projection in model.projections:
        if projection["activation"] not in _ACTIVATIONS:
            raise InputError(
                f"sentence-transformers has no activation {projection['activation']!r}; only "
                f"{', '.join(map(repr, _ACTIVATIONS))} are supported."
            )
    prompts = {"prompts": model.prompts, "default_prompt_name": model.default_prompt}
    kinds = ["Transformer", "Pooling", *["Dense"] * len(model.projections)]
    kinds += ["Normalize"] * model.normalize
    folders = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds) if index)]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, folders, strict=True))
    ]
    pooling = {flag: name == model.pooling for name, flag in _FLAGS.items()}
    with replacing(directory, owned=_replaceable) as path:
        with _lent(model.encoder, model.preprocessor):
            save_hugging_face(model.encoder, path)
        for folder in folders[1:]:
            (path / folder).mkdir()
        size = {"word_embedding_dimension": model.config.hidden_size}
        write_json(size | pooling, path / folders[1] / CONFIGURATION)
        for index in range(len(model.projections)):
            _write_projection(model, index, path / folders[2 + index])
        if model.preprocessor is not None:
            length = {"max_seq_length": model.preprocessor.sequence_length, "do_lower_case": False}
            write_json(length, path / LENGTH)
        if model.prompts:
            write_json(prompts, path / OPTIONS)
        write_json(modules, path / MODULES)
        write_card(path, model, "sentence-transformers", card, earlier=Path(directory))


class _WithProjections(NamedTuple):
    """Tensors of an encoder, and of modules in folders under the names FOLDER/TENSOR."""

    encoder: TensorSource
    folders: Mapping[str, TensorSource]

    def names(self) -> Iterable[str]:
        """Returns the names of all tensors."""
        theirs = (
            f"{key}/{name}" for key, source in self.folders.items() for name in source.names()
        )
        return [*self.encoder.names(), *theirs]

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor by its name."""
        source, name = self._find(name)
        return source.read(name)

    def where(self, name: str) -> str:
        """Returns the file of a tensor."""
        source, name = self._find(name)
        return source.where(name)

    def _find(self, name: str) -> tuple[TensorSource, str]:
        folder, _, rest = name.rpartition("/")
        return (self.folders[folder], rest) if folder in self.folders else (self.encoder, name)


def _read_projection(folder: Path) -> tuple[dict[str, Any], str]:
    """Returns a dense layer's arguments and, if `TextEmbedder` does not support it, a message."""
    path, ours = folder / CONFIGURATION, {theirs: name for name, theirs in _ACTIVATIONS.items()}
    values = read_json(path)
    differing = (name for name, value in _FIXED.items() if values.get(name, value) != value)
    message = next((f"{path}: {name} {values[name]!r} is not supported." for name in differing), "")
    activation = str(values.get("activation_function", _ACTIVATIONS["tanh"]))
    units = values.get("out_features")
    if activation not in ours:
        message = (
            f"{path}: activation_function {activation!r} is not supported, only "
            f"{', '.join(ours)} are."
        )
    elif type(units) is not int or units < 1:
        message = f"{path}: out_features is {units!r}, but must be a whole number of at least 1."
    elif not (folder / WEIGHTS).exists():
        message = (
            f"{folder / WEIGHTS} is missing, and a pickle (pytorch_model.bin) is never opened. If "
            "you trust the model, write it again with sentence-transformers: "
            'SentenceTransformer("NAME").save_pretrained("DIRECTORY").'
        )
    use_bias = values.get("bias", True) is not False
    return {"units": units, "activation": ours.get(activation), "use_bias": use_bias}, message


def _with_projection(contents: Contents, index: int, folder: Path) -> Contents:
    """Returns the contents with a dense layer's tensors."""
    name, source = folder.relative_to(contents.place).as_posix(), contents.source
    links = [
        Link(f"projection_{index}/kernel", f"{name}/linear.weight", TRANSPOSED),
        Link(f"projection_{index}/bias", f"{name}/linear.bias", SAME),
    ]
    encoder, folders = source if isinstance(source, _WithProjections) else (source, {})
    folders = {**folders, name: SafetensorsFiles({folder / WEIGHTS: None})}
    source = _WithProjections(encoder, folders)
    return contents._replace(source=source, table=[*contents.table, *links])


def _write_projection(model: TextEmbedder, index: int, folder: Path) -> None:
    """Writes a dense layer into its folder."""
    name, projection = f"projection_{index}/", model.projections[index]
    weights = {k: np.asarray(x) for k, x in saved_weights(model).items() if k.startswith(name)}
    tensors = {"linear.weight": weights[f"{name}kernel"].T}
    if projection["use_bias"]:
        tensors["linear.bias"] = weights[f"{name}bias"]
    size, units = weights[f"{name}kernel"].shape
    values = {
        "in_features": size,
        "out_features": units,
        "bias": projection["use_bias"],
        "activation_function": _ACTIVATIONS[projection["activation"]],
    }
    write_json(values, folder / CONFIGURATION)
    save_tensors(tensors, folder / WEIGHTS, {"format": "pt"})


def _replaceable(directory: Path) -> Collection[str]:
    """Returns the names of the files of an earlier model."""
    folders = [path.name for path in directory.glob("*_Dense")]
    projections = [f"{name}/{file}" for name in folders for file in (CONFIGURATION, WEIGHTS)]
    return replaceable_files(
        directory,
        marker=MODULES,
        is_known=lambda x: isinstance(x, list) and bool(x) and all(map(_is_module, x)),
        files=(MODULES, LENGTH, OPTIONS, f"1_Pooling/{CONFIGURATION}", *projections, *FILES),
    )


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
