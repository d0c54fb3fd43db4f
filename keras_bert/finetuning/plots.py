"""Pictures of a fine-tuning: learning curves, and which labels are taken for which."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.atomic import replacing
from keras_bert.errors import InputError

_VALIDATION = "validation_"
_MOST_NUMBERS = 40  # classes up to which a count still fits into its cell
_LONGEST_NAME = 28


def plot_curves(history: Sequence[Mapping[str, Any]], path: str | os.PathLike) -> None:
    """Draws a panel for the loss and for every metric, over the epochs.

    Args:
        history: an entry per epoch, as in `Result.history` and `history.jsonl`: `epoch` and
            numbers by name; what begins with `validation_` is drawn beside the training's.
        path: of the picture; its ending says the format, for instance `.png`.

    Raises:
        InputError: if there is nothing to draw, matplotlib is not installed, the ending is of no
            picture, or the disk refuses.
    """
    figure_class = _figure_class()
    curves = _curves(history)
    panels = list(dict.fromkeys(name.removeprefix(_VALIDATION) for name in curves))
    if not panels:
        raise InputError("The history holds no numbers to draw; train for an epoch first.")
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = figure_class(figsize=(4.5 * columns, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, axis in zip(panels, axes, strict=False):
        for name, called, style in (
            (panel, "training", {"color": "C0"}),
            (_VALIDATION + panel, "validation", {"color": "C1"}),
        ):
            if name in curves:
                axis.plot(*zip(*curves[name], strict=True), marker="o", label=called, **style)
        axis.set(title=panel.replace("_", " "), xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        axis.legend()
    for axis in axes[len(panels) :]:
        axis.remove()
    _write(figure, path)


def plot_confusion(
    targets: Sequence[str],
    predictions: Sequence[str],
    labels: Sequence[str],
    path: str | os.PathLike,
) -> None:
    """Draws which label was predicted how often for which.

    A row is a true label, a column a predicted one. Colours are shares of the row, so that rare
    labels are seen; numbers are counts.

    Args:
        targets: N true labels.
        predictions: N predicted ones.
        labels: all labels, in the order of rows and columns.
        path: of the picture; its ending says the format, for instance `.png`.

    Raises:
        InputError: if a label is not among `labels`, matplotlib is not installed, the ending is
            of no picture, or the disk refuses.
    """
    figure_class = _figure_class()
    counts = confusion_matrix(targets, predictions, labels)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [_shortened(label) for label in labels]
    longest = max(map(len, names))
    # Inches: a cell must hold its largest number, the margin the longest name.
    cell = max(0.34, 0.1 * len(f"{counts.max()}"), 0.9 - 0.08 * len(names))
    side = cell * len(names) + 0.075 * longest
    figure = figure_class(figsize=(side + 2.2, side + 1.1), layout="constrained")
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
    _write(figure, path)


def confusion_matrix(
    targets: Sequence[str], predictions: Sequence[str], labels: Sequence[str]
) -> np.ndarray:
    """Counts int64 `[L, L]`: row the true label, column the predicted one.

    Raises:
        InputError: if a label is not among `labels`.
    """
    ids = {label: index for index, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), "int64")
    for target, prediction in zip(targets, predictions, strict=True):
        for label in (target, prediction):
            if label not in ids:
                raise InputError(f"The label {label!r} is none of {', '.join(map(repr, ids))}.")
        counts[ids[target], ids[prediction]] += 1
    return counts


def check_picture(path: str | os.PathLike) -> None:
    """Finds out before hours of work, not after them, whether a picture can be drawn.

    Raises:
        InputError: if matplotlib is not installed, or the ending is of no picture.
    """
    formats = _figure_class()().canvas.get_supported_filetypes()
    if _format(path) not in formats:
        raise InputError(f"{path} is not the name of a picture: let it end in .png.")


def _curves(history: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Name to points, without what is no number; the loss first."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for entry in history:
        for name, value in entry.items():
            if name != "epoch" and isinstance(value, (int, float)) and math.isfinite(value):
                curves.setdefault(name, []).append((int(entry["epoch"]), float(value)))
    return curves


def _shortened(name: str) -> str:
    name = " ".join(name.split()) or "(empty)"
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _figure_class() -> Any:
    try:
        # Without pyplot: no window, no global state.
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "Pictures need matplotlib: pip install 'keras-bert-encoders[plot]'."
        ) from None
    return Figure


def _format(path: str | os.PathLike) -> str:
    return Path(path).suffix.lstrip(".").lower() or "png"


def _write(figure: Any, path: str | os.PathLike) -> None:
    check_picture(path)
    with replacing(path) as new:
        figure.savefig(new, format=_format(path), dpi=120)
