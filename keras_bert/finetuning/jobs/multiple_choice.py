"""Job of multiple choice: predicts which of several choices fits each text, as in SWAG."""

import dataclasses
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import ChoiceExamples
from keras_bert.finetuning.jobs.job import Job, PerRow, measured_loss
from keras_bert.finetuning.readers.choices import read_choices
from keras_bert.finetuning.readers.tables import FORMATS
from keras_bert.metrics.classification import accuracy
from keras_bert.text.rows import Rows


def rows(model: Any, examples: ChoiceExamples) -> Rows:
    """Returns a group of rows per text: the text with each of its choices.

    Raises:
        InputError: if the texts differ in their number of choices.
    """
    examples.check_counts()
    count = max([1, *map(len, examples.choices)])
    return dataclasses.replace(model.rows(examples.inputs), group=count)


def targets(model: Any, examples: ChoiceExamples, rows: Rows) -> PerRow:
    """Returns the index of the right choice.

    Raises:
        InputError: if the examples have no labels, or a label is not the number of a choice.
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


def measure(
    model: Any, examples: ChoiceExamples, rows: Rows, outputs: list[np.ndarray]
) -> dict[str, float]:
    """Returns the loss and the accuracy."""
    right = targets(model, examples, rows).values
    logits = np.reshape(outputs, (-1, rows.group))
    loss = measured_loss(model, right, logits)
    return {"loss": loss, "accuracy": accuracy(right, logits.argmax(axis=1))}


JOB = Job(
    examples=ChoiceExamples,
    formats=FORMATS,
    read=read_choices,
    arguments=lambda train, *others: {},  # no argument depends on examples
    keeps_head=True,
    rows=rows,
    targets=targets,
    predict=lambda model, examples, rows, outputs: model.predictions(examples.choices, outputs),
    measure=measure,
    metrics=lambda model: ("accuracy",),
)
