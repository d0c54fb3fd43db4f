"""State of an unfinished fine-tuning run. With the state, the run continues to the same result.

    output/unfinished/          exists while a run is under way, or if it was killed
        weights.safetensors     weights of the model after the last finished epoch
        optimizer.safetensors   all variables of the optimizer
        best.safetensors        weights of the best epoch, if it is an earlier one
        progress.json           epoch, result so far, hash of the run, and checksums

The order of examples and the seeds of dropout depend only on (seed, epoch), so they are not saved.
"""

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing, written_with
from keras_bert.checkpoints.files import (
    PROGRESS,
    SafetensorsFiles,
    assign_tensors,
    read_progress,
    save_tensors,
    write_progress,
)
from keras_bert.checkpoints.variables import named_variables
from keras_bert.errors import CheckpointError
from keras_bert.finetuning.jobs import Targets
from keras_bert.layers.lora import FACTORS, adapted_layers
from keras_bert.text.rows import Rows

UNFINISHED, KEEPS_FINISHED = "unfinished", "keeps_finished"
WEIGHTS, OPTIMIZER, BEST = "weights.safetensors", "optimizer.safetensors", "best.safetensors"
_EARLIER = written_with(PROGRESS, WEIGHTS, OPTIMIZER, BEST)

_is_new = re.compile(rf"encoder/pooler/|.*/({'|'.join(FACTORS)})$").match
"""Matches the names of an encoder's weights that are new and random in each run."""

logger = logging.getLogger(__name__)


def save_progress(
    output: Path, model: Any, progress: dict[str, Any], best: list[Any] | None = None
) -> None:
    """Writes the state after an epoch. The earlier state stays until the new one is complete.

    Args:
        output: directory of the run.
        model: compiled model with a built optimizer.
        progress: values for JSON. `load_progress` compares `progress["run"]`, a result of
            `run_of`, with the run that continues.
        best: `model.get_weights()` of the best epoch, if the model has other weights now.

    Raises:
        StorageError: if a file cannot be written.
    """
    with replacing(output / UNFINISHED, owned=_EARLIER) as path:
        path.mkdir()
        save_tensors(named_variables(model), path / WEIGHTS)
        save_tensors(_optimizer_variables(model), path / OPTIMIZER)
        if best is not None:
            save_tensors(dict(zip(named_variables(model), best, strict=True)), path / BEST)
        write_progress(path, progress)


def load_progress(output: Path, model: Any, run: str) -> dict[str, Any] | None:
    """Restores model and optimizer from the state of an unfinished run.

    If the state belongs to a run with other data, another model or other options, it is not used.
    Then a warning is logged, and the run starts from the beginning.

    Returns:
        The progress that `save_progress` was given, or None if the run starts from
        the beginning.

    Raises:
        CheckpointError: if the state is damaged.
    """
    path = output / UNFINISHED
    if not path.exists():
        return None
    try:
        progress = read_progress(path)
        if progress.get("run") != run:
            logger.warning(
                "%s was left by a run with other data, another model or other options; this run "
                "starts from the beginning.",
                path,
            )
            return None
        assign_tensors(_optimizer_variables(model), path / OPTIMIZER)
        assign_tensors(named_variables(model), path / WEIGHTS)
    except CheckpointError as error:
        raise CheckpointError(f"{error} To start from the beginning, remove {path}.") from error
    logger.info("Continuing after epoch %d, with the state in %s.", progress["epoch"], path)
    return progress


def load_best(output: Path, model: Any) -> list[Any]:
    """Returns the weights of the best epoch, in the order of `model.get_weights()`."""
    path = output / UNFINISHED / BEST
    source = SafetensorsFiles({path: None})
    return [np.array(source.read(name)) for name in named_variables(model)]


def run_of(model: Any, options: Mapping[str, Any], splits: list[tuple[Rows, Targets]]) -> str:
    """Returns a hash of options, model and data that identifies a run.

    The weights of heads, of the pooler and of LoRA adapters are left out, because new ones are
    random and differ each time the run is started.
    """
    digest = hashlib.sha256()
    arguments = model.get_config()
    for name in ("name", "encoder", "preprocessor"):
        del arguments[name]
    config = model.encoder.config.to_dict()
    adapted = {layer.path: (layer.lora_rank, layer.lora_alpha) for layer in adapted_layers(model)}
    described = [options, type(model).__name__, arguments, config, adapted]
    digest.update(json.dumps(described, sort_keys=True, default=str).encode())
    for rows, targets in splits:
        arrays = [rows.splits, *rows.flat.values(), *keras.tree.flatten(targets.values)]
        for array in arrays:
            digest.update(np.asarray(array).tobytes())
    for name, variable in named_variables(model).items():
        if name.startswith("encoder/") and not _is_new(name):
            digest.update(variable.numpy().tobytes())
    return digest.hexdigest()


def set_dropout_seeds(model: Any, seed: int, epoch: int) -> None:
    """Makes the dropout of an epoch depend only on (seed, epoch)."""
    generators = [getattr(layer, "seed_generator", None) for layer in model._flatten_layers()]
    for number, generator in enumerate(filter(None, generators)):
        words = np.random.SeedSequence([seed, epoch, number]).generate_state(2)
        generator.state.assign(words.astype(generator.state.dtype))


def _optimizer_variables(model: Any) -> dict[str, Any]:
    return {str(number): variable for number, variable in enumerate(model.optimizer.variables)}
