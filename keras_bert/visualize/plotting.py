"""Draws with matplotlib, which is imported only when something is drawn."""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.extras import require


def new_figure(**options: Any) -> Any:
    """Makes a `matplotlib.figure.Figure` that notebooks can show, without pyplot's global state.

    Args:
        **options: arguments of the figure's constructor.

    Raises:
        InputError: if matplotlib is not installed.
    """
    matplotlib = require("matplotlib.figure", "plot", "A picture")
    figure = matplotlib.Figure(layout="constrained", **options)
    figure._repr_png_ = lambda: _png(figure)
    return figure


def panels(count: int, height: float) -> tuple[Any, list[Any]]:
    """Makes a figure with up to three panels in a row, each `height` inches high, and its axes."""
    columns = min(count, 3)
    rows = -(-count // columns)
    figure = new_figure(figsize=(4.5 * columns, height * rows))
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis in axes[count:]:
        axis.remove()
    for axis in axes[:count]:
        axis.grid(alpha=0.3)
    return figure, list(axes[:count])


def write_legend(place: Any, handles: Sequence[Any], names: Sequence[str], **options: Any) -> None:
    """Adds a legend to a figure or its axes, with any names.

    matplotlib leaves out names that begin with "_", and reads "$" as the start of a formula. So the
    names are set after the legend is made.
    """
    legend = place.legend(handles, [str(number) for number in range(len(names))], **options)
    for entry, name in zip(legend.get_texts(), names, strict=True):
        entry.set(text=name, parse_math=False)


def check_picture(path: str | os.PathLike) -> None:
    """Checks that a picture can be drawn, before hours of training.

    Raises:
        InputError: if matplotlib is not installed, or it cannot draw pictures with this ending.
    """
    if _format(path) not in new_figure().canvas.get_supported_filetypes():
        raise InputError(f"{path} does not end like a picture; give a name that ends in .png.")


def save_figure(figure: Any, path: str | os.PathLike) -> None:
    """Writes a picture in the format of its ending.

    Raises:
        InputError: if `check_picture` refuses the path.
        StorageError: if a file cannot be written.
    """
    check_picture(path)
    with replacing(path) as new:
        figure.savefig(new, format=_format(path), dpi=120)


def _format(path: str | os.PathLike) -> str:
    return Path(path).suffix.lstrip(".").lower() or "png"


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()
