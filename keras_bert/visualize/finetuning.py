"""Draws the learning curves and the confusion matrix of a fine-tuned model."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.visualize.plotting import new_figure, panels, save_figure

_VALIDATION = "validation_"
_MOST_NUMBERS = 40  # largest number of classes whose counts fit into their cells
_LONGEST_NAME = 28


def plot_curves(history: Sequence[Mapping[str, Any]], path: str | os.PathLike) -> None:
    """Draws a panel for the loss and for every metric, over the epochs.

    Args:
        history: a dictionary per epoch, as in `Result.history` and `history.jsonl`: `epoch` and
            numbers by name. `validation_loss` shares a panel with `loss`, and so on.
        path: the picture's path. Its ending, such as `.png`, is the format.

    Raises:
        InputError: if there is nothing to draw, matplotlib is not installed, or the path does not
            end like a picture's.
        StorageError: if a file cannot be written.

    Example:
        >>> visualize.plot_curves(result.history, "curves.png")
    """
    curves = _curves(history)
    names = list(dict.fromkeys(name.removeprefix(_VALIDATION) for name in curves))
    if not names:
        raise InputError("The history holds no numbers to draw; train for an epoch first.")
    figure, axes = panels(len(names), height=3.4)
    for panel, axis in zip(names, axes, strict=True):
        for name, called, style in (
            (panel, "training", {"color": "C0"}),
            (_VALIDATION + panel, "validation", {"color": "C1"}),
        ):
            if name in curves:
                axis.plot(*zip(*curves[name], strict=True), marker="o", label=called, **style)
        axis.set(title=panel.replace("_", " "), xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.legend()
    save_figure(figure, path)


def plot_confusion(
    targets: Sequence[str],
    predictions: Sequence[str],
    labels: Sequence[str],
    path: str | os.PathLike,
) -> None:
    """Draws a confusion matrix.

    A row is a true label, a column a predicted label. Numbers are counts. The color of a cell is
    its ratio of the row, so that rare labels are visible, too.

    Args:
        targets: N true labels.
        predictions: N predicted labels.
        labels: all labels, in the order of rows and columns.
        path: the picture's path. Its ending, such as `.png`, is the format.

    Raises:
        InputError: if a label is not among `labels`, matplotlib is not installed, or the path does
            not end like a picture's.
        StorageError: if a file cannot be written.

    Example:
        >>> visualize.plot_confusion(["yes", "no"], ["yes", "yes"], ["no", "yes"], "confusion.png")
    """
    counts = confusion_matrix(targets, predictions, labels)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [_shortened(label) for label in labels]
    longest = max(map(len, names))
    # Sizes in inches. The largest number must fit into a cell, the longest name into the margin.
    cell = max(0.34, 0.1 * len(f"{counts.max()}"), 0.9 - 0.08 * len(names))
    side = cell * len(names) + 0.075 * longest
    figure = new_figure(figsize=(side + 2.2, side + 1.1))
    axis = figure.subplots()
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    positions = range(len(names))
    upright = longest * 0.085 > cell
    axis.set_xticks(positions, names, rotation=90 if upright else 0, fontsize=9, parse_math=False)
    axis.set_yticks(positions, names, fontsize=9, parse_math=False)
    axis.set(xlabel="predicted", ylabel="true")
    if len(names) <= _MOST_NUMBERS:
        for row, column in zip(*np.nonzero(counts), strict=True):
            color = "white" if shares[row, column] > 0.5 else "black"
            style = {"ha": "center", "va": "center", "fontsize": 8, "color": color}
            axis.text(column, row, f"{counts[row, column]}", **style)
    figure.colorbar(image, label="share of the true label", shrink=0.8)
    save_figure(figure, path)


def confusion_matrix(
    targets: Sequence[str], predictions: Sequence[str], labels: Sequence[str]
) -> np.ndarray:
    """Counts pairs of true label (row) and predicted label (column), int64 `[L, L]`.

    Raises:
        InputError: if a label is not among `labels`.
    """
    ids = {label: index for index, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), "int64")
    for target, prediction in zip(targets, predictions, strict=True):
        for label in (target, prediction):
            if label not in ids:
                raise InputError(
                    f"The label is {label!r}, but must be one of {', '.join(map(repr, ids))}."
                )
        counts[ids[target], ids[prediction]] += 1
    return counts


def _curves(history: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Returns the points (epoch, value) of each number by name. The loss comes first."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for entry in history:
        for name, value in entry.items():
            if name != "epoch" and isinstance(value, (int, float)) and math.isfinite(value):
                curves.setdefault(name, []).append((int(entry["epoch"]), float(value)))
    return curves


def _shortened(name: str) -> str:
    name = " ".join(name.split()) or "(empty)"
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
