"""Model card of a pretraining run: data, recipe and metrics."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_bert.checkpoints.card import ModelCardData, block, model_index, table
from keras_bert.options import fields, flatten
from keras_bert.pretraining.config import MAY_CHANGE, PretrainingConfig
from keras_bert.pretraining.objectives.registry import OBJECTIVES

_DATA = (
    "data.corpus",
    "data.validation",
    "data.vocabulary",
    "model.init_checkpoint",
    "objective.teacher",
)
_MEASURES = ("loss", "accuracy", "perplexity")


def pretraining_card_data(
    model: keras.Model,
    config: PretrainingConfig,
    *,
    base_model: str | None,
    step: int,
    steps: int,
    examples: int | None,
    measured: Mapping[str, Mapping[str, Any] | None],
) -> ModelCardData:
    """Returns the model card's data: corpus, recipe and losses of a run.

    Args:
        model: final model.
        config: configuration of the run.
        base_model: name of the initial checkpoint on the hub, or None.
        step: number of steps done.
        steps: number of steps of the whole run.
        examples: number of examples in an epoch, or None if it is not known.
        measured: for "training" and "held-out", the last row of the log, or None.
    """
    options = flatten(PretrainingConfig, config.to_dict())
    known = fields(PretrainingConfig)
    data = {name: _named(options[name]) for name in _DATA if options[name]}
    recipe = {
        name: value
        for name, value in options.items()
        if value is not None and name not in _DATA and MAY_CHANGE not in known[name].metadata
    }
    sections = {
        "Data": block(data | ({"examples_per_epoch": examples} if examples else {})),
        "Recipe": block({**recipe, "schedule.steps": steps}),
    }
    found = {
        name: {key: row[key] for key in row if key == "step" or key.endswith(_MEASURES)}
        for name, row in measured.items()
        if row is not None
    }
    part = OBJECTIVES[config.objective.name].part_of
    if found:
        shown = {
            name: {f"{key} ({part(key)})" if part(key) else key: row[key] for key in row}
            for name, row in found.items()
        }
        sections["Metrics"] = (
            f"The run is at step {step} of {steps}. Last measurements, each with its step:"
            f"\n\n{table(shown)}"
        )
    held_out = {key: x for key, x in found.get("held-out", {}).items() if not part(key)}
    of_this_model = held_out.pop("step", None) == step  # the weights have not changed since
    measures = {"validation": ("held-out text", held_out)} if of_this_model else {}
    metadata = model_index(model, measures)
    if base_model:
        metadata["base_model"] = base_model
    return ModelCardData(metadata, sections)


def _named(paths: str | list[str]) -> str | list[str]:
    """Returns the last part of each path, because directories may be private."""
    return Path(paths).name if isinstance(paths, str) else [Path(path).name for path in paths]
