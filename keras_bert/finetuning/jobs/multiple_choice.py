"""Texts to the choice that goes with each, as in SWAG."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import ChoiceExamples, Examples
from keras_bert.finetuning.jobs.job import Job, PerRow, measured_loss
from keras_bert.finetuning.readers.choices import read_choices
from keras_bert.finetuning.readers.tables import FORMATS
from keras_bert.metrics.classification import accuracy
from keras_bert.text.rows import Rows


def read(
    path: str,
    *,
    text_column: str | None = None,
    choice_column: Sequence[str] = (),
    label_column: Sequence[str] = (),
    first_index: int = 0,
    header: bool = True,
    format: str | None = None,
    labelled: bool = True,
    on_error: Any = "fail",
) -> ChoiceExamples:
    """Reads texts with choices; see `read_choices`."""
    return read_choices(
        path,
        context=text_column,
        choices=choice_column,
        label=next(iter(label_column), None),
        first_index=first_index,
        header=header,
        format=format,
        labelled=labelled,
        on_error=on_error,
    )


def arguments(train: ChoiceExamples, *others: Examples) -> dict[str, Any]:
    """Returns an empty dictionary: no argument depends on examples."""
    return {}


def rows(model: Any, examples: ChoiceExamples) -> Rows:
    """Returns a group of rows per text: the text with each of its choices.

    Raises:
        InputError: if the texts have not all the same number of choices.
    """
    examples.check_counts()
    count = max([1, *map(len, examples.choices)])
    return dataclasses.replace(model.rows(examples.inputs), group=count)


def targets(model: Any, examples: ChoiceExamples, rows: Rows) -> PerRow:
    """Returns the index of the right choice.

    Raises:
        InputError: if the examples have no labels, or a label that is no choice.
    """
    if examples.labels is None:
        raise InputError(f"{examples.path} does not say which choices are right; add a label.")
    for index, label in enumerate(examples.labels):
        if not 0 <= label < rows.group:
            raise InputError(
                f"{examples.place(index)}: the label is {label}, but must be from 0 to "
                f"{rows.group - 1}, the number of a choice."
            )
    return PerRow(np.array(examples.labels, np.int32))


def predict(
    model: Any, examples: ChoiceExamples, rows: Rows, outputs: list[np.ndarray]
) -> list[dict[str, Any]]:
    """Returns the dictionaries of `MultipleChoice.predict_text`."""
    return model.predictions(examples.choices, outputs)


def measure(
    model: Any, examples: ChoiceExamples, rows: Rows, outputs: list[np.ndarray]
) -> dict[str, float]:
    """Returns the loss and the accuracy."""
    right = targets(model, examples, rows).values
    logits = np.reshape(outputs, (-1, rows.group))
    loss = measured_loss(model, right, logits)
    return {"loss": loss, "accuracy": accuracy(right, logits.argmax(axis=1))}


def metrics(model: Any) -> tuple[str, ...]:
    """Returns the only metric."""
    return ("accuracy",)


JOB = Job(
    examples=ChoiceExamples,
    formats=FORMATS,
    read=read,
    arguments=arguments,
    keeps_head=True,
    rows=rows,
    targets=targets,
    predict=predict,
    measure=measure,
    metrics=metrics,
)
