"""Directories of Hugging Face's transformers: `config.json`, safetensors, text format.

What a family calls its configuration's fields and tensors stands in its file in
`keras_bert.families`.
"""

import logging
import os
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.contents import Contents
from keras_bert.checkpoints.json_files import read_json, write_json
from keras_bert.checkpoints.mapping import (
    KEY_OF_HEADS,
    QUERY_OF_HEADS,
    REVERSED,
    SAME,
    TRANSPOSED,
    VALUE_OF_HEADS,
    Link,
    links,
    write_model,
)
from keras_bert.checkpoints.safetensors import SafetensorsFiles, save_tensors
from keras_bert.checkpoints.tasks import (
    LANGUAGE_MODELS,
    check_expressible,
    encoder_config,
    stored_task,
    task_name,
)
from keras_bert.config import EncoderConfig
from keras_bert.errors import CheckpointError, InputError
from keras_bert.families import FAMILIES

logger = logging.getLogger(__name__)

CONFIGURATION = "config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"

KINDS = {
    "dense": (("/kernel", ".weight", TRANSPOSED), ("/bias", ".bias", SAME)),
    "norm": (("/gamma", ".weight", SAME), ("/beta", ".bias", SAME)),
    "table": (("", ".weight", SAME),),
    "vector": (("", "", SAME),),
    "convolution": (("/kernel", ".weight", REVERSED), ("/bias", ".bias", SAME)),
    "query_key_value": (  # head by head in one matrix
        ("/query/kernel", ".in_proj.weight", QUERY_OF_HEADS),
        ("/key/kernel", ".in_proj.weight", KEY_OF_HEADS),
        ("/value/kernel", ".in_proj.weight", VALUE_OF_HEADS),
        ("/query/bias", ".q_bias", SAME),
        ("/value/bias", ".v_bias", SAME),
    ),
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
# Fields that say the same in another way: ours from theirs, and back.
_CONVERSIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "position_offset": (lambda padding: padding + 1, lambda offset: offset - 1),
}
_OTHER_ACTIVATIONS = ("classifier_activation", "convolution_activation")  # which may be tanh
_POSITIONS = "encoder/embeddings/position_embedding"
_POSITIONS_OF_HEAD = "masked_lm/position_embedding"
_ONLY_ENCODERS = ("is_decoder", "add_cross_attention")


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
    for name, value in family.HUGGING_FACE_FIXED.items():
        if values.get(name, value) != value:
            raise CheckpointError(
                f"{path}: {name} {values[name]!r} is not supported; only {value!r} is."
            )
    try:
        values = getattr(family, "from_hugging_face", dict)(values)
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}.") from error
    encoder = read_encoder(path, values, family.TRAITS, family.HUGGING_FACE_CONFIG, _ACTIVATIONS)
    tied = values.get("tie_word_embeddings") is not False
    source = _Renamed(_weights(directory), family, tied)
    names = set(source.names())
    task = _named_task(path, values, family)
    if task is None:
        task = stored_task(_table(family, encoder, *family.HUGGING_FACE_TASKS), names)
    table = _table(family, encoder, task)
    head = family.HUGGING_FACE_TASKS[task]
    encoder = encoder.replace(pooler=head.pooled or has_pooler(table, names))
    arguments = {**read_arguments(path, values, task, head.dropout), **head.arguments}
    if task in LANGUAGE_MODELS:
        arguments["tied"] = tied
    stored = {link.ours for link in table if link.theirs in names}
    if task == "masked_lm":
        arguments["enhanced"] = _POSITIONS_OF_HEAD in stored and not encoder.position_input
        arguments["legacy"] = not source.other_names
    if task == "replaced_token":
        arguments["context"] = "replaced_token/layer_norm/gamma" in stored
    return Contents(
        place=directory,
        task=task,
        encoder=encoder.to_dict(),
        arguments=arguments,
        preprocessor=_preprocessor(directory, encoder.max_positions),
        source=source,
        table=table,
    )


