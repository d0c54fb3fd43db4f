"""The registry of tasks: one table of all facts about tasks that other modules need.

A task has the same name in `keras_bert.load(task=...)`, in files, and as its modules in
`keras_bert.tasks` and `keras_bert.finetuning.jobs`. To add a task, write its class, its entry here
and, if it can be fine-tuned on labeled examples, its job.
"""

import importlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from keras_bert.errors import InputError, closest


class TaskEntry(NamedTuple):
    """Facts about a task.

    Args:
        class_name: name of the task's class in `keras_bert`.
        module: module of the class, below `keras_bert`; imported when the class is needed.
        heads: names that the parts of the task's head have in checkpoints.
        pooled: whether the head takes the pooler's output in every family.
        language_model: whether the model predicts masked tokens.
        windows: whether `predict_text` divides long texts into windows.
        command: the task's name on the command line; "" if it cannot be fine-tuned on labeled
            examples. A task with a command has a module in `keras_bert.finetuning.jobs`.
        summary: describes the predictions to a user who chooses a task.
        prediction_keys: one string for each kind of line that `keras-bert predict` writes: the
            line's keys, separated by spaces.
        pipeline: name of the task on the Hugging Face hub; "" if the hub has no such task.
        example: lines of code for the model card: imports, then a call. `{}` stands for a text
            with a mask.
        ids_shape: shape of `token_ids` in the card's example for a model without a preprocessor.
    """

    class_name: str
    module: str
    heads: tuple[str, ...] = ()
    pooled: bool = False
    language_model: bool = False
    windows: bool = False
    command: str = ""
    summary: str = ""
    prediction_keys: tuple[str, ...] = ()
    pipeline: str = ""
    example: tuple[str, ...] = ('model.predict_text(["A text."])',)
    ids_shape: tuple[int, ...] = (1, 4)

    @property
    def model_class(self) -> type:
        """The model class of the task."""
        return getattr(importlib.import_module(f"keras_bert.{self.module}"), self.class_name)


_FILL_MASK = ("from keras_bert.tasks.fill_mask import fill_mask", "fill_mask(model, [{}])")

TASKS = {
    "encoder": TaskEntry(
        "Encoder",
        "layers.encoder",
        pipeline="feature-extraction",
        example=('model(model.preprocessor(["A text."]))["sequence_output"]',),
    ),
    "classifier": TaskEntry(
        "SequenceClassifier",
        "tasks.classifier",
        heads=("classifier",),
        command="classify",
        summary="one label, several labels, or a number for each text or pair",
        prediction_keys=("text label score", "text labels scores"),
        pipeline="text-classification",
    ),
    "token_classifier": TaskEntry(
        "TokenClassifier",
        "tasks.token_classifier",
        heads=("classifier",),
        windows=True,
        command="tag",
        summary="a tag for each word",
        prediction_keys=("text tags entities",),
        pipeline="token-classification",
    ),
    "span_classifier": TaskEntry(
        "SpanClassifier",
        "tasks.span_classifier",
        heads=("span",),
        windows=True,
        command="answer",
        summary="the part of a context that answers a question",
        prediction_keys=("question answer start score",),
        pipeline="question-answering",
        example=('model.predict_text((["A question?"], ["A text that may answer it."]))',),
    ),
    "multiple_choice": TaskEntry(
        "MultipleChoice",
        "tasks.multiple_choice",
        heads=("classifier",),
        command="choice",
        summary="one of several texts",
        prediction_keys=("context choice scores",),
        pipeline="multiple-choice",
        example=('model.predict_text((["A text."], [["One end.", "Another one."]]))',),
        ids_shape=(1, 2, 4),
    ),
    "embedder": TaskEntry(
        "TextEmbedder",
        "tasks.embedder",
        command="similarity",
        summary="vectors that are near each other if texts mean the same",
        prediction_keys=("text embedding", "text cosine", "context cosines"),
        pipeline="sentence-similarity",
        example=('model.encode(["A text.", "Another one."])',),
    ),
    "masked_lm": TaskEntry(
        "MaskedLanguageModel",
        "tasks.masked_lm",
        heads=("masked_lm",),
        language_model=True,
        pipeline="fill-mask",
        example=_FILL_MASK,
    ),
    "pretraining": TaskEntry(
        "PretrainingModel",
        "tasks.pretraining",
        heads=("masked_lm", "next_sentence"),
        pooled=True,
        language_model=True,
        pipeline="fill-mask",
        example=_FILL_MASK,
    ),
    "next_sentence": TaskEntry(
        "NextSentencePredictor",
        "tasks.pretraining",
        heads=("next_sentence",),
        pooled=True,
        example=(
            'model(model.preprocessor((["A text."], ["Another."])))  '
            "# logits: it follows, it does not",
        ),
    ),
    "replaced_token": TaskEntry(
        "ReplacedTokenDetector",
        "tasks.replaced_token",
        heads=("replaced_token",),
        example=('model(model.preprocessor(["A text."]))  # above 0 where a token was replaced',),
    ),
}

FINE_TUNED = tuple(name for name, entry in TASKS.items() if entry.command)
"""Names of the tasks that can be fine-tuned on labeled examples."""
LANGUAGE_MODELS = {name for name, entry in TASKS.items() if entry.language_model}
"""Names of the tasks that predict masked tokens."""


def task_of(model: Any, *, subclasses: bool = True) -> str | None:
    """Returns the name of a model's task, or None if its class is not registered.

    Args:
        model: any object; only an `Encoder` or a `Task` has a task.
        subclasses: whether an instance of a subclass counts as the registered class.
    """
    by_class = {
        (f"keras_bert.{task.module}", task.class_name): name for name, task in TASKS.items()
    }
    classes = type(model).__mro__ if subclasses else (type(model),)
    found = (by_class.get((cls.__module__, cls.__qualname__)) for cls in classes)
    return next((name for name in found if name is not None), None)


def class_names(tasks: Iterable[str]) -> str:
    """Returns the class names of tasks, for messages."""
    return ", ".join(TASKS[name].class_name for name in tasks)


def check_task(name: str | None) -> None:
    """Checks the name of a task; None passes, too.

    Raises:
        InputError: if there is no such task.
    """
    if name is not None and name not in TASKS:
        raise InputError(
            f"There is no task {name!r}.{closest(name, TASKS)} The tasks are {', '.join(TASKS)}."
        )
