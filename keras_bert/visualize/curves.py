"""Curves of pretraining."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.pretraining.curves import draw_runs

Runs = str | os.PathLike | Sequence[str | os.PathLike] | Mapping[str, str | os.PathLike]


def pretraining_curves(
    runs: Runs,
    *,
    measures: Sequence[str] | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> Any:
    """Draws losses and accuracies of pretraining runs, finished or not, over one another.

    Args:
        runs: the output directory of a run, several of them, or what to call each to its
            directory.
        measures: the panels; None means all losses and accuracies in the logs.
        levels: measure to names of values that are drawn as horizontal lines, say of a baseline.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        InputError: if a directory has no log, no log has such a measure, or matplotlib is not
            installed.
    """
    return draw_runs(named_runs(runs), measures=measures, levels=levels)


def named_runs(runs: Runs) -> dict[str, str | os.PathLike]:
    """Runs by the names of their directories or, if two have one name, by their whole paths."""
    if isinstance(runs, Mapping):
        return dict(runs)
    directories = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    names = {Path(each).resolve().name: each for each in directories}
    return names if len(names) == len(directories) else {str(each): each for each in directories}