def save_hugging_face(model: keras.Model, directory: str | os.PathLike) -> None:
    """Writes a directory that transformers opens, complete or not at all.

    A pooler that the task does not use is left out, as transformers does; save `model.encoder` to
    keep it. An enhanced mask decoder is written as its authors do, but transformers ignores it,
    which is logged as a warning.

    Raises:
        InputError: if transformers has no such model, the directory holds something else, or
            the disk refuses.
    """
    task, family = task_name(model), _family_to_write(model)
    table = _table(family, model.config, task)
    pooler = {link.theirs for link in table if link.ours.startswith("encoder/pooler/")}
    tensors = write_model(model, table)
    decoder, bias = _output_layer(family)
    if f"{decoder}.weight" in tensors:
        tensors[f"{decoder}.bias"] = tensors[bias]
    # Where transformers has no pooler, it would complain of one.
    if task != "encoder" and not family.HUGGING_FACE_TASKS[task].pooled:
        tensors = {n: x for n, x in tensors.items() if n not in pooler}
    if getattr(model, "enhanced", False):
        logger.warning("transformers predicts masked tokens without the enhanced mask decoder.")
    if not getattr(model, "legacy", True):
        for legacy, other in _other_names(family).items():
            tensors = {n.replace(legacy, other): x for n, x in tensors.items()}
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
    traits: Mapping[str, Any],
    names: Mapping[str, str],
    activations: Mapping[str, str],
) -> EncoderConfig:
    """Our configuration from `config.json` or `bert_config.json`.

    Args:
        path: the file, for messages.
        values: what is in it.
        traits: the fields that make the family.
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
    if any(values.get(name) for name in _ONLY_ENCODERS):
        raise CheckpointError(f"{path} describes a decoder; only encoders are supported.")
    fields = dict(traits)
    others = {**activations, "tanh": "tanh"}
    conversions = {
        **_CONVERSIONS,
        **dict.fromkeys(_OTHER_ACTIVATIONS, (others.__getitem__, None)),
        "activation": (activations.__getitem__, None),
    }
    for ours, theirs in names.items():
        value = values.get(theirs)
        if value is not None:
            try:
                fields[ours] = conversions[ours][0](value) if ours in conversions else value
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                supported = f"; supported are {', '.join(activations)}" * (ours == "activation")
                raise CheckpointError(
                    f"{path}: {theirs} {value!r} is not supported{supported}."
                ) from error
    if _is_whole(fields.get("max_positions")) and _is_whole(fields.get("position_offset")):
        fields["max_positions"] -= fields["position_offset"]  # theirs are the rows of the table
    return encoder_config(fields, path)


def has_pooler(table: Iterable[Link], names: Container[str]) -> bool:
    """Whether there is a tensor of the encoder's pooler among the names."""
    return any(link.theirs in names for link in table if link.ours.startswith("encoder/pooler"))


class _Renamed:
    """A source whose names are made those of the family's table.

    Older files say gamma and beta for a LayerNorm's weight and bias; files of a bare encoder
    leave out the prefix; of some families, the masked language model has two sets of names, and
    `other_names` says whether these are not those of the table.
    """

    def __init__(self, source: SafetensorsFiles, family: ModuleType, tied: bool):
        self._source = source
        decoder, bias = _output_layer(family)
        matrix, its_bias = f"{decoder}.weight", f"{decoder}.bias"
        prefix = family.HUGGING_FACE_PREFIX
        rows = [theirs for _, _, theirs in family.HUGGING_FACE]
        bare = {r.removeprefix(prefix).split(".")[0] for r in rows if r.startswith(prefix)}
        self._names: dict[str, str] = {}
        self.other_names = False
        for name in sorted(source.names(), key=lambda name: name == its_bias):
            new = name.replace("LayerNorm.gamma", "LayerNorm.weight")
            new = new.replace("LayerNorm.beta", "LayerNorm.bias")
            if new.split(".")[0] in bare:
                new = prefix + new
            for legacy, other in _other_names(family).items():
                if new.startswith(other):
                    new, self.other_names = new.replace(other, legacy), True
            if new == its_bias:
                new = bias
                if tied and new in self._names:
                    continue
            copy = tied and new == matrix
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


def _family_to_write(model: keras.Model) -> ModuleType:
    """The family of a model that transformers can compute.

    Raises:
        InputError: if it cannot.
    """
    config, task = model.config, task_name(model)
    if config.family not in FAMILIES:
        raise InputError(f"There is no family {config.family!r}.")
    family = FAMILIES[config.family]
    library, fields = "Hugging Face's transformers", family.HUGGING_FACE_CONFIG
    tasks = family.HUGGING_FACE_TASKS
    head = {name: (getattr(config, name),) for name in ("activation", "layer_norm_epsilon")}
    if task in tasks:
        head |= {name: (value,) for name, value in tasks[task].arguments.items()}
    check_expressible(model, library, family, fields, tasks, head=head)
    padding = None if model.preprocessor is None else model.preprocessor.vocabulary.pad_id
    if "position_offset" in fields and padding not in (None, config.position_offset - 1):
        raise InputError(
            f"{library} counts positions from the padding's id + 1, which is {padding + 1} here, "
            f"but the position_offset is {config.position_offset}."
        )
    return family


