"""Checkpoints that continue exactly: a model directory with the optimizer and the progress beside.

    checkpoints/step-00001000/   what `keras_bert.save` writes, so `keras_bert.load` opens it,
        optimizer.safetensors    the moments of AdamW,
        progress.json            where the run stands, and the checksums of the files.

A directory gets its name when it is complete; a run killed while writing leaves none.
"""

import hashlib
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import keras

from keras_bert.atomic import replacing
from keras_bert.checkpoints.native import WEIGHTS, write_native
from keras_bert.checkpoints.safetensors import assign_tensors, save_tensors
from keras_bert.checkpoints.variables import named_variables
from keras_bert.errors import CheckpointError
from keras_bert.pretraining.optimizers import AdamW

MOMENTS, PROGRESS = "optimizer.safetensors", "progress.json"

logger = logging.getLogger(__name__)


def save_checkpoint(
    directory: Path, model: keras.Model, optimizer: AdamW, progress: dict[str, Any], *, keep: int
) -> Path:
    """Writes a checkpoint and deletes all but the last `keep`.

    Args:
        directory: of all checkpoints of the run.
        model: the model.
        optimizer: its optimizer.
        progress: "step", and what else the run wants back.
        keep: number of checkpoints to keep.

    Raises:
        InputError: if the disk refuses; earlier checkpoints stay.
    """
    path = directory / f"step-{progress['step']:08d}"
    with replacing(path, marker=PROGRESS) as new:
        write_native(model, new)
        save_tensors({k: v.numpy() for k, v in optimizer.state.items()}, new / MOMENTS)
        checksums = {name: _checksum(new / name) for name in (WEIGHTS, MOMENTS)}
        description = json.dumps({**progress, "checksums": checksums}, indent=2)
        (new / PROGRESS).write_text(description + "\n")
    for old in _paths(directory)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def restore_checkpoint(
    directory: Path, model: keras.Model, optimizer: AdamW
) -> dict[str, Any] | None:
    """Loads the last checkpoint that is whole; a damaged one is logged and passed over.

    Returns:
        The progress that was saved with it, or None where there is no checkpoint.

    Raises:
        CheckpointError: if there are checkpoints, but none can be used.
    """
    for scratch in directory.glob(".step-*"):  # left by a run that was killed while writing
        shutil.rmtree(scratch, ignore_errors=True)
    paths = _paths(directory)
    failure: CheckpointError | None = None
    for path in reversed(paths):
        try:
            progress = _verified_progress(path)
            assign_tensors(named_variables(model), path / WEIGHTS)
            assign_tensors(optimizer.state, path / MOMENTS)
        except CheckpointError as error:
            logger.warning("Passing over a damaged checkpoint: %s", error)
            failure = failure or error
        else:
            optimizer.iterations.assign(progress["step"])
            return progress
    if failure is not None:
        raise failure
    return None


def _verified_progress(path: Path) -> dict[str, Any]:
    try:
        progress = json.loads((path / PROGRESS).read_text())
        for name, expected in progress["checksums"].items():
            if _checksum(path / name) != expected:
                raise CheckpointError(f"{path / name} is damaged: its checksum has changed.")
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path} is not a whole checkpoint: {error!r}.") from error
    return progress


def _paths(directory: Path) -> list[Path]:
    return sorted(directory.glob("step-*"))


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
