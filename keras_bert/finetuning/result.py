"""Result of a fine-tuning run, and the directory that holds the result."""

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_bert.atomic import (
    finish_interrupted,
    locked,
    remove_scratch,
    replace_file,
    replacing,
    written_with,
)
from keras_bert.checkpoints.card import ModelCardData, block, model_index, table
from keras_bert.checkpoints.files import PROGRESS, read_progress
from keras_bert.checkpoints.native import CONFIGURATION, save_native
from keras_bert.errors import CheckpointError, InputError
from keras_bert.finetuning.examples import Examples
from keras_bert.finetuning.resume import KEEPS_FINISHED, UNFINISHED

MODEL_NAME, METRICS_NAME, HISTORY_NAME = "model", "metrics.json", "history.jsonl"


@dataclasses.dataclass
class Result:
    """Result of a fine-tuning run.

    Args:
        best_epoch: number of the best epoch. The model has the weights of this epoch. 0 if the
            model started as the frozen baseline, and no epoch was better than that.
        validation: metrics of the best epoch; empty without validation examples.
        test: metrics on the test examples, if there are any.
        baseline: metrics of the frozen baseline under the keys "validation" and "test". Empty if
            the recipe's `baseline` is False or there are no validation examples.
        history: one dictionary per epoch with `epoch`, `loss`, and metrics such as
            `validation_accuracy`.
    """

    best_epoch: int = 0
    validation: dict[str, float] = dataclasses.field(default_factory=dict)
    test: dict[str, float] = dataclasses.field(default_factory=dict)
    baseline: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    history: list[dict[str, float]] = dataclasses.field(default_factory=list)


def write_result(
    model: Any,
    result: Result,
    options: Mapping[str, Any],
    splits: Mapping[str, Examples],
    card_data: ModelCardData,
    output: str | os.PathLike,
) -> None:
    """Writes the model, its metrics and its history. Keeps other files in the directory.

    Args:
        model: model with the weights of the best epoch.
        result: result so far.
        options: the recipe, and configurations of the user's optimizer, loss and metrics.
        splits: examples under the keys "training", "validation" and "test".
        card_data: more data for the model's card. It replaces data that this function
            makes itself.
        output: directory to write to.

    Raises:
        StorageError: if a file cannot be written.
    """
    summary = {
        "best_epoch": result.best_epoch,
        "validation": result.validation,
        "test": result.test,
        "baseline": result.baseline,
        "recipe": options,
    }
    known = _card_data(model, result, options, splits)
    card = ModelCardData(
        {**known.metadata, **card_data.metadata}, {**known.sections, **card_data.sections}
    )
    save_native(model, Path(output) / MODEL_NAME, card)
    metrics = json.dumps(without_nan(summary), indent=2)
    replace_file(Path(output) / METRICS_NAME, f"{metrics}\n")
    lines = (json.dumps(without_nan(entry)) for entry in result.history)
    replace_file(Path(output) / HISTORY_NAME, "".join(f"{line}\n" for line in lines))


@contextlib.contextmanager
def claimed(output: Path) -> Iterator[None]:
    """Locks the output directory while the `with` block runs, and checks it.

    Raises:
        InputError: if another run writes to the directory, or it holds something else.
        StorageError: if a file cannot be written.
    """
    with locked(output):
        check_output(output)
        yield


def keeps_finished_run(output: Path) -> bool:
    """Returns whether a directory holds the result of a finished run, perhaps beside a later one.

    If a later run was interrupted, its state has the answer under the key `keeps_finished`.
    """
    unfinished = output / UNFINISHED
    if not unfinished.exists():
        return (output / METRICS_NAME).exists()
    with contextlib.suppress(CheckpointError):  # `load_progress` reports a damaged state
        return bool(read_progress(unfinished).get(KEEPS_FINISHED))
    return False


def check_output(output: Path) -> None:
    """Checks before the training that the directory can be written.

    Raises:
        InputError: if the directory holds something else than a fine-tuning run.
        StorageError: if a file cannot be written.
    """
    remove_scratch(output)
    finish_interrupted(output / UNFINISHED)
    finish_interrupted(output / MODEL_NAME)
    marker = f"{UNFINISHED}/{PROGRESS}"
    if not (output / marker).exists():
        marker = METRICS_NAME
    if (output / MODEL_NAME / CONFIGURATION).exists() and not (output / marker).exists():
        raise InputError(
            f"{output} holds a model that no fine-tuning wrote; choose another output."
        )
    with contextlib.suppress(_NothingToWriteError), replacing(output, owned=written_with(marker)):
        raise _NothingToWriteError


class _NothingToWriteError(Exception):
    pass


def _card_data(
    model: Any, result: Result, options: Mapping[str, Any], splits: Mapping[str, Examples]
) -> ModelCardData:
    """Returns the data files, the recipe and the metrics for the model's card."""
    data: dict[str, dict[str, Any]] = {
        split: {"file": Path(examples.path).name, "examples": len(examples)}
        for split, examples in splits.items()
    }
    sections = {"Data": block(data), "Recipe": block(options)}
    found = {"validation": result.validation, "test": result.test}
    found = {split: metrics for split, metrics in found.items() if metrics}
    if found:
        when = f"After epoch {result.best_epoch} of {options['epochs']}"
        why = ", which was chosen by the validation examples" if result.validation else ""
        if not result.best_epoch:
            when, why = "Of the frozen baseline", ", because no epoch was better"
        sections["Metrics"] = f"{when}{why}:\n\n{table(found)}"
    measured = {split: (data[split]["file"], metrics) for split, metrics in found.items()}
    return ModelCardData(model_index(model, measured), sections)


def without_nan(value: Any) -> Any:
    """Replaces NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
