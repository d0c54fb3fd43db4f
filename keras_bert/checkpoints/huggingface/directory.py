"""Directories of Hugging Face's transformers: `config.json`, weights, tokenizer's files.

The modules in `keras_bert.families` have transformers' names of fields and tensors.
"""

import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from keras_bert.atomic import replacing
from keras_bert.checkpoints.card import README, Card, write_card
from keras_bert.checkpoints.contents import (
    NO_PREPROCESSOR,
    Contents,
    check_expressible,
    has_pooler,
    stored_task,
)
from keras_bert.checkpoints.directories import TEXT_FILES, replaceable_files
from keras_bert.checkpoints.files import (
    SafetensorsFiles,
    read_index,
    read_json,
    save_tensors,
    write_json,
)
from keras_bert.checkpoints.huggingface import tensorflow as tensorflow_classes
from keras_bert.checkpoints.huggingface.config import (
    class_of,
    configuration_of,
    read_arguments,
    read_encoder,
    read_family,
    read_task,
    unsupported,
    with_defaults,
)
from keras_bert.checkpoints.huggingface.tensors import (
    KINDS,
    RenamedTensors,
    links_of,
    other_names,
    output_layer,
)
from keras_bert.checkpoints.mapping import TensorSource, renamed_weights
from keras_bert.checkpoints.variables import task_name
from keras_bert.errors import CheckpointError, InputError
from keras_bert.families import FAMILIES
from keras_bert.tasks.registry import LANGUAGE_MODELS

logger = logging.getLogger(__name__)

CONFIGURATION, ADAPTER = "config.json", "adapter_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
FILES = (
    CONFIGURATION,
    WEIGHTS,
    README,
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    *TEXT_FILES,
)
"""Names of all files that `save_hugging_face` can write."""

_EARLIER = functools.partial(
    replaceable_files,
    marker=CONFIGURATION,
    is_known=lambda x: isinstance(x, dict) and bool({"model_type", "architectures"} & {*x}),
    files=FILES,
)

_PICKLES = "pytorch_model*.bin"
_ENDINGS_OF_PEFT = {  # an adapter's task_type, and the ending of the class that loads it
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
}
_POSITIONS_OF_HEAD = "masked_lm/position_embedding"


def is_hugging_face(directory: Path) -> bool:
    """Returns whether a directory looks like a directory of transformers."""
    return any((directory / name).is_file() for name in (CONFIGURATION, ADAPTER))


def open_hugging_face(directory: Path) -> Contents:
    """Returns the contents of a directory of transformers.

    Raises:
        CheckpointError: if a file is missing, damaged, pickled or of an unknown family.
    """
    path = directory / CONFIGURATION
    _check_adapter(directory)
    given = read_json(path)
    family = read_family(path, given)
    values = with_defaults(path, given, family)
    weights, kinds = _weights(directory, class_of(path, values, family)), KINDS
    spelled: Callable[[str], str] = str
    if tensorflow_classes.is_tensorflow(weights.names()):
        kinds, spelled = KINDS | tensorflow_classes.KINDS, tensorflow_classes.pytorch_name
        # The TensorFlow classes do not read these fields.
        fixed = {"tie_word_embeddings": True, **getattr(family, "HUGGING_FACE_TENSORFLOW", {})}
        values = with_defaults(path, given | fixed, family)
    encoder = read_encoder(path, values, family.TRAITS, family.HUGGING_FACE_CONFIG)
    tied = values.get("tie_word_embeddings") is not False
    source = RenamedTensors(weights, family, tied, spelled)
    names = set(source.names())
    task = read_task(path, values, family)
    heads = family.HUGGING_FACE_TASKS
    if task is None:
        task = stored_task(links_of(family, encoder, *heads, kinds=kinds), names)
    table = links_of(family, encoder, task, *heads, kinds=kinds)  # the task's own head first
    head = heads[task]
    encoder = encoder.replace(pooler=head.pooled or has_pooler(table, names))
    bias = next((link for link in table if link.ours == "classifier/logits/bias"), None)
    outputs = len(source.read(bias.theirs)) if bias and bias.theirs in names else None
    arguments, errors = read_arguments(path, values, task, head.dropout, outputs=outputs)
    arguments |= head.arguments
    message = unsupported(path, values, head.fixed)
    if message:
        errors["task"] = f'{message} Load only the encoder with task="encoder".'
    if head.pooling:
        pooling = values.get(head.pooling, next(iter(head.poolings)))
        if pooling in head.poolings:
            arguments["pooling"] = head.poolings[pooling]
        else:
            errors["pooling"] = (
                f'{path}: {head.pooling} {pooling!r} is not supported. Load with pooling="first" '
                'or "mean".'
            )
    if task in LANGUAGE_MODELS:
        arguments["tied"] = source.tied
    if task in ("multiple_choice", "token_classifier") and not head.dropout:
        arguments["dropout"] = encoder.hidden_dropout
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
        errors=errors,
    )


