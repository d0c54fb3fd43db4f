"""The `config.json` of Hugging Face's transformers, both ways."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from keras_bert.checkpoints.tasks import encoder_config
from keras_bert.config import EncoderConfig
from keras_bert.errors import CheckpointError, InputError
from keras_bert.families import FAMILIES

_PROBLEM_TYPES = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_ACTIVATION_FIELDS = ("activation", "classifier_activation", "convolution_activation")
_ONLY_ENCODERS = ("is_decoder", "add_cross_attention")


def read_family(path: Path, values: Mapping[str, Any]) -> ModuleType:
    """The family that the configuration names.

    Raises:
        CheckpointError: if there is none, or one that is not supported.
    """
    name = values.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        raise CheckpointError(
            f"{path}: model_type {name!r} is not supported; supported are {', '.join(FAMILIES)}."
        )
    return FAMILIES[name]


def explained(path: Path, values: Mapping[str, Any], family: ModuleType) -> dict[str, Any]:
    """The configuration with the values that an `EncoderConfig` has, under their names.

    Raises:
        CheckpointError: if it says something that an `EncoderConfig` cannot.
    """
    for name, value in family.HUGGING_FACE_FIXED.items():
        if values.get(name, value) != value:
            raise CheckpointError(
                f"{path}: {name} {values[name]!r} is not supported; only {value!r} is."
            )
    try:
        return dict(getattr(family, "from_hugging_face", dict)(values))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}.") from error
    except (AttributeError, TypeError) as error:
        raise CheckpointError(f"{path} holds a value of the wrong type: {error}.") from error


def read_encoder(
    path: Path,
    values: Mapping[str, Any],
    traits: Mapping[str, Any],
    names: Mapping[str, str],
    activations: Mapping[str, str] = ACTIVATIONS,
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
    for ours, theirs in names.items():
        value = values.get(theirs)
        if value is None:
            continue
        if ours in _ACTIVATION_FIELDS:
            known = activations if ours == "activation" else {**activations, "tanh": "tanh"}
            if not isinstance(value, str) or value not in known:
                raise CheckpointError(
                    f"{path}: {theirs} {value!r} is not supported; "
                    f"supported are {', '.join(known)}."
                )
            value = known[value]
        fields[ours] = value
    return encoder_config(fields, path)


def read_task(path: Path, values: Mapping[str, Any], family: ModuleType) -> str | None:
    """The task of the architecture that the configuration names, or None.

    Raises:
        CheckpointError: if it is damaged.
    """
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
        names, count = values.get("id2label"), values.get("num_labels", 2)
        try:
            names = names or {str(i): f"LABEL_{i}" for i in range(count)}
            arguments["labels"] = [str(names[key]) for key in sorted(names, key=int)]
        except (TypeError, ValueError, AttributeError) as error:
            wrong = (
                f"id2label {names!r} is not a table of names"
                if names
                else (f"num_labels {count!r} is not a number")
            )
            raise CheckpointError(f"{path}: {wrong}.") from error
    if task == "classifier":
        default = "regression" if len(arguments["labels"]) == 1 else "single_label"
        theirs = values.get("problem_type") or _PROBLEM_TYPES[default]
        problems = [ours for ours, name in _PROBLEM_TYPES.items() if name == theirs]
        if not problems:
            raise CheckpointError(f"{path}: problem_type {theirs!r} is not supported.")
        arguments["problem_type"] = problems[0]
    return arguments


def write_configuration(model: keras.Model, task: str, family: ModuleType) -> dict[str, Any]:
    """The `config.json` of a model; the inverse of all that reads one.

    Raises:
        InputError: if transformers has no such model.
    """
    config: EncoderConfig = model.config
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    activations["tanh"] = "tanh"
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
        values[theirs] = activations[value] if ours in _ACTIVATION_FIELDS else value
    try:
        values = dict(getattr(family, "to_hugging_face", dict)(values))
    except ValueError as error:
        raise InputError(f"Hugging Face's transformers has no such model: {error}.") from error
    if hasattr(family, "HUGGING_FACE_OTHER_NAMES"):
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
