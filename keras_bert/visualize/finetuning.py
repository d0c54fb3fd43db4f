"""Draws the learning curves and the confusion matrix of a fine-tuned model."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.visualize.plotting import new_figure, panels, save_figure

_VALIDATION = "validation_"
_OTHERS = "(other labels)"
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
    *,
    most_labels: int = 30,
) -> None:
    """Draws a confusion matrix.

    A row is a true label, a column a predicted label. Numbers are counts. The color of a cell is
    its ratio of the row, so that rare labels are visible, too.

    If there are more labels than `most_labels`, the picture has the labels that the model confuses
    most, and a column for the predictions of all other labels together.

    Args:
        targets: N true labels.
        predictions: N predicted labels.
        labels: all labels, in the order of rows and columns.
        path: the picture's path. Its ending, such as `.png`, is the format.
        most_labels: largest number of rows.

    Raises:
        InputError: if a label is not among `labels`, `most_labels` is less than 2, matplotlib is
            not installed, or the path does not end like a picture's.
        StorageError: if a file cannot be written.

    Example:
        >>> visualize.plot_confusion(["yes", "no"], ["yes", "yes"], ["no", "yes"], "confusion.png")
    """
    if most_labels < 2:
        raise InputError(f"most_labels is {most_labels}, but must be 2 or more.")
    counts = confusion_matrix(targets, predictions, labels)
    rows = [_shortened(label) for label in labels]
    title, columns = "", rows
    if len(labels) > most_labels:
        chosen = most_confused_labels(counts, most_labels)
        title = f"{len(chosen)} of {len(labels)} labels: the labels that are confused most"
        rows = [rows[index] for index in chosen]
        columns = [*rows, _OTHERS]
        own = counts[chosen]
        inside = own[:, chosen]
        others = own.sum(axis=1, keepdims=True) - inside.sum(axis=1, keepdims=True)
        counts = np.concatenate([inside, others], axis=1)
    save_figure(_matrix(counts, rows, columns, title), path)


def _matrix(counts: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str) -> Any:
    """Returns a figure of counts, int64 `[rows, columns]`."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    longest = max(map(len, columns))
    # Sizes in inches. The largest number must fit into a cell, the longest name into the margin.
    cell = max(0.34, 0.1 * len(f"{counts.max()}"), 0.9 - 0.08 * len(rows))
    side = cell * len(columns) + 0.075 * longest
    figure = new_figure(figsize=(side + 2.2, side + 1.1))
    axis = figure.subplots()
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    upright = longest * 0.085 > cell
    style: dict[str, Any] = {"fontsize": 9, "parse_math": False}
    axis.set_xticks(range(len(columns)), columns, rotation=90 if upright else 0, **style)
    axis.set_yticks(range(len(rows)), rows, **style)
    axis.set(xlabel="predicted", ylabel="true", title=title)
    for row, column in zip(*np.nonzero(counts), strict=True):
        color = "white" if shares[row, column] > 0.5 else "black"
        style = {"ha": "center", "va": "center", "fontsize": 8, "color": color}
        axis.text(column, row, f"{counts[row, column]}", **style)
    figure.colorbar(image, label="share of the true label", shrink=0.8)
    return figure


def most_confused_labels(counts: np.ndarray, most: int) -> list[int]:
    """Chooses the labels of a confusion matrix that are confused most.

    Takes pairs of labels in the order of their counts, and both labels of each pair.

    Args:
        counts: counts of pairs of true and predicted label, int64 `[L, L]`.
        most: largest number of labels, 2 or more.

    Returns:
        Indices of the labels, in ascending order. If few labels are confused, these are fewer than
        `most`. If no label is confused, these are the first `most` labels.
    """
    wrong = counts * (1 - np.eye(len(counts), dtype=counts.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[: np.count_nonzero(wrong)]
    chosen: dict[int, None] = {}
    for pair in zip(*np.unravel_index(order, wrong.shape), strict=True):
        new = [int(label) for label in pair if label not in chosen]
        if len(chosen) + len(new) <= most:
            chosen.update(dict.fromkeys(new))
    return sorted(chosen) or list(range(min(most, len(counts))))


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
