"""Checkpoints that continue exactly: a model directory with the optimizer and the progress beside.

    checkpoints/step-00001000/   what `keras_bert.save` writes, so `keras_bert.load` opens it,
        training.safetensors     weights that are trained and are not the model's, if there are any,
        optimizer.safetensors    the moments and, for float16, the scale of the loss,
        progress.json            where the run stands, and the checksums of the files.

A directory gets its name when it is complete; a run killed while writing leaves none.
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
from keras_bert.pretraining.objectives.models import REST

MOMENTS = "optimizer.safetensors"

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What a checkpoint holds, copied, so that the training may go on.

    Args:
        model: the model that is to remain; its weights are not looked at any more.
        tensors: name of a file to name to array.
        progress: "step", and what else the run wants back.
        card: what the model's card is to tell.
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
    """Copies what is to be saved.

    Args:
        model: the model that is to remain.
        optimizer: of all weights that are trained.
        progress: as in `Snapshot`.
        card: the same.
    """
    saved = {name: variable.value for name, variable in named_variables(model).items()}
    rest = {name: v for name, v in optimizer.variables.items() if saved.get(name) is not v}
    files = {WEIGHTS: saved, REST: rest, MOMENTS: optimizer.state}
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
    """Writes a checkpoint, then deletes all but the last `keep`, the best and the last good one.

    Args:
        directory: of all checkpoints of the run.
        snapshot: what is to be saved.
        keep: number of checkpoints to keep.
        best: step of another one to keep.
        good: step until which all was well; the last checkpoint until then is kept, too.

    Raises:
        StorageError: if a file cannot be written; earlier checkpoints stay.
    """
    tensors = dict(snapshot.tensors)
    path = checkpoint_path(directory, snapshot.progress["step"])
    with replacing(path, owned=written_with(PROGRESS, MOMENTS, REST, *FILES)) as new:
        write_native(snapshot.model, new, tensors.pop(WEIGHTS))
        write_card(new, snapshot.model, card=snapshot.card)
        for file, arrays in tensors.items():
            save_tensors(arrays, new / file)
        write_progress(new, snapshot.progress)
    flush(directory)  # before those go that it takes the place of
    paths = checkpoint_paths(directory)
    kept = {*paths[-keep:], *checkpoint_paths(directory, good)[-1:]}
    if best is not None:
        kept.add(checkpoint_path(directory, best))
    for path in paths:
        if path not in kept:
            discard(path)


def remove_passed_over(directory: Path, step: int) -> None:
    """Removes what is above the step that was restored, for a run keeps the highest steps."""
    for path in checkpoint_paths(directory):
        if path > checkpoint_path(directory, step):
            logger.warning("Removing %s: it is damaged, and the run goes on before it.", path)
            discard(path)


def remove_unfinished(directory: Path) -> None:
    """Removes what a run left that was killed while it wrote or deleted."""
    remove_scratch(directory)
    for path in checkpoint_paths(directory):
        finish_interrupted(path)


def restore_checkpoint(directory: Path, optimizer: AdamW) -> dict[str, Any] | None:
    """Loads the last checkpoint that is whole; a damaged one is logged and passed over.

    Returns:
        The progress that was saved with it, or None where there is no checkpoint.

    Raises:
        CheckpointError: if there are checkpoints, but none can be used.
    """
    failure: CheckpointError | None = None
    for path in reversed(checkpoint_paths(directory)):
        try:
            progress = read_progress(path)
            _restore(path, optimizer)
        except CheckpointError as error:
            logger.warning("Passing over a damaged checkpoint: %s", error)
            failure = failure or error
        else:
            optimizer.iterations.assign(progress["step"])
            return progress
    if failure is not None:
        raise failure
    return None


def checkpoint_path(directory: Path, step: int) -> Path:
    """Where the checkpoint of a step stands."""
    return directory / f"step-{step:08d}"


def checkpoint_paths(directory: Path, last_step: int | None = None) -> list[Path]:
    """The checkpoints that are there, in order; those up to a step, if one is given."""
    paths = sorted(directory.glob("step-*"))
    return [p for p in paths if last_step is None or p <= checkpoint_path(directory, last_step)]


def _restore(path: Path, optimizer: AdamW) -> None:
    variables = dict(optimizer.variables)
    if (path / REST).exists():
        names = SafetensorsFiles({path / REST: None}).names()
        assign_tensors(
            {name: variables.pop(name) for name in [*variables] if name in names}, path / REST
        )
    assign_tensors(variables, path / WEIGHTS)
    assign_tensors(optimizer.state, path / MOMENTS)
