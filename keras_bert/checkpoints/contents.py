"""Contents of a checkpoint in any format, models built from them, and checks before a save."""

import dataclasses
import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import keras

from keras_bert.checkpoints.mapping import Link, TensorSource, check_layers, read_model
from keras_bert.checkpoints.variables import (
    named_variables,
    saved_weights,
    task_arguments,
    task_name,
    without_weights,
)
from keras_bert.config import FOLLOWING, EncoderConfig
from keras_bert.errors import CheckpointError, InputError
from keras_bert.families import FAMILIES
from keras_bert.layers.encoder import Encoder
from keras_bert.tasks.registry import LANGUAGE_MODELS, TASKS, check_task

logger = logging.getLogger(__name__)

NO_PREPROCESSOR = "The model has no preprocessor; give it one with load(..., preprocessor=...)."


class Contents(NamedTuple):
    """Contents of a checkpoint before any weight is read.

    Args:
        place: the directory or file, for messages.
        task: name of the saved task.
        encoder: fields of the `EncoderConfig`; missing fields have their defaults.
        arguments: arguments of the saved task's constructor.
        preprocessor: a `Preprocessor`, or None.
        source: the tensors.
        table: links from this package's names to the tensors' names. The table has one layer more
            than the configuration, so that `check_layers` finds extra layers.
        errors: reasons why the saved task cannot be built. Other tasks can be built. The key is the
            option that replaces the wrong value, or "task".
    """

    place: Path
    task: str
    encoder: dict[str, Any]
    arguments: dict[str, Any]
    preprocessor: Any
    source: TensorSource
    table: Sequence[Link]
    errors: Mapping[str, str] = MappingProxyType({})

    def build(self, task: str | None = None, **options: Any) -> keras.Model:
        """Makes the model with the names and shapes of its weights, but without their values.

        Args:
            task: a key of `TASKS`. None means the saved task.
            **options: arguments of the constructor; they replace the saved arguments.

        Raises:
            CheckpointError: if the configuration is not valid, the tensors have another number of
                layers, or this package cannot build the saved task.
            InputError: if the task or an option is unknown.
        """
        check_task(task)
        errors = [message for option, message in self.errors.items() if option not in options]
        if errors and task in (None, self.task):
            raise CheckpointError(errors[0])
        arguments, encoder = self.arguments, self.encoder
        if task not in (None, self.task):
            keep = ("tied",) if {task, self.task} <= LANGUAGE_MODELS else ()
            if (self.task, task) == ("embedder", "classifier"):
                keep = ("pooling",)  # the pooler, if there is one, was not trained
            arguments = {name: arguments[name] for name in keep if name in arguments}
            pooling = {**arguments, **options}.get("pooling")
            if pooling == "pooled" or (not pooling and needs_pooler(task, encoder.get("family"))):
                encoder = encoder | {"pooler": True}
        config = encoder_config(encoder, self.place)
        check_layers(self.table, self.source, config.num_distinct_layers)
        rows, given = config.vocabulary_size, options.get("preprocessor")
        own = arguments.get("preprocessor", self.preprocessor)
        arguments = {**arguments, "preprocessor": _usable(own, rows, self.place), **options}
        if given is not None and len(given.vocabulary) > rows:
            raise CheckpointError(
                f"{self.place}: the vocabulary has {len(given.vocabulary)} tokens, but the token "
                f"embedding has only {rows} rows."
            )
        return build_model(task or self.task, config, arguments, str(self.place))

    def load(self, task: str | None = None, **options: Any) -> keras.Model:
        """Makes the model with its weights; arguments and errors as in `keras_bert.load`."""
        model = self.build(task, **options)
        another = task not in (None, self.task)
        read_model(model, self.table, self.source, another_task=another, chosen=task is not None)
        return model


def _usable(preprocessor: Any, vocabulary_size: int, place: Path) -> Any:
    """Returns the checkpoint's preprocessor, or None if the embedding lacks rows for its tokens.

    Only the mask token may lack a row, because texts work without masks.
    """
    if preprocessor is None:
        return None
    vocabulary = preprocessor.vocabulary
    without_row = vocabulary.tokens[vocabulary_size:]
    if without_row == (vocabulary.mask,):
        logger.warning(
            "%s: the token embedding has no row for %s, so texts cannot have masks.",
            place,
            vocabulary.mask,
        )
    elif without_row:
        logger.warning(
            "%s: the vocabulary has %d tokens, but the token embedding has only %d rows. %s",
            place,
            len(vocabulary),
            vocabulary_size,
            NO_PREPROCESSOR,
        )
        return None
    return preprocessor


def encoder_config(fields: Mapping[str, Any], place: Path) -> EncoderConfig:
    """Makes the configuration of a checkpoint's encoder.

    Raises:
        CheckpointError: if a field is wrong or missing, or the family is unknown.
    """
    try:
        config = EncoderConfig.from_dict(fields)
    except InputError as error:
        raise CheckpointError(f"{place}: {error}") from error
    if config.family not in FAMILIES:
        raise CheckpointError(f"{place}: there is no family {config.family!r}.")
    return config


