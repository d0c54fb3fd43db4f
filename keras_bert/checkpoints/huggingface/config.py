"""Reads and writes the `config.json` of Hugging Face's transformers."""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from keras_bert.checkpoints.contents import encoder_config
from keras_bert.config import EncoderConfig
from keras_bert.errors import CheckpointError, InputError
from keras_bert.families import FAMILIES
from keras_bert.tasks.task import resolve_labels

logger = logging.getLogger(__name__)

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
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_ACTIVATION_FIELDS = ("activation", "classifier_activation", "convolution_activation")
_ONLY_ENCODERS = ("is_decoder", "add_cross_attention")
_DEFAULT_LABEL = "LABEL_{}"
_ELSEWHERE = "run this model with transformers"


def read_family(path: Path, values: Mapping[str, Any]) -> ModuleType:
    """Returns the family that `model_type` names.

    Releases 1 and 2 of transformers did not write `model_type`. For their files, `architectures`
    decides.

    Raises:
        CheckpointError: if neither field names a family, or the family is not supported.
    """
    name = values.get("model_type")
    if name is None:
        for architecture in _architectures(path, values):
            for family in FAMILIES.values():
                if architecture in _classes(family):
                    return family
        raise CheckpointError(
            f"{path} has no model_type. Add a line with the family of the model, such as "
            f'"model_type": "bert"; the families are {", ".join(FAMILIES)}.'
        )
    if not isinstance(name, str) or name not in FAMILIES:
        raise CheckpointError(
            f"{path}: model_type {name!r} is not supported; {_ELSEWHERE}. Supported are "
            f"{', '.join(FAMILIES)}."
        )
    return FAMILIES[name]


def _architectures(path: Path, values: Mapping[str, Any]) -> list[str]:
    """Returns the class names in `architectures`, without the prefixes TF and Flax."""
    names = values.get("architectures") or []
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list):
        raise CheckpointError(f"{path}: architectures {names!r} is not a list of class names.")
    return [str(name).removeprefix("TF").removeprefix("Flax") for name in names]


def _classes(family: ModuleType) -> dict[str, str]:
    """Maps the names of a family's classes in transformers to the classes' tasks."""
    tasks = family.HUGGING_FACE_TASKS.items()
    return {family.HUGGING_FACE_CLASS + head.ending: task for task, head in tasks}


def class_of(path: Path, values: Mapping[str, Any], family: ModuleType) -> str:
    """Returns the name of the transformers class that loads the weights, head included."""
    named = [name for name in _architectures(path, values) if name in _classes(family)]
    return named[0] if named else f"{family.HUGGING_FACE_CLASS}Model"


def with_defaults(path: Path, values: Mapping[str, Any], family: ModuleType) -> dict[str, Any]:
    """Returns the configuration with defaults filled in, in a form that `read_encoder` can read.

    As in transformers, a field's second name takes precedence over its own name. A field that is
    missing or null gets transformers' default.

    Raises:
        CheckpointError: if an `EncoderConfig` cannot express the configuration.
    """
    given = {name: value for name, value in values.items() if value is not None}
    for second, name in getattr(family, "HUGGING_FACE_SECOND_NAMES", {}).items():
        if second in given:
            given[name] = given[second]
    given = {**family.HUGGING_FACE_DEFAULTS, **given}
    message = unsupported(path, given, getattr(family, "HUGGING_FACE_FIXED", {}))
    if message:
        raise CheckpointError(message)
    try:
        return dict(getattr(family, "from_hugging_face", dict)(given))
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}; {_ELSEWHERE}.") from error
    except (AttributeError, TypeError) as error:
        raise CheckpointError(f"{path} holds a value of the wrong type: {error}.") from error


def unsupported(path: Path, values: Mapping[str, Any], fixed: Mapping[str, Any]) -> str:
    """Returns a message about the first field that differs from `fixed`, or "" if none differs."""
    for name, value in fixed.items():
        if values.get(name, value) != value:
            return (
                f"{path}: {name} {values[name]!r} is not supported, only {value!r} is; "
                f"{_ELSEWHERE}."
            )
    return ""


