"""What a pretraining tells of its model, for the card."""

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
    examples: int,
    measured: Mapping[str, Mapping[str, Any] | None],
) -> ModelCardData:
    """Corpus, recipe and losses.

    Args:
        model: that remains.
        config: of the run.
        base_model: the hub's name of what it began with, if it is on a hub.
        step: how far it is.
        steps: how far it goes.
        examples: in an epoch.
        measured: "training" and "held-out" to their last rows of the log, where there are any.
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
        "Data": block({**data, "examples_per_epoch": examples}),
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
            f"The run stands at step {step} of {steps}. What was measured last, and at which step:"
            f"\n\n{table(shown)}"
        )
    held_out = {key: x for key, x in found.get("held-out", {}).items() if not part(key)}
    of_this_model = held_out.pop("step", None) == step  # and not of what it was before
    measures = {"validation": ("held-out text", held_out)} if of_this_model else {}
    metadata = model_index(model, measures)
    if base_model:
        metadata["base_model"] = base_model
    return ModelCardData(metadata, sections)


def _named(paths: str | list[str]) -> str | list[str]:
    """The last parts of paths: where a file lay is nobody's business."""
    return Path(paths).name if isinstance(paths, str) else [Path(path).name for path in paths]
