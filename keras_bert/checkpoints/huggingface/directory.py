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
from keras_bert.checkpoints.card import README, Card, write_card
from keras_bert.checkpoints.contents import GIVE_PREPROCESSOR, Contents
from keras_bert.checkpoints.directories import TEXT_FILES, earlier_save
from keras_bert.checkpoints.huggingface import tensorflow as tensorflow_classes
from keras_bert.checkpoints.huggingface.config import (
    class_of,
    explained,
    read_arguments,
    read_encoder,
    read_family,
    read_task,
    unsupported,
    write_configuration,
)
from keras_bert.checkpoints.json_files import read_json, write_json
from keras_bert.checkpoints.mapping import (
    KEY_OF_HEADS,
    QUERY_OF_HEADS,
    REVERSED,
    SAME,
    TRANSPOSED,
    VALUE_OF_HEADS,
    Kinds,
    Link,
    TensorSource,
    links,
    write_model,
)
from keras_bert.checkpoints.safetensors import SafetensorsFiles, read_index, save_tensors
from keras_bert.checkpoints.tasks import check_expressible, stored_task, task_name
from keras_bert.config import EncoderConfig
from keras_bert.errors import CheckpointError, InputError
from keras_bert.families import FAMILIES, Row
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

_EARLIER = earlier_save(
    CONFIGURATION,
    lambda values: isinstance(values, dict) and bool({"model_type", "architectures"} & {*values}),
    FILES,
)

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

_OPTIONAL_PARTS = {  # our names to the fields that switch them on; transformers ignores the rest
    "encoder/embeddings/segment_embedding": "num_segments",
    "encoder/embeddings/position_embedding": "position_input",
    "encoder/relative_positions/table": "relative_positions",
    "encoder/relative_positions/layer_norm": "relative_layer_norm",
    "encoder/convolution/convolution": "convolution_size",
    "encoder/convolution/layer_norm": "convolution_size",
}
_PICKLES = "pytorch_model*.bin"
_ENDINGS_OF_PEFT = {  # task_type of an adapter to the ending of the class that opens it
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
}
_POSITIONS_OF_HEAD = "masked_lm/position_embedding"


def is_hugging_face(directory: Path) -> bool:
    """Whether a directory looks like one of transformers."""
    return any((directory / name).is_file() for name in (CONFIGURATION, ADAPTER))


def open_hugging_face(directory: Path) -> Contents:
    """What a directory of transformers holds.

    Raises:
        CheckpointError: if a file is missing, damaged, of a family that is not supported, or
            pickled; the message names file and tensor.
    """
    path = directory / CONFIGURATION
    _check_adapter(directory)
    given = read_json(path)
    family = read_family(path, given)
    values = explained(path, given, family)
    weights, kinds = _weights(directory, class_of(path, values, family)), KINDS
    spelled: Callable[[str], str] = str
    if tensorflow_classes.is_tensorflow(weights.names()):
        kinds, spelled = KINDS | tensorflow_classes.KINDS, tensorflow_classes.pytorch_name
        fixed = {"tie_word_embeddings": True, **_fixed_in_tensorflow(family)}
        values = explained(path, given | fixed, family)
    encoder = read_encoder(path, values, family.TRAITS, family.HUGGING_FACE_CONFIG)
    tied = values.get("tie_word_embeddings") is not False
    source = _Renamed(weights, family, tied, spelled)
    names = set(source.names())
    task = read_task(path, values, family)
    heads = family.HUGGING_FACE_TASKS
    if task is None:
        task = stored_task(_table(family, encoder, *heads, kinds=kinds), names)
    table = _table(family, encoder, task, *heads, kinds=kinds)  # its own head counts first
    head = heads[task]
    encoder = encoder.replace(pooler=head.pooled or has_pooler(table, names))
    bias = next((link for link in table if link.ours == "classifier/logits/bias"), None)
    outputs = len(source.read(bias.theirs)) if bias and bias.theirs in names else None
    arguments, faults = read_arguments(path, values, task, head.dropout, outputs=outputs)
    arguments |= head.arguments
    fault = unsupported(path, values, head.fixed)
    if fault:
        faults["task"] = f'{fault} The encoder alone can be loaded with task="encoder".'
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
        faults=faults,
    )


def save_hugging_face(model: keras.Model, directory: str | os.PathLike, card: Card = None) -> None:
    """Writes a directory that transformers opens, with its card, complete or not at all.

    A pooler that the task does not use is left out, as transformers does; save `model.encoder` to
    keep it. An enhanced mask decoder is written as its authors do, but transformers ignores it,
    which is logged as a warning.

    Raises:
        InputError: if transformers has no such model, the directory holds something else.
        StorageError: if a file cannot be written.
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
    with replacing(directory, owned=_EARLIER) as path:
        path.mkdir()
        save_tensors(tensors, path / WEIGHTS, {"format": "pt"})
        write_json(write_configuration(model, task, family), path / CONFIGURATION)
        if model.preprocessor is not None:
            from keras_bert.checkpoints.text_format import write_text_format  # brings TensorFlow

            write_text_format(model.preprocessor, path)
        write_card(path, model, "transformers", card, earlier=Path(directory))


def has_pooler(table: Iterable[Link], names: Container[str]) -> bool:
    """Whether there is a tensor of the encoder's pooler among the names."""
    return any(link.theirs in names for link in table if link.ours.startswith("encoder/pooler"))


