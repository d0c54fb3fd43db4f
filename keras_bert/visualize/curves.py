"""Draws the curves of pretraining runs from their logs."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.errors import InputError
from keras_bert.pretraining.training.run_log import LOG, read_log
from keras_bert.visualize.plotting import check_picture, panels, save_figure, write_legend

KINDS = ("loss", "accuracy")
Runs = str | os.PathLike | Sequence[str | os.PathLike] | Mapping[str, str | os.PathLike]


def plot_runs(
    runs: Runs,
    path: str | os.PathLike,
    *,
    measures: Sequence[str] | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Draws the curves of `pretraining_curves` and writes them to a picture.

    Args:
        runs: the runs; see `pretraining_curves`.
        path: the picture's path. Its ending, such as `.png`, is the format.
        measures: the panels; see `pretraining_curves`.
        levels: horizontal lines; see `pretraining_curves`.

    Raises:
        InputError: if an argument of `pretraining_curves` is wrong, or the path does not end like
            a picture's.
        StorageError: if a file cannot be written.
    """
    check_picture(path)
    save_figure(pretraining_curves(runs, measures=measures, levels=levels), path)


def pretraining_curves(
    runs: Runs,
    *,
    measures: Sequence[str] | None = None,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> Any:
    """Draws a panel for every measure, with a line for training and points for held-out text.

    Args:
        runs: the output directory of a run, finished or not; several directories; or directories
            by name of the run.
        measures: names of the measures to draw. By default, all losses and accuracies in the logs.
        levels: horizontal lines for each measure, such as a baseline: values by name.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        InputError: if a directory has no log, no log has a measure, or matplotlib is not installed.
    """
    logs = {name: _read(Path(directory)) for name, directory in named_runs(runs).items()}
    names = _panels(logs.values(), measures)
    figure, axes = panels(len(names), height=3.2)
    for panel, axis in zip(names, axes, strict=True):
        for index, (name, log) in enumerate(logs.items()):
            _draw(axis, log, panel, name, f"C{index}")
        for name, value in ((levels or {}).get(panel) or {}).items():
            axis.axhline(value, color="grey", linestyle="--", label=name)
        if panel.endswith("perplexity"):  # a perplexity falls by orders of magnitude
            axis.set_yscale("log")
        axis.set(title=panel.replace("_", " "), xlabel="step")
        lines = axis.get_lines()
        write_legend(axis, lines, [line.get_label() for line in lines])
    return figure


def named_runs(runs: Runs) -> dict[str, str | os.PathLike]:
    """Names runs after their directories or, if two have the same name, after their paths."""
    if isinstance(runs, Mapping):
        return dict(runs)
    directories = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    names = {Path(each).resolve().name: each for each in directories}
    return names if len(names) == len(directories) else {str(each): each for each in directories}


def _draw(axis: Any, log: Sequence[Mapping[str, Any]], measure: str, name: str, color: str) -> None:
    for event, style in (("train", {"alpha": 0.5}), ("validation", {"marker": "o"})):
        points = [(r["step"], r[measure]) for r in log if r["event"] == event and measure in r]
        if points:
            label = name if event == "train" else f"{name}, held out"
            axis.plot(*zip(*points, strict=True), color=color, label=label, **style)


def _read(directory: Path) -> list[dict[str, Any]]:
    try:
        rows = [row for row in read_log(directory / LOG) if {"event", "step"} <= set(row)]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"Cannot read {directory / LOG}: {error}.") from error
    if not rows:
        raise InputError(
            f"{directory} has no log of a pretraining run; give the output directory of a run."
        )
    return rows


def _panels(logs: Iterable[Any], wanted: Sequence[str] | None) -> list[str]:
    """Returns the wanted measures or, by default, all losses and accuracies of the logs."""
    found = {
        name: None
        for log in logs
        for row in log
        for name, value in row.items()
        if name != "step" and isinstance(value, (int, float))
    }
    for name in wanted or ():
        if name not in found:
            raise InputError(f"No log has the measure {name!r}; choose from {', '.join(found)}.")
    names = list(wanted or [name for name in found if name.endswith(KINDS)])
    if not names:
        raise InputError("The logs have no losses yet; wait until the run has logged some steps.")
    return names
