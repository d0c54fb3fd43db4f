"""Directories of Hugging Face's transformers: `config.json`, safetensors, text format.

What a family calls its configuration's fields and tensors stands in its file in
`keras_bert.families`.
"""

import os
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.contents import Contents
from keras_bert.checkpoints.json_files import read_json, write_json
from keras_bert.checkpoints.mapping import SAME, TRANSPOSED, Link, links, write_model
from keras_bert.checkpoints.safetensors import SafetensorsFiles, save_tensors
from keras_bert.checkpoints.tasks import (
    LANGUAGE_MODELS,
    NEED_POOLER,
    check_expressible,
    encoder_config,
    stored_task,
    task_name,
)
from keras_bert.config import EncoderConfig
from keras_bert.errors import CheckpointError
from keras_bert.families import FAMILIES

CONFIGURATION = "config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"

KINDS = {
    "dense": (("/kernel", ".weight", TRANSPOSED), ("/bias", ".bias", SAME)),
    "norm": (("/gamma", ".weight", SAME), ("/beta", ".bias", SAME)),
    "table": (("", ".weight", SAME),),
    "vector": (("", "", SAME),),
}

_ARCHITECTURES = {
    "encoder": "Model",
    "classifier": "ForSequenceClassification",
    "masked_lm": "ForMaskedLM",
    "multiple_choice": "ForMultipleChoice",
    "next_sentence": "ForNextSentencePrediction",
    "pretraining": "ForPreTraining",
    "span": "ForQuestionAnswering",
    "tagger": "ForTokenClassification",
}
_PROBLEM_TYPES = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# An output matrix of its own has a bias of its own beside the head's; only the former counts.
_DECODER, _DECODER_BIAS = ".decoder.weight", ".decoder.bias"


def is_hugging_face(directory: Path) -> bool:
    """Whether a directory looks like one of transformers."""
    return (directory / CONFIGURATION).is_file()


def open_hugging_face(directory: Path) -> Contents:
    """What a directory of transformers holds.

    Raises:
        CheckpointError: if a file is missing, damaged, of a family that is not supported, or
            pickled; the message names file and tensor.
    """
    path = directory / CONFIGURATION
    values = read_json(path)
    family = _family(path, values)
    encoder = read_encoder(path, values, family.HUGGING_FACE_CONFIG, _ACTIVATIONS)
    tied = values.get("tie_word_embeddings") is not False
    source = _Renamed(_weights(directory), family, tied)
    names = set(source.names())
    table = links(family.HUGGING_FACE, KINDS, encoder["num_layers"] + 1)
    task = _named_task(path, values) or stored_task(table, names)
    encoder["pooler"] = task in NEED_POOLER or has_pooler(table, names)
    arguments = read_arguments(path, values, task)
    if task in LANGUAGE_MODELS:
        arguments["tied"] = tied
    return Contents(
        place=directory,
        task=task,
        encoder=encoder,
        arguments=arguments,
        preprocessor=_preprocessor(directory, encoder["max_positions"]),
        source=source,
        table=table,
    )


def save_hugging_face(model: keras.Model, directory: str | os.PathLike) -> None:
    """Writes a directory that transformers opens, complete or not at all.

    A pooler that the task does not use is left out, as transformers does; save `model.encoder` to
    keep it.

    Raises:
        InputError: if transformers has no such model, the directory holds something else, or
            the disk refuses.
    """
    task, config = task_name(model), model.config
    head = {"activation": (config.activation,), "layer_norm_epsilon": (config.layer_norm_epsilon,)}
    check_expressible(model, "Hugging Face's transformers", head=head)
    family = FAMILIES[config.family]
    table = links(family.HUGGING_FACE, KINDS, config.num_layers)
    pooler = {link.theirs for link in table if link.ours.startswith("encoder/pooler/")}
    tensors = write_model(model, table)
    for name in [name for name in tensors if name.endswith(_DECODER)]:
        bias = tensors[name.replace(_DECODER, ".bias")]
        tensors[name.replace(_DECODER, _DECODER_BIAS)] = bias
    if task not in ("encoder", *NEED_POOLER):  # transformers has no pooler there, and would say so
        tensors = {n: x for n, x in tensors.items() if n not in pooler}
    if task == "encoder":
        tensors = {n.removeprefix(family.HUGGING_FACE_PREFIX): x for n, x in tensors.items()}
    with replacing(directory, marker=CONFIGURATION) as path:
        path.mkdir()
        save_tensors(tensors, path / WEIGHTS, {"format": "pt"})
        write_json(_describe(model, task, family), path / CONFIGURATION)
        if model.preprocessor is not None:
            from keras_bert.checkpoints.text_format import write_text_format  # brings TensorFlow

            write_text_format(model.preprocessor, path)


def read_encoder(
    path: Path,
    values: Mapping[str, Any],
    names: Mapping[str, str],
    activations: Mapping[str, str],
) -> dict[str, Any]:
    """The fields of our configuration from those of `config.json` or `bert_config.json`.

    Args:
        path: the file, for messages.
        values: what is in it.
        names: our fields to theirs.
        activations: their names of activations to ours.

    Raises:
        CheckpointError: if one is missing or not supported.
    """
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise CheckpointError(
            f"{path}: position_embedding_type {values['position_embedding_type']!r} is not "
            "supported; only 'absolute' is."
        )
    if values.get("is_decoder") or values.get("add_cross_attention"):
        raise CheckpointError(f"{path} describes a decoder; only encoders are supported.")
    fields = {
        ours: values[theirs] for ours, theirs in names.items() if values.get(theirs) is not None
    }
    activation = fields.get("activation", "gelu")
    if not isinstance(activation, str) or activation not in activations:
        raise CheckpointError(
            f"{path}: hidden_act {activation!r} is not supported; "
            f"supported are {', '.join(activations)}."
        )
    return encoder_config(fields | {"activation": activations[activation]}, path)


