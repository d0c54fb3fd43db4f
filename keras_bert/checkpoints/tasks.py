"""The models that checkpoints hold, by the names of their tasks."""

import dataclasses
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import keras

from keras_bert.checkpoints.mapping import Link
from keras_bert.checkpoints.variables import named_variables, saved_weights, without_weights
from keras_bert.config import EncoderConfig, closest
from keras_bert.errors import CheckpointError, InputError
from keras_bert.families import FAMILIES
from keras_bert.layers.encoder import Encoder
from keras_bert.tasks.classifier import SequenceClassifier
from keras_bert.tasks.embedder import TextEmbedder
from keras_bert.tasks.masked_lm import MaskedLanguageModel
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.next_sentence import NextSentencePredictor
from keras_bert.tasks.pretraining import PretrainingModel
from keras_bert.tasks.replaced_token import ReplacedTokenDetector
from keras_bert.tasks.span_classifier import SpanClassifier
from keras_bert.tasks.token_classifier import TokenClassifier

TASKS = {
    "encoder": Encoder,
    "classifier": SequenceClassifier,
    "embedder": TextEmbedder,
    "masked_lm": MaskedLanguageModel,
    "multiple_choice": MultipleChoice,
    "next_sentence": NextSentencePredictor,
    "pretraining": PretrainingModel,
    "replaced_token": ReplacedTokenDetector,
    "span_classifier": SpanClassifier,
    "token_classifier": TokenClassifier,
}
LANGUAGE_MODELS = {"masked_lm", "pretraining"}


_TASKS_BY_HEADS = {
    (): "encoder",
    ("masked_lm",): "masked_lm",
    ("masked_lm", "next_sentence"): "pretraining",
    ("masked_lm", "replaced_token"): "replaced_token",  # the other was of a generator
    ("next_sentence",): "next_sentence",
    ("replaced_token",): "replaced_token",
    ("span",): "span_classifier",
}


def stored_task(table: Iterable[Link], names: Container[str], classifier: str = "encoder") -> str:
    """The task whose heads there are among the names of tensors.

    Args:
        table: the links.
        names: of the tensors.
        classifier: the task of a classification head, of which there are several.
    """
    parts = {link.ours.partition("/")[0] for link in table if link.theirs in names}
    tasks = _TASKS_BY_HEADS | {("classifier",): classifier}
    return tasks.get(tuple(sorted(parts - {"encoder"})), "encoder")


def needs_pooler(task: str, family: str | None) -> bool:
    """Whether a task of a family takes the pooler's output."""
    head = FAMILIES[family or "bert"].HUGGING_FACE_TASKS.get(task)
    return task in ("next_sentence", "pretraining") or (head is not None and head.pooled)


def check_task(task: str | None) -> None:
    """Passes for None and the names of `TASKS`.

    Raises:
        InputError: for anything else.
    """
    if task is not None and task not in TASKS:
        raise InputError(
            f"There is no task {task!r}.{closest(task, TASKS)} The tasks are {', '.join(TASKS)}."
        )


def task_name(model: keras.Model) -> str:
    """The name of a model's task.

    Raises:
        InputError: if the model is none of ours.
    """
    for name, task in TASKS.items():
        if type(model) is task:
            return name
    raise InputError(
        f"Cannot save a {type(model).__name__}; checkpoints hold "
        f"{', '.join(cls.__name__ for cls in TASKS.values())}. Register a class of your own and "
        'use model.save("model.keras").'
    )


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
        raise InputError(f"{library} has no {TASKS[task].__name__} of this family{advice}.")
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
                whose = "encoder" if owner is config else TASKS[task].__name__
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
                return TASKS[task](model, **arguments)
        model.preprocessor = arguments.pop("preprocessor", None)
        if arguments:
            raise InputError(f"An encoder has no option {sorted(arguments)[0]!r}.")
        return model
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{place}: {error}.") from error