def _table(family: ModuleType, config: EncoderConfig, *tasks: str) -> list[Link]:
    """The links for some tasks, and for one layer more than there is."""
    heads = (row for task in tasks for row in family.HUGGING_FACE_TASKS[task].rows)
    rows = [
        (kind, ours, theirs)
        for kind, ours, theirs in (*family.HUGGING_FACE, *heads)
        if config.position_input or ours != _POSITIONS
    ]
    return links(rows, KINDS, config.num_distinct_layers + 1, config.layers_per_group)


def _output_layer(family: ModuleType) -> tuple[str, str]:
    """The name of the masked language model's output layer, and of the head's bias.

    A matrix that is not tied has a bias of its own beside the head's; only the former counts.
    """
    theirs = {ours: name for _, ours, name in family.HUGGING_FACE_TASKS["masked_lm"].rows}
    return theirs["masked_lm/decoder"], theirs["masked_lm/bias"]


def _other_names(family: ModuleType) -> Mapping[str, str]:
    """Beginnings of names in the family's table to those that stand in their place elsewhere."""
    return getattr(family, "HUGGING_FACE_OTHER_NAMES", {})


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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


def _named_task(path: Path, values: Mapping[str, Any], family: ModuleType) -> str | None:
    """The task of the architecture that the configuration names."""
    architectures = values.get("architectures") or []
    if not isinstance(architectures, list):
        raise CheckpointError(f"{path}: architectures {architectures!r} is not a list.")
    for architecture in map(str, architectures):
        for task, head in family.HUGGING_FACE_TASKS.items():
            if architecture.endswith(head.ending):
                return task
    return None


def read_arguments(
    path: Path, values: Mapping[str, Any], task: str, dropout: str = ""
) -> dict[str, Any]:
    """Arguments of the task's constructor from the configuration.

    Args:
        path: the file, for messages.
        values: what is in it.
        task: the name of the task.
        dropout: the field with the rate before the logits, or "".

    Raises:
        CheckpointError: if one is not supported.
    """
    arguments: dict[str, Any] = {}
    if dropout and values.get(dropout) is not None:
        arguments["dropout"] = values[dropout]
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
    others = activations | {"tanh": "tanh"}
    conversions = {
        **_CONVERSIONS,
        **dict.fromkeys(_OTHER_ACTIVATIONS, (None, others.__getitem__)),
        "activation": (None, activations.__getitem__),
        "max_positions": (None, lambda positions: positions + config.position_offset),
    }
    head, names = family.HUGGING_FACE_TASKS[task], family.HUGGING_FACE_CONFIG
    values: dict[str, Any] = {
        "architectures": [family.HUGGING_FACE_CLASS + head.ending],
        "model_type": config.family,
        "tie_word_embeddings": getattr(model, "tied", True),
        "pad_token_id": 0 if model.preprocessor is None else model.preprocessor.vocabulary.pad_id,
        **family.HUGGING_FACE_FIXED,
    }
    for ours, theirs in names.items():
        value = getattr(config, ours)
        values[theirs] = conversions[ours][1](value) if ours in conversions else value
    values = getattr(family, "to_hugging_face", dict)(values)
    if _other_names(family):
        values["legacy"] = getattr(model, "legacy", True)
    return values | write_arguments(model, task, head.dropout)


def write_arguments(model: keras.Model, task: str, dropout: str = "") -> dict[str, Any]:
    """The inverse of `read_arguments`."""
    values: dict[str, Any] = {}
    if dropout:
        values[dropout] = model.dropout
    if task in ("classifier", "tagger"):
        values["id2label"] = {str(index): label for index, label in enumerate(model.labels)}
        values["label2id"] = {label: index for index, label in enumerate(model.labels)}
    if task == "classifier":
        values["problem_type"] = _PROBLEM_TYPES[model.problem_type]
    return values