def save_hugging_face(model: keras.Model, directory: str | os.PathLike, card: Card = None) -> None:
    """Writes a model and its model card as a directory that transformers opens.

    The directory is written completely or not at all.

    As in transformers, a pooler that the task does not use is left out. To keep the pooler, save
    `model.encoder`. The tensors of DeBERTa's enhanced mask decoder get the names that its authors
    use. A warning says that transformers ignores this decoder.

    Raises:
        InputError: if transformers cannot express the model, or the directory holds something other
            than a model.
        StorageError: if a file cannot be written.
    """
    task, family = task_name(model), _family_to_write(model)
    table = links_of(family, model.config, task)
    pooler = {link.theirs for link in table if link.ours.startswith("encoder/pooler/")}
    tensors = renamed_weights(model, table)
    decoder, bias = output_layer(family)
    if f"{decoder}.weight" in tensors and bias in tensors:
        tensors[f"{decoder}.bias"] = tensors[bias]
    # transformers warns about a pooler that its class does not have.
    if task != "encoder" and not family.HUGGING_FACE_TASKS[task].pooled:
        tensors = {n: x for n, x in tensors.items() if n not in pooler}
    if getattr(model, "enhanced", False):
        logger.warning("transformers predicts masked tokens without the enhanced mask decoder.")
    if not getattr(model, "legacy", True):
        for legacy, other in other_names(family).items():
            tensors = {n.replace(legacy, other): x for n, x in tensors.items()}
    if task == "encoder":
        tensors = {n.removeprefix(family.HUGGING_FACE_PREFIX): x for n, x in tensors.items()}
    with replacing(directory, owned=_EARLIER) as path:
        path.mkdir()
        save_tensors(tensors, path / WEIGHTS, {"format": "pt"})
        write_json(configuration_of(model, task, family), path / CONFIGURATION)
        if model.preprocessor is not None:
            from keras_bert.checkpoints.text_format import write_text_format  # imports TensorFlow

            write_text_format(model.preprocessor, path)
        write_card(path, model, "transformers", card, earlier=Path(directory))


def _family_to_write(model: keras.Model) -> ModuleType:
    """Returns the family of a model, and checks that transformers can express the model.

    Raises:
        InputError: if transformers cannot express the model.
    """
    config, task = model.config, task_name(model)
    if config.family not in FAMILIES:
        raise InputError(f"There is no family {config.family!r}.")
    family = FAMILIES[config.family]
    library, fields = "Hugging Face's transformers", family.HUGGING_FACE_CONFIG
    tasks = family.HUGGING_FACE_TASKS
    head: dict[str, tuple] = {
        name: (getattr(config, name),) for name in ("activation", "layer_norm_epsilon")
    }
    if task in tasks:
        if tasks[task].pooling:
            head["pooling"] = (*tasks[task].poolings.values(),)
        head |= {name: (value,) for name, value in tasks[task].arguments.items()}
    check_expressible(model, library, family, fields, tasks, head=head)
    padding = None if model.preprocessor is None else model.preprocessor.vocabulary.pad_id
    counts = config.position_input and config.position_offset > 0
    if counts and padding not in (None, config.position_offset - 1):
        raise InputError(
            f"{library} starts positions at the padding's id + 1, which is {padding + 1}, but the "
            f"model's position_offset is {config.position_offset}."
        )
    return family


def _check_adapter(directory: Path) -> None:
    """Logs a warning if the directory has a PEFT adapter, because the adapter is not applied.

    Raises:
        CheckpointError: if the directory has only an adapter, without a model's weights.
    """
    path = directory / ADAPTER
    if not path.is_file():
        return
    adapter = read_json(path)
    ending = _ENDINGS_OF_PEFT.get(str(adapter.get("task_type")), "")
    advice = (
        f"peft.AutoPeftModel{ending}.from_pretrained({str(directory)!r})"
        f".merge_and_unload().save_pretrained({f'{directory}-merged'!r})"
    )
    weights = (WEIGHTS, INDEX, tensorflow_classes.WEIGHTS, tensorflow_classes.INDEX)
    others = [*map(directory.joinpath, weights), *directory.glob(_PICKLES)]
    if not (directory / CONFIGURATION).exists() or not any(other.exists() for other in others):
        raise CheckpointError(
            f"{directory} is an adapter for {adapter.get('base_model_name_or_path')}, not a whole "
            f"model. Merge the two with peft: {advice}."
        )
    logger.warning("%s is not applied. To merge the adapter, use peft: %s.", path, advice)


def _weights(directory: Path, class_name: str) -> TensorSource:
    if (directory / WEIGHTS).exists():
        return SafetensorsFiles({directory / WEIGHTS: None})
    if (directory / INDEX).exists():
        return SafetensorsFiles(read_index(directory / INDEX))
    if (directory / tensorflow_classes.WEIGHTS).exists():
        return tensorflow_classes.HDF5Files([directory / tensorflow_classes.WEIGHTS])
    if (directory / tensorflow_classes.INDEX).exists():
        return tensorflow_classes.HDF5Files(read_index(directory / tensorflow_classes.INDEX))
    pickles = sorted(directory.glob(_PICKLES))
    if pickles:
        old, new = repr(str(directory)), repr(f"{directory}-safetensors")
        model, tokenizer = (
            f"transformers.{name}.from_pretrained({old}).save_pretrained({new})"
            for name in (class_name, "AutoTokenizer")
        )
        raise CheckpointError(
            f"{pickles[0]} is a pickle, which can run any code when it is opened, so this package "
            f"never opens it. If you trust it, convert it with torch and transformers: {model}; "
            f"{tokenizer}."
        )
    raise CheckpointError(f"{directory / WEIGHTS} is missing; the checkpoint is not complete.")


def _preprocessor(directory: Path, max_positions: int) -> Any:
    """Returns the preprocessor, or None if the tokenizer's files cannot be used."""
    from keras_bert.checkpoints.text_format import read_text_format  # imports TensorFlow

    try:
        return read_text_format(directory, max_positions)
    except InputError as error:
        logger.warning("%s %s", error, NO_PREPROCESSOR)
        return None
