"""What a model says about examples, and what that is worth."""

from collections.abc import Callable
from typing import Any

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import Examples
from keras_bert.finetuning.jobs import Job, job_of
from keras_bert.text.rows import Rows


def evaluate(
    model: Any,
    examples: Examples,
    *,
    batch_size: int = 32,
    run: Callable[..., Any] | None = None,
) -> dict[str, float]:
    """The metrics of a model on labelled examples.

    Args:
        model: a task with a preprocessor.
        examples: of the task's kind, with labels that the model knows.
        batch_size: rows per step.
        run: what computes in the model's place; see `predict_rows`.

    Returns:
        Metrics by name, as the task's job measures them; `loss` where it is known.

    Raises:
        InputError: if labels are missing or unknown; the message names file and line.
    """
    job, rows, outputs = outputs_of(model, examples, batch_size, labelled=True, run=run)
    return job.measure(model, examples, rows, outputs)


def predict(model: Any, examples: Examples, *, batch_size: int = 32) -> list[dict[str, Any]]:
    """What a model says about examples, labelled or not.

    Returns:
        One dictionary per example, ready for JSON, as the model's `predict_text`.

    Raises:
        InputError: if the model cannot take texts.
    """
    job, rows, outputs = outputs_of(model, examples, batch_size)
    return job.predict(model, examples, rows, outputs)


def outputs_of(
    model: Any,
    examples: Examples,
    batch_size: int,
    *,
    labelled: bool = False,
    run: Callable[..., Any] | None = None,
) -> tuple[Job, Rows, Any]:
    """What a model's job measures and predicts by: itself, the rows and the outputs for them.

    Args:
        model: a task with a preprocessor.
        examples: of the task's kind.
        batch_size: rows per step.
        labelled: whether what is wrong with the labels is to be said before the work.
        run: what computes in the model's place; see `predict_rows`.

    Raises:
        InputError: if the model cannot take texts, or something is wrong with the labels.
    """
    job = job_of(model)
    check_model(model)
    rows = job.rows(model, examples)
    if labelled:
        job.targets(model, examples, rows)
    return job, rows, model.predict_rows(rows, batch_size, run)


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
