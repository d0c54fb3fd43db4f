"""Curves of runs as a picture, from their logs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.pretraining.journal import LOG, read_log

KINDS = ("loss", "accuracy")


def plot_runs(
    runs: Mapping[str, str | os.PathLike],
    path: str | os.PathLike,
    *,
    measures: Sequence[str] | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Draws a panel for every measure: training as a line, held-out text as points.

    Args:
        runs: what to call a run, to its directory.
        path: of the picture; its ending says the format, for instance `.png`.
        measures: the panels; None means all losses and accuracies in the logs.
        levels: measure to names of values that are drawn as horizontal lines, say of a baseline.

    Raises:
        InputError: if a directory has no log with such a measure, matplotlib is not installed, or
            the disk refuses.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "Curves need matplotlib: pip install 'keras-bert-encoders[plot]'."
        ) from None
    logs = {name: _read(Path(directory)) for name, directory in runs.items()}
    panels = list(measures or _measures(logs.values()))
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.5 * columns, 3.2 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, axis in zip(panels, axes, strict=False):
        for index, (name, log) in enumerate(logs.items()):
            _draw(axis, log, panel, name, f"C{index}")
        for name, value in ((levels or {}).get(panel) or {}).items():
            axis.axhline(value, color="grey", linestyle="--", label=name)
        axis.set(title=panel.replace("_", " "), xlabel="step")
        axis.grid(alpha=0.3)
        axis.legend()
    for axis in axes[len(panels) :]:
        axis.remove()
    with replacing(path) as new:
        figure.savefig(new, format=Path(path).suffix.lstrip(".") or "png", dpi=120)


def _draw(axis: Any, log: Sequence[Mapping[str, Any]], measure: str, name: str, color: str) -> None:
    for event, style in (("train", {"alpha": 0.5}), ("validation", {"marker": "o"})):
        points = [(r["step"], r[measure]) for r in log if r["event"] == event and measure in r]
        if points:
            label = name if event == "train" else f"{name}, held out"
            axis.plot(*zip(*points, strict=True), color=color, label=label, **style)


def _read(directory: Path) -> list[dict[str, Any]]:
    rows = read_log(directory / LOG)
    if not rows:
        raise InputError(f"{directory} holds no log of a pretraining run.")
    return rows


def _measures(logs: Any) -> list[str]:
    """The names of losses and accuracies, in the order in which they appear."""
    names = (name for log in logs for row in log for name in row)
    found = [name for name in dict.fromkeys(names) if name.endswith(KINDS)]
    if not found:
        raise InputError("The logs hold no losses.")
    return found
