"""Draws a map of texts. Texts with similar vectors are near each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.visualize.plotting import new_figure, write_legend

_MOST_NAMES = 40  # largest number of texts that are written beside their points
_LONGEST_NAME = 36
_COLORS = 10  # number of matplotlib's colors; labels with the same color have different shapes
_SHAPES = "os^DvP*X"
# Offset of a name from its point, and its alignment. The best place comes first.
_PLACES = (
    ((6, 0), "left", "center"),
    ((-6, 0), "right", "center"),
    ((0, 6), "center", "bottom"),
    ((0, -6), "center", "top"),
    ((5, 6), "left", "bottom"),
    ((5, -6), "left", "top"),
    ((-5, 6), "right", "bottom"),
    ((-5, -6), "right", "top"),
)


def embedding_map(
    vectors_or_model: Any, texts: Sequence[str], labels: Sequence[Any] | None = None
) -> Any:
    """Draws N texts as points at the first two principal components of their vectors.

    Args:
        vectors_or_model: vectors `[N, H]`; a `TextEmbedder`; or an `Encoder` or another task. For
            an encoder, the vector of a text is the mean of its token vectors.
        texts: the texts. Up to 40 are written beside their points.
        labels: N labels. Each label has a color and a shape.

    Returns:
        A `matplotlib.figure.Figure`. The axis labels show each component's ratio of the variance.

    Raises:
        InputError: if there are fewer than two texts, the vectors or labels are not one for each
            text, the vectors are not finite, the model cannot take texts, or matplotlib is not
            installed.

    Example:
        >>> figure = visualize.embedding_map(model, ["a dog", "a cat", "a bond"])
        >>> figure.savefig("map.png")
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"A text must be a string, not a {type(text).__name__}.")
    if len(texts) < 2:
        raise InputError(f"A map needs two texts or more, not {len(texts)}.")
    if labels is not None and len(labels) != len(texts):
        raise InputError(
            f"There are {len(labels)} labels for {len(texts)} texts; give one label for each text."
        )
    figure = new_figure(figsize=(8, 6))
    points, shares = principal_components(_vectors(vectors_or_model, texts))
    axis = figure.subplots()
    names = [""] * len(texts) if labels is None else [str(label) for label in labels]
    groups: dict[str, Any] = {}
    for number, name in enumerate(dict.fromkeys(names)):
        chosen = points[[name == other for other in names]]
        shape = _SHAPES[number // _COLORS % len(_SHAPES)]
        color = f"C{number % _COLORS}"
        groups[name] = axis.scatter(*chosen.T, s=36, color=color, marker=shape, alpha=0.8, lw=0)
    axis.set(xlabel=f"{shares[0]:.0%} of the variance", ylabel=f"{shares[1]:.0%} of the variance")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", "datalim")
    axis.margins(0.12)
    axis.spines[:].set_color("0.85")
    if labels is not None:
        called = [_on_one_line(name) for name in groups]
        style = {"loc": "outside right upper", "frameon": False}
        write_legend(figure, list(groups.values()), called, **style)
    if len(texts) <= _MOST_NAMES:
        _write_names(figure, axis, points, [_shortened(text) for text in texts])
    return figure


def principal_components(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the first two principal components of N vectors `[N, H]`.

    Returns:
        Coordinates float64 `[N, 2]`, and each component's ratio of the variance, `[2]`. Each
        component's sign is chosen so that its largest weight by absolute value is positive. So a
        map is not mirrored between runs.
    """
    centred = np.asarray(vectors, "float64") - np.mean(vectors, axis=0, dtype="float64")
    left, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(np.take_along_axis(directions, largest[:, np.newaxis], axis=1))[:, 0]
    coordinates = left * sizes * signs
    shares = sizes**2 / max((sizes**2).sum(), np.finfo("float64").tiny)
    missing = max(2 - len(sizes), 0)  # vectors with only one number
    return np.pad(coordinates, ((0, 0), (0, missing)))[:, :2], np.pad(shares, (0, missing))[:2]


def _vectors(source: Any, texts: list[str]) -> np.ndarray:
    made = _embedder(source).encode(texts) if hasattr(source, "preprocessor") else source
    try:
        vectors = np.asarray(made, "float64")
    except (TypeError, ValueError):
        raise InputError(
            f"Expected a model of keras_bert or vectors [{len(texts)}, H] of numbers, not this "
            f"{type(made).__name__}."
        ) from None
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.size:
        raise InputError(
            f"Expected vectors [{len(texts)}, H], one for each text, not an array of shape "
            f"{list(vectors.shape)}."
        )
    if not np.isfinite(vectors).all():
        raise InputError("The vectors are not finite, so they cannot be drawn on a map.")
    return vectors


def _embedder(model: Any) -> Any:
    from keras_bert.tasks.embedder import TextEmbedder

    if isinstance(model, TextEmbedder):
        return model
    encoder = getattr(model, "encoder", model)
    return TextEmbedder(encoder, preprocessor=model.preprocessor or encoder.preprocessor)


def _shortened(text: str) -> str:
    text = _on_one_line(text)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1].rstrip()}…"


def _on_one_line(text: str) -> str:
    """Joins the lines of a text, and replaces lone surrogates, which matplotlib cannot draw."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _write_names(figure: Any, axis: Any, points: np.ndarray, names: list[str]) -> None:
    """Writes each name at the place where it covers the fewest points and earlier names."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # keeps the places that are measured now
    pixels = axis.transData.transform(points)
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in pixels]
    frame = axis.get_window_extent().extents
    for point, name in zip(points, names, strict=True):
        style = {"fontsize": 8, "color": "0.25", "parse_math": False}
        text = axis.annotate(name, point, (0, 0), textcoords="offset points", **style)
        best = min(_PLACES, key=lambda place: _covered(text, place, taken, frame))
        taken.append(tuple(_placed(text, best)))


def _placed(text: Any, place: Any) -> Any:
    offset, horizontal, vertical = place
    text.set(position=offset, ha=horizontal, va=vertical)
    return text.get_window_extent().extents


def _covered(text: Any, place: Any, taken: Sequence[Any], frame: Any) -> float:
    """Returns the area, in square pixels, that a name covers or that is cut off at a place."""
    x0, y0, x1, y1 = _placed(text, place)
    inside = _overlap((x0, y0, x1, y1), frame)
    return (x1 - x0) * (y1 - y0) - inside + sum(_overlap((x0, y0, x1, y1), box) for box in taken)


def _overlap(one: Any, other: Any) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)
