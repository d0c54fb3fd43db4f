"""What the values of options may be: one of several names, or a number in a range."""

from collections.abc import Collection
from typing import Any

from keras_bert.distribution.strategy import STRATEGIES
from keras_bert.errors import InputError, closest
from keras_bert.families import FAMILIES
from keras_bert.optimizers.distributed import OPTIMIZERS
from keras_bert.optimizers.schedules import DECAYS
from keras_bert.pretraining.data.mask_selection import UNITS
from keras_bert.pretraining.objectives.registry import OBJECTIVES

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")

CHOICES: dict[str, Collection[str]] = {
    "decay": DECAYS,
    "family": FAMILIES,
    "masking": UNITS,
    "objective": OBJECTIVES,
    "optimizer": OPTIMIZERS,
    "precision": PRECISIONS,
    "strategy": STRATEGIES,
}

_MANY = 2**31
_COUNT = (1, _MANY, "1 or more")
RANGES: dict[str, tuple[float, float, str]] = {
    "sequence_length": (8, _MANY, "8 or more"),
    "masking_rate": (1e-3, 0.9, "from 0.001 to 0.9"),
    "validation_share": (0, 0.5, "from 0 to 0.5"),
    "warmup_steps": (0, _MANY, "0 or more"),
    "warmup_share": (0, 1, "from 0 to 1"),
    "learning_rate": (0, 10, "from 0 to 10"),
    "final_learning_rate": (0, 10, "from 0 to 10"),
    "beta_1": (0, 1 - 1e-6, "from 0 to below 1"),
    "beta_2": (0, 1 - 1e-6, "from 0 to below 1"),
    "epsilon": (1e-30, 1, "positive and at most 1"),
    "weight_decay": (0, 10, "from 0 to 10"),
    "clip_norm": (1e-12, 1e12, "positive, or null"),
    "peak_teraflops": (1e-6, 1e9, "positive, or null"),
    "epochs": (1e-6, _MANY, "positive"),
    "generator_size": (1e-3, 1, "positive and at most 1"),
    "generator_depth": (1e-3, 1, "positive and at most 1"),
    "seed": (0, _MANY - 1, "from 0 to 2147483647"),
    **dict.fromkeys(
        (
            "batch_size",
            "first_batch_size",
            "batch_ramp_steps",
            "accumulation",
            "steps",
            "checkpoint_every",
            "keep_checkpoints",
            "evaluate_every",
            "steps_per_loop",
            "validation_examples",
            "vocabulary_size_multiple",
        ),
        _COUNT,
    ),
}


def check_ranges(options: Any) -> None:
    """Passes where every attribute is one of its choices or in its range, or None.

    Raises:
        InputError: for the first that is not.
    """
    for name, choices in CHOICES.items():
        value = getattr(options, name)
        if value is not None and value not in choices:
            raise InputError(
                f"{name} is {value!r}.{closest(value, choices)} Choose one of {', '.join(choices)}."
            )
    for name, (low, high, expected) in RANGES.items():
        value = getattr(options, name)
        if value is not None and not low <= value <= high:
            raise InputError(f"{name} is {value!r}, but must be {expected}.")
