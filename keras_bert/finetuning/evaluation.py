"""What a model says about examples, and what that is worth."""

from typing import Any

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import Examples
from keras_bert.finetuning.jobs import job_of


def evaluate(model: Any, examples: Examples, *, batch_size: int = 32) -> dict[str, float]:
    """The metrics of a model on labelled examples.

    Args:
        model: a task with a preprocessor.
        examples: of the task's kind, with labels that the model knows.
        batch_size: rows per step.

    Returns:
        Metrics by name, as the task's job measures them; `loss` where it is known.

    Raises:
        InputError: if labels are missing or unknown; the message names file and line.
    """
    job = job_of(model)
    check_model(model)
    rows = job.rows(model, examples)
    job.targets(model, examples, rows)  # what is wrong with the labels is said before the work
    return job.measure(model, examples, rows, model.predict_rows(rows, batch_size))


def predict(model: Any, examples: Examples, *, batch_size: int = 32) -> list[dict[str, Any]]:
    """What a model says about examples, labelled or not.

    Returns:
        One dictionary per example, ready for JSON, as the model's `predict_text`.

    Raises:
        InputError: if the model cannot take texts.
    """
    job = job_of(model)
    check_model(model)
    rows = job.rows(model, examples)
    return job.predict(model, examples, rows, model.predict_rows(rows, batch_size))


def check_model(model: Any) -> None:
    """Passes for a model that can take texts.

    Raises:
        InputError: for another.
    """
    if getattr(model, "preprocessor", None) is None:
        raise InputError(
            "The model has no preprocessor, so it cannot be trained or measured on texts; give it "
            "one: model.preprocessor = keras_bert.Preprocessor(...)."
        )
    length, positions = model.preprocessor.sequence_length, model.config.max_positions
    if length > positions:
        raise InputError(
            f"The preprocessor's sequence_length is {length}, but the model has {positions} "
            "positions; shorten it."
        )