def read_encoder(
    path: Path,
    values: Mapping[str, Any],
    traits: Mapping[str, Any],
    names: Mapping[str, str],
    activations: Mapping[str, str] = ACTIVATIONS,
) -> EncoderConfig:
    """Makes an `EncoderConfig` from `config.json` or `bert_config.json`.

    Args:
        path: the file, for messages.
        values: the file's content.
        traits: fields of the `EncoderConfig` that are the same in the whole family.
        names: the name in the file for each field of the `EncoderConfig`.
        activations: the `EncoderConfig`'s name for each activation in the file.

    Raises:
        CheckpointError: if a field is missing or not supported.
    """
    # Encoders with rotary positions have other values, which nothing reads.
    reads_positions = traits.get("position_input", True)
    if reads_positions and values.get("position_embedding_type", "absolute") != "absolute":
        raise CheckpointError(
            f"{path}: position_embedding_type {values['position_embedding_type']!r} is not "
            f"supported, only 'absolute' is; {_ELSEWHERE}."
        )
    if any(values.get(name) for name in _ONLY_ENCODERS):
        raise CheckpointError(
            f"{path} describes a decoder; only encoders are supported. {_ELSEWHERE.capitalize()}."
        )
    fields = dict(traits)
    for ours, theirs in names.items():
        value = values.get(theirs)
        if value is None:
            continue
        if ours in _ACTIVATION_FIELDS:
            known = activations if ours == "activation" else {**activations, "tanh": "tanh"}
            if not isinstance(value, str) or value not in known:
                raise CheckpointError(
                    f"{path}: {theirs} {value!r} is not supported; {_ELSEWHERE}. Supported are "
                    f"{', '.join(known)}."
                )
            value = known[value]
        fields[ours] = value
    return encoder_config(fields, path)


def read_task(path: Path, values: Mapping[str, Any], family: ModuleType) -> str | None:
    """Returns the task of the architecture that the configuration names, or None.

    Raises:
        CheckpointError: if `architectures` is not a list.
    """
    architectures = _architectures(path, values)
    known = {name: task for other in FAMILIES.values() for name, task in _classes(other).items()}
    known |= _classes(family)
    for architecture in architectures:
        if known.get(architecture) in family.HUGGING_FACE_TASKS:
            return known[architecture]
    if architectures:
        logger.warning(
            "%s names the architecture %r, which is not known here; the tensors decide the task.",
            path,
            architectures[0],
        )
    return None


