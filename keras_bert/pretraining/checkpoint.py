"""Checkpoints that continue exactly: a model directory with the optimizer and the progress beside.

    checkpoints/step-00001000/   what `keras_bert.save` writes, so `keras_bert.load` opens it,
        training.safetensors     weights that are trained and are not the model's, if there are any,
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
from keras_bert.checkpoints.safetensors import SafetensorsFiles, assign_tensors, save_tensors
from keras_bert.checkpoints.variables import named_variables
from keras_bert.errors import CheckpointError
from keras_bert.pretraining.optimizers import AdamW

REST, MOMENTS, PROGRESS = "training.safetensors", "optimizer.safetensors", "progress.json"

logger = logging.getLogger(__name__)


def save_checkpoint(
    directory: Path, model: keras.Model, optimizer: AdamW, progress: dict[str, Any], *, keep: int
) -> Path:
    """Writes a checkpoint and deletes all but the last `keep`.

    Args:
        directory: of all checkpoints of the run.
        model: the model that is to remain.
        optimizer: of all weights that are trained.
        progress: "step", and what else the run wants back.
        keep: number of checkpoints to keep.

    Raises:
        InputError: if the disk refuses; earlier checkpoints stay.
    """
    path = directory / f"step-{progress['step']:08d}"
    saved = {name: variable.value for name, variable in named_variables(model).items()}
    rest = {name: v for name, v in optimizer.variables.items() if saved.get(name) is not v}
    with replacing(path, marker=PROGRESS) as new:
        write_native(model, new)
        tensors = {REST: rest, MOMENTS: optimizer.state}
        for name, variables in tensors.items():
            if variables:
                save_tensors({k: v.numpy() for k, v in variables.items()}, new / name)
        checksums = {file.name: _checksum(file) for file in sorted(new.glob("*.safetensors"))}
        description = json.dumps({**progress, "checksums": checksums}, indent=2)
        (new / PROGRESS).write_text(description + "\n")
    for old in _paths(directory)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def remove_scratch(directory: Path) -> None:
    """Removes what a run left that was killed while it wrote."""
    for scratch in directory.glob(".step-*"):
        shutil.rmtree(scratch, ignore_errors=True)


def restore_checkpoint(directory: Path, optimizer: AdamW) -> dict[str, Any] | None:
    """Loads the last checkpoint that is whole; a damaged one is logged and passed over.

    Returns:
        The progress that was saved with it, or None where there is no checkpoint.

    Raises:
        CheckpointError: if there are checkpoints, but none can be used.
    """
    paths = _paths(directory)
    failure: CheckpointError | None = None
    for path in reversed(paths):
        try:
            progress = _verified_progress(path)
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


def _restore(path: Path, optimizer: AdamW) -> None:
    variables = dict(optimizer.variables)
    if (path / REST).exists():
        names = SafetensorsFiles({path / REST: None}).names()
        assign_tensors(
            {name: variables.pop(name) for name in [*variables] if name in names}, path / REST
        )
    assign_tensors(variables, path / WEIGHTS)
    assign_tensors(optimizer.state, path / MOMENTS)


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
