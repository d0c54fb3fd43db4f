"""Checks that a directory belongs to the same run, with the same options, texts and teacher."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import remove_scratch, replace_file
from keras_bert.errors import InputError
from keras_bert.options import fields, flatten
from keras_bert.pretraining.config import MAY_CHANGE, PretrainingConfig

RUN = "pretraining.json"
"""File that marks the directory of a run. It holds the result of `describe_run`."""

_PARTS = {
    "corpus": "text or the vocabulary",
    "held_out": "held-out text or the vocabulary",
    "teacher": "teacher",
}


def check_directory(directory: Path, config: PretrainingConfig) -> None:
    """Checks that a directory is missing, empty, or the directory of the same run.

    Raises:
        InputError: if the directory holds other files or a run with other options, or the
            description of its run is damaged.
    """
    remove_scratch(directory)  # left by a run that was killed here
    if not directory.exists() or not any(directory.iterdir()):
        return
    if not (directory / RUN).is_file():
        raise InputError(
            f"{directory} is not empty and holds no pretraining run; choose another output."
        )
    earlier = flatten(PretrainingConfig, _read_run(directory)["config"])
    now = flatten(PretrainingConfig, config.to_dict())
    for name, field in fields(PretrainingConfig).items():
        if MAY_CHANGE not in field.metadata and earlier[name] != now[name]:
            raise InputError(
                f"{directory} holds a run with {name} {earlier[name]!r}, not {now[name]!r}; "
                "choose another output, or set the option back to continue the run."
            )


def earlier_option(directory: Path, name: str) -> Any:
    """Returns an option of the run in a directory by its dotted name, or None without a run.

    Raises:
        InputError: if the description of the run is damaged.
    """
    if not (directory / RUN).is_file():
        return None
    return flatten(PretrainingConfig, _read_run(directory)["config"])[name]


def describe_run(
    config: PretrainingConfig, corpus: int, held_out: int, model: keras.Model
) -> dict[str, Any]:
    """Returns the description of a run: options, and checksums of texts and teacher."""
    return {
        "config": config.to_dict(),
        "corpus": corpus,
        "held_out": held_out,
        "teacher": _frozen_checksum(model),
    }


def claim_directory(directory: Path, run: Mapping[str, Any]) -> None:
    """Writes the description of a run, or compares it with the description in the directory.

    Args:
        directory: directory of the run.
        run: result of `describe_run`.

    Raises:
        InputError: if a text or the teacher has changed.
    """
    path = directory / RUN
    if path.exists():
        earlier = _read_run(directory)
        for name, what in _PARTS.items():
            if earlier.get(name, run[name]) != run[name]:  # an old run may not have this part
                raise InputError(
                    f"The {what} has changed since the run in {directory} was started; "
                    "choose another output, or restore the files."
                )
        return
    replace_file(path, json.dumps(run, indent=2) + "\n")


def _read_run(directory: Path) -> dict[str, Any]:
    path = directory / RUN
    try:
        run = json.loads(path.read_text("utf-8"))
        if isinstance(run["config"], dict):
            return run
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise InputError(
        f"{path} is damaged: it does not hold the options of a run. Restore the file, or choose "
        "another output."
    )


def _frozen_checksum(model: keras.Model) -> int:
    """Returns a checksum of the weights that are not trained."""
    checksum = 0
    for weight in model.non_trainable_weights:
        checksum = zlib.crc32(np.asarray(weight).tobytes(), checksum)
    return checksum
