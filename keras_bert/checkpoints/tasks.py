"""The models that checkpoints hold, by the names of their tasks."""

from typing import Any

import keras

from keras_bert.checkpoints.deferred import without_weights
from keras_bert.config import EncoderConfig, closest
from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.tasks.classifier import SequenceClassifier
from keras_bert.tasks.masked_lm import MaskedLanguageModel
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.next_sentence import NextSentencePredictor
from keras_bert.tasks.pretraining_model import PretrainingModel
from keras_bert.tasks.span import SpanClassifier
from keras_bert.tasks.tagger import TokenClassifier

TASKS = {
    "encoder": Encoder,
    "classifier": SequenceClassifier,
    "masked_lm": MaskedLanguageModel,
    "multiple_choice": MultipleChoice,
    "next_sentence": NextSentencePredictor,
    "pretraining": PretrainingModel,
    "span": SpanClassifier,
    "tagger": TokenClassifier,
}


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
        f"{', '.join(cls.__name__ for cls in TASKS.values())}."
    )


def build_model(
    task: str, encoder: dict[str, Any], arguments: dict[str, Any], place: str
) -> keras.Model:
    """A model without weights, for `read_model`.

    Args:
        task: a key of `TASKS`.
        encoder: fields of the `EncoderConfig`.
        arguments: of the task's constructor; `dtype` goes to the encoder.
        place: the checkpoint, for messages.

    Raises:
        InputError: if an argument is unknown or wrong.
    """
    arguments = dict(arguments)
    try:
        with without_weights():
            model = Encoder(EncoderConfig.from_dict(encoder), dtype=arguments.pop("dtype", None))
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
