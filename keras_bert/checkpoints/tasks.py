"""Models of tasks, from checkpoints and for them."""

import dataclasses
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import keras

from keras_bert.checkpoints.mapping import Link
from keras_bert.checkpoints.variables import named_variables, saved_weights, without_weights
from keras_bert.config import EncoderConfig
from keras_bert.errors import CheckpointError, InputError
from keras_bert.families import FAMILIES
from keras_bert.layers.encoder import Encoder
from keras_bert.tasks.registry import TASKS, class_names, task_of


def stored_task(table: Iterable[Link], names: Container[str], ambiguous: str = "encoder") -> str:
    """Returns the task whose head a checkpoint has.

    Args:
        table: the links.
        names: of the tensors.
        ambiguous: the task of a head that several tasks have.
    """
    heads = {link.ours.partition("/")[0] for link in table if link.theirs in names} - {"encoder"}
    if "replaced_token" in heads:  # beside it, a masked language model is the generator
        heads.discard("masked_lm")
    tasks = [name for name, task in TASKS.items() if heads and set(task.heads) == heads]
    return ambiguous if len(tasks) > 1 else next(iter(tasks), "encoder")


def needs_pooler(task: str, family: str | None) -> bool:
    """Whether a task of a family takes the pooler's output."""
    head = FAMILIES[family or "bert"].HUGGING_FACE_TASKS.get(task)
    return TASKS[task].pooled or (head is not None and head.pooled)


def task_name(model: keras.Model) -> str:
    """The name of a model's task.

    Raises:
        InputError: if the model is none of ours.
    """
    name = task_of(model, subclasses=False)
    if name is None:
        raise InputError(
            f"Cannot save a {type(model).__name__}; checkpoints hold {class_names(TASKS)}. "
            'Register a class of your own and use model.save("model.keras").'
        )
    return name


def task_arguments(model: keras.Model) -> dict[str, Any]:
    """Arguments of a task's constructor beside its encoder, ready for JSON."""
    elsewhere = ("name", "dtype", "trainable", "encoder", "preprocessor", "config")
    return {name: x for name, x in model.get_config().items() if name not in elsewhere}


def check_saveable(model: keras.Model) -> None:
    """Passes for a model that its configuration and its weights describe completely.

    Raises:
        InputError: for a subclass, and for a model with other weights than its configuration
            makes, which `quantize` leaves.
    """
    task = task_name(model)
    if task != "encoder":
        task_name(model.encoder)
    described = build_model(task, model.config, task_arguments(model), "the model")
    expected = {name: tuple(v.shape) for name, v in named_variables(described).items()}
    found = {name: tuple(v.shape) for name, v in saved_weights(model).items()}
    if other := sorted(dict(found.items() ^ expected.items())):
        raise InputError(
            f"Cannot save this {type(model).__name__}: its weight {other[0]} is not as the "
            "configuration makes it. If the model was quantized, save it before, and quantize "
            "the exported file."
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
    """Passes for a model that a library's code can compute, number for number.

    Args:
        model: the model.
        library: what to call the library in a message.
        family: the family that its code is of.
        fields: of the configuration that can be told to it; others must be as the family has
            them.
        tasks: those that it knows.
        encoder: field of the configuration to the values that it knows.
        head: attribute of the task to the values that it knows; a task without it passes.

    Raises:
        InputError: for another model.
    """
    task, config = task_name(model), model.config
    if task not in tasks:
        advice = '; write it as "sentence-transformers"' if task == "embedder" else ""
        raise InputError(f"{library} has no {TASKS[task].class_name} of this family{advice}.")
    fixed = {
        field.name: (family.TRAITS.get(field.name, field.default),)
        for field in dataclasses.fields(EncoderConfig)
        if field.name not in fields and field.name not in _WITHOUT_INFLUENCE
    }
    if "embedding_size" in fixed:
        fixed["embedding_size"] = (config.hidden_size,)
    pooling = "pooled" if needs_pooler(task, config.family) else "first"
    head = {"pooling": (pooling,)} | dict(head)
    for owner, allowed in ((config, fixed | dict(encoder)), (model, head)):
        for name, values in allowed.items():
            value = getattr(owner, name, values[0])
            if value not in values:
                whose = "encoder" if owner is config else TASKS[task].class_name
                raise InputError(
                    f"{library} cannot express this {whose}: its {name} is {value!r}, but "
                    f"{' or '.join(map(repr, values))} is all that can be said there."
                )
    for name in ("num_segments", "position_offset"):
        if name in fields and not getattr(config, name) and family.TRAITS.get(name, 1):
            raise InputError(f"{library} cannot express an encoder whose {name} is 0.")


# On what an encoder computes, once it is trained.
_WITHOUT_INFLUENCE = {
    "attention_dropout",
    "classifier_dropout",
    "classifier_input_dropout",
    "hidden_dropout",
    "initializer_range",
    "mask_value",
    "pooler",
}


def encoder_config(fields: Mapping[str, Any], place: Path) -> EncoderConfig:
    """The configuration that a checkpoint has.

    Raises:
        CheckpointError: if a field is wrong or missing, or the family is unknown; the message
            names the place.
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
    """A model without weights, for `read_model`.

    Args:
        task: a key of `TASKS`.
        encoder: the encoder's configuration.
        arguments: of the task's constructor; `dtype` goes to the encoder.
        place: the checkpoint, for messages.

    Raises:
        InputError: if an argument is unknown or wrong.
    """
    arguments = dict(arguments)
    try:
        with without_weights():
            model = Encoder(encoder, dtype=arguments.pop("dtype", None))
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