def build_model(
    task: str, encoder: EncoderConfig, arguments: dict[str, Any], place: str
) -> keras.Model:
    """Makes a model without values of weights, for `read_model`.

    Args:
        task: a key of `TASKS`.
        encoder: the encoder's configuration.
        arguments: arguments of the task's constructor; `dtype` and `remat` go to the encoder.
        place: the checkpoint, for messages.

    Raises:
        InputError: if an argument is unknown or wrong.
    """
    arguments = dict(arguments)
    try:
        with without_weights():
            options = {
                name: arguments.pop(name) for name in ("dtype", "remat") if name in arguments
            }
            model = Encoder(encoder, **options)
            if task != "encoder":
                return TASKS[task].model_class(model, **arguments)
        model.preprocessor = arguments.pop("preprocessor", None)
        if arguments:
            raise InputError(f"An encoder has no option {sorted(arguments)[0]!r}.")
        return model
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{place}: {error}.") from error


def stored_task(table: Iterable[Link], names: Container[str], ambiguous: str = "encoder") -> str:
    """Returns the task whose head a checkpoint has, or "encoder" if it has no known head.

    Args:
        table: links from this package's names to the tensors' names.
        names: names of the tensors.
        ambiguous: task to return if several tasks have this head.
    """
    parts: dict[str, set[str]] = {}
    for link in table:
        if link.theirs in names:
            parts.setdefault(link.ours.partition("/")[0], set()).add(link.theirs)
    # A head whose tensors all belong to a larger head is a part of that head.
    heads = {name for name, own in parts.items() if not any(own < more for more in parts.values())}
    heads.discard("encoder")
    if "replaced_token" in heads:  # a masked LM head beside it belongs to the generator
        heads.discard("masked_lm")
    tasks = [name for name, task in TASKS.items() if heads and set(task.heads) == heads]
    return ambiguous if len(tasks) > 1 else next(iter(tasks), "encoder")


def has_pooler(table: Iterable[Link], names: Container[str]) -> bool:
    """Returns whether a tensor of the encoder's pooler is among the names."""
    return any(link.theirs in names for link in table if link.ours.startswith("encoder/pooler"))


def needs_pooler(task: str, family: str | None) -> bool:
    """Returns whether a task takes the pooler's output in a family."""
    head = FAMILIES[family or "bert"].HUGGING_FACE_TASKS.get(task)
    return TASKS[task].pooled or (head is not None and head.pooled)


def check_saveable(model: keras.Model, *, adapted: bool = False) -> None:
    """Checks that the model can be rebuilt from its configuration and its weights.

    Args:
        model: the model.
        adapted: whether the model will have LoRA adapters when it is saved. A save of adapters
            converts int8 kernels to float32.

    Raises:
        InputError: if the model belongs to a subclass, or its weights do not fit its configuration,
            for example after `quantize`.
    """
    task = task_name(model)
    if task != "encoder":
        task_name(model.encoder)
    described = build_model(task, model.config, task_arguments(model), "the model")
    expected = {name: tuple(v.shape) for name, v in named_variables(described).items()}
    found = {name: tuple(v.shape) for name, v in saved_weights(model, dequantize=adapted).items()}
    if other := sorted(dict(found.items() ^ expected.items())):
        raise InputError(
            f"Cannot save this {type(model).__name__}: its weight {other[0]} does not fit its "
            "configuration. If the model was quantized, save it before it is quantized, and "
            "quantize the exported file."
        )


def check_expressible(
    model: keras.Model,
    library: str,
    family: ModuleType,
    fields: Container[str],
    tasks: Iterable[str],
    encoder: Mapping[str, tuple] = MappingProxyType({}),
    head: Mapping[str, tuple] = MappingProxyType({}),
) -> None:
    """Checks that another library can express a model, so that it computes the same outputs.

    Args:
        model: the model.
        library: name of the library, for messages.
        family: module of the family that the library's code implements.
        fields: fields of the configuration that the library can read. Other fields must have the
            family's values.
        tasks: tasks that the library has.
        encoder: the values that the library supports, by field of the configuration.
        head: the values that the library supports, by attribute of the task. If a task
            lacks an attribute, the attribute is not checked.

    Raises:
        InputError: if the library cannot express the model.
    """
    task, config = task_name(model), model.config
    if task not in tasks:
        advice = ""
        if task == "embedder":
            advice = '; write it as "sentence-transformers", or load it with task="encoder"'
        raise InputError(f"{library} has no {TASKS[task].class_name} of this family{advice}.")
    fixed = {
        field.name: (family.TRAITS.get(field.name, field.default),)
        for field in dataclasses.fields(EncoderConfig)
        if field.name not in fields and field.name not in _WITHOUT_INFLUENCE
    }
    fixed |= {n: (getattr(config, other),) for n, other in FOLLOWING.items() if n in fixed}
    pooling = "pooled" if needs_pooler(task, config.family) else "first"
    head = {"pooling": (pooling,), "windows": (None,)} | dict(head)
    for owner, allowed in ((config, fixed | dict(encoder)), (model, head)):
        for name, values in allowed.items():
            value = getattr(owner, name, values[0])
            if value not in values:
                whose = "encoder" if owner is config else TASKS[task].class_name
                raise InputError(
                    f"{library} cannot express this {whose}: its {name} is {value!r}, but "
                    f"the library supports only {' or '.join(map(repr, values))}."
                )
    for name in ("num_segments", "position_offset"):
        needed = family.TRAITS.get(name, 1) and name not in getattr(family, "MAY_BE_ZERO", ())
        if name in fields and not getattr(config, name) and needed:
            raise InputError(f"{library} cannot express an encoder whose {name} is 0.")


# Fields that do not influence a trained encoder's outputs.
_WITHOUT_INFLUENCE = {
    "attention_dropout",
    "classifier_dropout",
    "classifier_input_dropout",
    "hidden_dropout",
    "initializer_range",
    "mask_value",
    "pooler",
}
