"""Checkpoints of a run: the model, the optimizer and the progress, to continue exactly.

    checkpoints/step-00001000/   all files that `keras_bert.save` writes; `keras_bert.load` opens it
        training.safetensors     trained weights that are not part of the final model, if any
        optimizer.safetensors    the moments and, for float16, the loss scale
        progress.json            position of the run, and checksums of the files

A directory has a temporary name while it is written, and is renamed when it is complete.
"""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import (
    discard,
    finish_interrupted,
    flush,
    remove_scratch,
    replacing,
    written_with,
)
from keras_bert.checkpoints.card import ModelCardData, write_card
from keras_bert.checkpoints.files import (
    PROGRESS,
    SafetensorsFiles,
    assign_tensors,
    read_progress,
    save_tensors,
    write_progress,
)
from keras_bert.checkpoints.native import FILES, WEIGHTS, write_native
from keras_bert.checkpoints.variables import named_variables
from keras_bert.errors import CheckpointError
from keras_bert.optimizers.distributed import AdamW
from keras_bert.pretraining.objectives.models import REMAINING

MOMENTS = "optimizer.safetensors"

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Copy of the state of a run, so that training can continue while the copy is written.

    Args:
        model: final model. Its weights are in `tensors`.
        tensors: arrays by file and name.
        progress: "step", and other values that the run needs to continue.
        card: data of the model card.
    """

    model: keras.Model
    tensors: Mapping[str, Mapping[str, np.ndarray]]
    progress: Mapping[str, Any]
    card: ModelCardData | None = None


def take_snapshot(
    model: keras.Model,
    optimizer: AdamW,
    progress: Mapping[str, Any],
    card: ModelCardData | None = None,
) -> Snapshot:
    """Copies the weights and the optimizer's state.

    Args:
        model: final model.
        optimizer: optimizer of all trained weights.
        progress: see `Snapshot`.
        card: data of the model card.
    """
    saved = {name: variable.value for name, variable in named_variables(model).items()}
    remaining = {name: v for name, v in optimizer.variables.items() if saved.get(name) is not v}
    files = {WEIGHTS: saved, REMAINING: remaining, MOMENTS: optimizer.state}
    tensors = {
        file: {name: np.array(variable.numpy()) for name, variable in variables.items()}
        for file, variables in files.items()
        if variables
    }
    return Snapshot(model=model, tensors=tensors, progress=progress, card=card)


def write_checkpoint(
    directory: Path,
    snapshot: Snapshot,
    *,
    keep: int,
    best: int | None = None,
    good: int | None = None,
) -> None:
    """Writes a checkpoint, then deletes all others but the last `keep`, the best and a good one.

    The good one is the last checkpoint before the loss rose.

    Args:
        directory: directory of all checkpoints of the run.
        snapshot: state to write.
        keep: number of checkpoints to keep.
        best: step of the checkpoint with the lowest held-out loss, which is kept, too.
        good: last step before the loss rose. The last checkpoint up to this step is kept, too.

    Raises:
        StorageError: if a file cannot be written. Then earlier checkpoints stay.
    """
    tensors = dict(snapshot.tensors)
    path = checkpoint_path(directory, snapshot.progress["step"])
    with replacing(path, owned=written_with(PROGRESS, MOMENTS, REMAINING, *FILES)) as new:
        write_native(snapshot.model, new, tensors.pop(WEIGHTS))
        write_card(new, snapshot.model, card=snapshot.card)
        for file, arrays in tensors.items():
            save_tensors(arrays, new / file)
        write_progress(new, snapshot.progress)
    flush(directory)  # before older checkpoints are deleted
    paths = checkpoint_paths(directory)
    kept = {*paths[-keep:], *checkpoint_paths(directory, good)[-1:]}
    if best is not None:
        kept.add(checkpoint_path(directory, best))
    for path in paths:
        if path not in kept:
            discard(path)


def remove_passed_over(directory: Path, step: int) -> None:
    """Removes checkpoints after the restored step.

    These checkpoints are damaged. They would count among the last checkpoints, which are kept.
    """
    for path in checkpoint_paths(directory):
        if path > checkpoint_path(directory, step):
            logger.warning(
                "Removing %s: it is damaged, and the run continues from an earlier step.", path
            )
            discard(path)


def remove_unfinished(directory: Path) -> None:
    """Removes unfinished files of a run that was killed while it wrote or deleted."""
    remove_scratch(directory)
    for path in checkpoint_paths(directory):
        finish_interrupted(path)


def restore_checkpoint(directory: Path, optimizer: AdamW) -> dict[str, Any] | None:
    """Loads the last complete checkpoint. Logs and skips damaged checkpoints.

    Returns:
        The progress that was saved with the checkpoint, or None if there are no checkpoints.

    Raises:
        CheckpointError: if there are checkpoints, but none can be used.
    """
    failure: CheckpointError | None = None
    for path in reversed(checkpoint_paths(directory)):
        try:
            progress = read_progress(path)
            _restore(path, optimizer)
        except CheckpointError as error:
            logger.warning("Skipping a damaged checkpoint: %s", error)
            failure = failure or error
        else:
            optimizer.iterations.assign(progress["step"])
            return progress
    if failure is not None:
        raise failure
    return None


def checkpoint_path(directory: Path, step: int) -> Path:
    """Returns the path of the checkpoint of a step."""
    return directory / f"step-{step:08d}"


def checkpoint_paths(directory: Path, last_step: int | None = None) -> list[Path]:
    """Returns the paths of the checkpoints in the order of their steps, up to `last_step`."""
    paths = sorted(directory.glob("step-*"))
    return [p for p in paths if last_step is None or p <= checkpoint_path(directory, last_step)]


def _restore(path: Path, optimizer: AdamW) -> None:
    variables = dict(optimizer.variables)
    if (path / REMAINING).exists():
        names = SafetensorsFiles({path / REMAINING: None}).names()
        assign_tensors(
            {name: variables.pop(name) for name in [*variables] if name in names}, path / REMAINING
        )
    assign_tensors(variables, path / WEIGHTS)
    assign_tensors(optimizer.state, path / MOMENTS)