def read_arguments(
    path: Path,
    values: Mapping[str, Any],
    task: str,
    dropout: str = "",
    *,
    outputs: int | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the valid arguments of the task's constructor, and messages about invalid arguments.

    Both dictionaries have the arguments' names as keys.

    Args:
        path: the file, for messages.
        values: the file's content.
        task: name of the task.
        dropout: field with the dropout rate before the logits, or "".
        outputs: number of logits in the weights of a classification head, if known.
    """
    arguments: dict[str, Any] = {}
    errors: dict[str, str] = {}
    if dropout and values.get(dropout) is not None:
        arguments["dropout"] = values[dropout]
    if task in ("classifier", "token_classifier"):
        try:
            arguments["labels"] = _read_labels(values, outputs)
        except InputError as error:
            errors["labels"] = f"{path}: {error} Correct the file, or load with labels=[...]."
    if task == "classifier":
        names = {theirs: ours for ours, theirs in _PROBLEM_TYPES.items()}
        default = "regression" if len(arguments.get("labels", ())) == 1 else "single_label"
        theirs = values.get("problem_type") or _PROBLEM_TYPES[default]
        if theirs in names:
            arguments["problem_type"] = names[theirs]
        else:
            errors["problem_type"] = (
                f"{path}: problem_type {theirs!r} is not one of {', '.join(names)}. Correct the "
                f"file, or load with problem_type={default!r}."
            )
    return arguments, errors


def _read_labels(values: Mapping[str, Any], outputs: int | None) -> tuple[str, ...]:
    """Returns the labels' names by id.

    If all names are default names (LABEL_0, ...), the weights decide the number of labels.

    Raises:
        InputError: if `id2label` or `num_labels` is damaged, or the weights have another number of
            outputs.
    """
    names, count = values.get("id2label") or {}, values.get("num_labels", 2)
    if not names and not isinstance(count, int):
        raise InputError(f"num_labels {count!r} is not a number.")
    try:
        by_id = {int(key): name for key, name in names.items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"id2label {names!r} is not a table from ids to names.") from None
    missing = set(range(len(names))) - set(by_id)
    if missing:
        raise InputError(f"id2label has {len(names)} labels, but none for the id {min(missing)}.")
    wrong = [name for name in by_id.values() if not isinstance(name, (str, int, float))]
    if wrong:
        raise InputError(f"id2label has {wrong[0]!r} in place of a label's name.")
    labels = [str(by_id[index]) for index in sorted(by_id)]
    if labels == [_DEFAULT_LABEL.format(index) for index in range(len(labels))]:
        number = outputs or (len(labels) if names else count)
        labels = [_DEFAULT_LABEL.format(index) for index in range(number)]
    if outputs not in (None, len(labels)):
        raise InputError(
            f"id2label names {len(labels)} labels, but the weights have {outputs} outputs."
        )
    return resolve_labels(None, labels)


def configuration_of(model: keras.Model, task: str, family: ModuleType) -> dict[str, Any]:
    """Returns the `config.json` of a model.

    Raises:
        InputError: if transformers cannot express the model.
    """
    config: EncoderConfig = model.config
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    activations["tanh"] = "tanh"
    head, names = family.HUGGING_FACE_TASKS[task], family.HUGGING_FACE_CONFIG
    defaults, special = family.HUGGING_FACE_DEFAULTS, dict[str, int]()
    padding = defaults.get("pad_token_id", 0)
    padding = padding if padding < config.vocabulary_size else None
    if model.preprocessor is not None:
        vocabulary = model.preprocessor.vocabulary
        padding, roles = vocabulary.pad_id, getattr(family, "HUGGING_FACE_SPECIAL_TOKENS", {})
        special = {
            name: vocabulary.id_of(vocabulary.special_tokens[role])
            for name, role in roles.items()
            # Without a separator at the end, the separator does not end a text.
            if name != "eos_token_id" or model.preprocessor.separator_at_end
        }
    values: dict[str, Any] = {
        "architectures": [family.HUGGING_FACE_CLASS + head.ending],
        "model_type": config.family,
        "tie_word_embeddings": getattr(model, "tied", defaults.get("tie_word_embeddings", True)),
        "pad_token_id": padding,
        **special,
        **getattr(family, "HUGGING_FACE_FIXED", {}),
        **head.fixed,
    }
    for ours, theirs in names.items():
        value = getattr(config, ours)
        values[theirs] = activations.get(value, value) if ours in _ACTIVATION_FIELDS else value
    for name, value in head.fixed.items():
        if values[name] != value:
            raise InputError(
                f"Hugging Face's transformers cannot express this model: its {name} is "
                f"{values[name]!r}, but the head needs {value!r}."
            )
    try:
        values = dict(getattr(family, "to_hugging_face", dict)(values))
    except ValueError as error:
        raise InputError(
            f"Hugging Face's transformers cannot express this model: {error}."
        ) from error
    if hasattr(family, "HUGGING_FACE_OTHER_NAMES"):
        values["legacy"] = getattr(model, "legacy", True)
    if head.pooling:
        modes = head.poolings.items()
        values[head.pooling] = next(name for name, mode in modes if mode == model.pooling)
    return values | fields_of_arguments(model, task, head.dropout)


def fields_of_arguments(model: keras.Model, task: str, dropout: str = "") -> dict[str, Any]:
    """Returns the fields that `read_arguments` reads."""
    values: dict[str, Any] = {}
    if dropout:
        values[dropout] = model.dropout
    if task in ("classifier", "token_classifier"):
        values["id2label"] = {str(index): label for index, label in enumerate(model.labels)}
        values["label2id"] = {label: index for index, label in enumerate(model.labels)}
    if task == "classifier":
        values["problem_type"] = _PROBLEM_TYPES[model.problem_type]
    return values