class _Renamed:
    """A source whose names are made those of the family's table.

    Older files say gamma and beta for a LayerNorm's weight and bias; files of a bare encoder
    leave out the prefix; of some families, the masked language model has two sets of names, and
    `other_names` says whether these are not those of the table.

    If one tensor has several names, the same name counts as in transformers. If their values
    differ, a warning names them. If the output matrix differs from the token embedding, `tied` is
    False.

    Args:
        source: the tensors.
        family: the family.
        tied: whether the configuration says that the two are the same.
        spelled: returns the PyTorch class's name for a name of the source.
    """

    def __init__(
        self,
        source: TensorSource,
        family: ModuleType,
        tied: bool,
        spelled: Callable[[str], str],
    ):
        self._source = source
        decoder, bias = _output_layer(family)
        matrix, its_bias = f"{decoder}.weight", f"{decoder}.bias"
        prefix = family.HUGGING_FACE_PREFIX
        rows = [theirs for _, _, theirs in family.HUGGING_FACE]
        bare = {r.removeprefix(prefix).split(".")[0] for r in rows if r.startswith(prefix)}
        self._names: dict[str, list[str]] = {}  # the first counts
        self.tied, self.other_names = tied, False
        # With the prefix before without it; gamma and beta before weight and bias.
        for name in sorted(source.names(), key=lambda name: (not name.startswith(prefix), name)):
            new = spelled(name).replace("LayerNorm.gamma", "LayerNorm.weight")
            new = new.replace("LayerNorm.beta", "LayerNorm.bias")
            if new.split(".")[0] in bare:
                new = prefix + new
            for legacy, other in _other_names(family).items():
                if new.startswith(other):
                    new, self.other_names = new.replace(other, legacy), True
            if not new.endswith("position_ids"):  # a buffer
                self._names.setdefault(new, []).append(name)
        if its_bias != bias and its_bias in self._names:
            same = self._names.pop(bias, []) if tied else []
            self._names[bias] = self._names.pop(its_bias) + same
        if tied and matrix in self._names:
            table = f"{_theirs(family.HUGGING_FACE)['encoder/embeddings/token_embedding']}.weight"
            self.tied = self._agree(self._names.get(table, []) + self._names[matrix])
            if self.tied:
                del self._names[matrix]
            else:
                logger.warning(
                    "%s: %r and %r differ, though tie_word_embeddings is true; both are kept, as "
                    "in transformers.",
                    self.where(matrix),
                    table,
                    matrix,
                )

    def names(self) -> Iterable[str]:
        """The names of all tensors, as the family's table has them."""
        return self._names.keys()

    def read(self, name: str) -> np.ndarray:
        """One tensor."""
        if not self._agree(self._names[name]):
            logger.warning(
                "%s: %s are one tensor, but their values differ; the first is used, as in "
                "transformers.",
                self.where(name),
                " and ".join(map(repr, self._names[name])),
            )
        return self._source.read(self._names[name][0])

    def where(self, name: str) -> str:
        """The file of a tensor."""
        return self._source.where(self._names.get(name, [name])[0])

    def _agree(self, names: list[str]) -> bool:
        """Whether these tensors have the same values."""
        return all(
            np.array_equal(self._source.read(names[0]), self._source.read(other))
            for other in names[1:]
        )


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


def _table(
    family: ModuleType, config: EncoderConfig, *tasks: str, kinds: Kinds = KINDS
) -> list[Link]:
    """The links for some tasks, and for one layer more than there is."""
    heads = (row for task in tasks for row in family.HUGGING_FACE_TASKS[task].rows)
    rows = [
        (kind, ours, theirs)
        for kind, ours, theirs in (*family.HUGGING_FACE, *heads)
        if ours not in _OPTIONAL_PARTS or getattr(config, _OPTIONAL_PARTS[ours])
    ]
    return links(rows, kinds, config.num_distinct_layers + 1, config.layers_per_group)


def _output_layer(family: ModuleType) -> tuple[str, str]:
    """The name of the masked language model's output layer, and of the head's bias.

    A matrix that is not tied has a bias of its own beside the head's; only the former counts.
    """
    theirs = _theirs(family.HUGGING_FACE_TASKS["masked_lm"].rows)
    return theirs["masked_lm/decoder"], theirs["masked_lm/bias"]


def _theirs(rows: Iterable[Row]) -> dict[str, str]:
    """Our names to theirs."""
    return {ours: theirs for _, ours, theirs in rows}


def _other_names(family: ModuleType) -> Mapping[str, str]:
    """Beginnings of names in the family's table to those that stand in their place elsewhere."""
    return getattr(family, "HUGGING_FACE_OTHER_NAMES", {})


def _fixed_in_tensorflow(family: ModuleType) -> Mapping[str, Any]:
    """Fields of the configuration that the TensorFlow classes do not read."""
    return getattr(family, "HUGGING_FACE_TENSORFLOW", {})


def _check_adapter(directory: Path) -> None:
    """Logs that an adapter of PEFT is not applied.

    Raises:
        CheckpointError: if the directory has no other weights.
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
            f"{pickles[0]} is a pickle, which can run any code when it is opened, so it is never "
            f"loaded here. If you trust it, convert it with torch and transformers: {model}; "
            f"{tokenizer}."
        )
    raise CheckpointError(f"{directory / WEIGHTS} is missing; the checkpoint is not complete.")


def _preprocessor(directory: Path, max_positions: int) -> Any:
    """Returns the preprocessor, or None if the tokenizer's files cannot be used."""
    from keras_bert.checkpoints.text_format import read_text_format  # brings TensorFlow

    try:
        return read_text_format(directory, max_positions)
    except InputError as error:
        logger.warning("%s The model has no preprocessor; %s.", error, GIVE_PREPROCESSOR)
        return None