def has_pooler(table: Iterable[Link], names: Container[str]) -> bool:
    """Whether there is a tensor of the encoder's pooler among the names."""
    return any(link.theirs in names for link in table if link.ours.startswith("encoder/pooler"))


class _Renamed:
    """A source whose names are made those of the family's table.

    Older files say gamma and beta for a LayerNorm's weight and bias; files of a bare encoder
    leave out the prefix.
    """

    def __init__(self, source: SafetensorsFiles, family: ModuleType, tied: bool):
        self._source = source
        prefix = family.HUGGING_FACE_PREFIX
        rows = [theirs for _, _, theirs in family.HUGGING_FACE]
        bare = {r.removeprefix(prefix).split(".")[0] for r in rows if r.startswith(prefix)}
        self._names: dict[str, str] = {}
        for name in sorted(source.names(), key=lambda name: name.endswith(_DECODER_BIAS)):
            new = name.replace("LayerNorm.gamma", "LayerNorm.weight")
            new = new.replace("LayerNorm.beta", "LayerNorm.bias")
            if new.split(".")[0] in bare:
                new = prefix + new
            if new.endswith(_DECODER_BIAS):
                new = new.replace(_DECODER_BIAS, ".bias")
                if tied and new in self._names:
                    continue
            copy = tied and new.endswith(_DECODER)
            if not copy and not new.endswith("position_ids"):  # a buffer
                self._names[new] = name

    def names(self) -> Iterable[str]:
        """The names of all tensors, as the family's table has them."""
        return self._names.keys()

    def read(self, name: str) -> np.ndarray:
        """One tensor."""
        return self._source.read(self._names[name])

    def where(self, name: str) -> str:
        """The file of a tensor."""
        return self._source.where(self._names.get(name, name))


def _family(path: Path, values: dict[str, Any]) -> ModuleType:
    name = values.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        raise CheckpointError(
            f"{path}: model_type {name!r} is not supported; supported are {', '.join(FAMILIES)}."
        )
    return FAMILIES[name]


def _weights(directory: Path) -> SafetensorsFiles:
    if (directory / INDEX).exists():
        return SafetensorsFiles.sharded(directory / INDEX)
    if (directory / WEIGHTS).exists():
        return SafetensorsFiles({directory / WEIGHTS: None})
    pickles = sorted(p.name for end in ("*.bin", "*.pt") for p in directory.glob(end))
    if pickles:
        raise CheckpointError(
            f"{directory / pickles[0]} is a pickle, which can run any code when it is opened, so "
            "it is never loaded here; where you trust it, convert it with torch and transformers: "
            "AutoModelForPreTraining.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)."
        )
    raise CheckpointError(f"{directory / WEIGHTS} is missing; the checkpoint is not complete.")


def _named_task(path: Path, values: Mapping[str, Any]) -> str | None:
    """The task of the architecture that the configuration names."""
    architectures = values.get("architectures") or []
    if not isinstance(architectures, list):
        raise CheckpointError(f"{path}: architectures {architectures!r} is not a list.")
    for architecture in map(str, architectures):
        for task, ending in _ARCHITECTURES.items():
            if architecture.endswith(ending):
                return task
    return None


def read_arguments(path: Path, values: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Arguments of the task's constructor from the configuration.

    Raises:
        CheckpointError: if one is not supported.
    """
    arguments: dict[str, Any] = {}
    if task in ("classifier", "tagger", "multiple_choice"):
        arguments["dropout"] = values.get("classifier_dropout")
    if task in ("classifier", "tagger"):
        names = values.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        try:
            arguments["labels"] = [str(names[key]) for key in sorted(names, key=int)]
        except (TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"{path}: id2label {names!r} is not a table of names.") from error
    if task == "classifier":
        default = "regression" if len(arguments["labels"]) == 1 else "single_label"
        theirs = values.get("problem_type") or _PROBLEM_TYPES[default]
        problems = [ours for ours, name in _PROBLEM_TYPES.items() if name == theirs]
        if not problems:
            raise CheckpointError(f"{path}: problem_type {theirs!r} is not supported.")
        arguments["problem_type"] = problems[0]
    return arguments


def _preprocessor(directory: Path, max_positions: int) -> Any:
    from keras_bert.checkpoints.text_format import read_text_format  # brings TensorFlow

    return read_text_format(directory, max_positions)


def _describe(model: keras.Model, task: str, family: ModuleType) -> dict[str, Any]:
    """The `config.json` of a model."""
    config: EncoderConfig = model.config
    activations = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    values: dict[str, Any] = {
        "architectures": [family.HUGGING_FACE_CLASS + _ARCHITECTURES[task]],
        "model_type": config.family,
        **{theirs: getattr(config, ours) for ours, theirs in family.HUGGING_FACE_CONFIG.items()},
        "hidden_act": activations[config.activation],
        "tie_word_embeddings": getattr(model, "tied", True),
        "pad_token_id": 0 if model.preprocessor is None else model.preprocessor.vocabulary.pad_id,
    }
    return values | write_arguments(model, task)


def write_arguments(model: keras.Model, task: str) -> dict[str, Any]:
    """The inverse of `read_arguments`."""
    values: dict[str, Any] = {}
    if task in ("classifier", "tagger", "multiple_choice"):
        values["classifier_dropout"] = model.dropout
    if task in ("classifier", "tagger"):
        values["id2label"] = {str(index): label for index, label in enumerate(model.labels)}
        values["label2id"] = {label: index for index, label in enumerate(model.labels)}
    if task == "classifier":
        values["problem_type"] = _PROBLEM_TYPES[model.problem_type]
    return values
