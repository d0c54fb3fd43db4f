"""Tensors of other libraries to ours and back, by one table for both ways.

A family lists rows of kind, our name and their name. A format says, for each kind, which tensors
such a row stands for and how they are laid out there. The same links read and write.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np

from keras_bert.checkpoints.variables import (
    aligned,
    initialize_rest,
    named_variables,
    saved_weights,
    set_weight,
)
from keras_bert.config import EncoderConfig
from keras_bert.errors import CheckpointError
from keras_bert.families import Row

logger = logging.getLogger(__name__)

Rearrangement = Callable[[np.ndarray, EncoderConfig], np.ndarray]


class Transform(NamedTuple):
    """How a tensor is laid out elsewhere: `load` makes it ours, `save` makes it theirs.

    Where one of theirs holds several of ours, `load` takes out one of them, `save` lays that one
    out, and `join` makes theirs of all that were saved, in the order of the links.
    """

    load: Rearrangement
    save: Rearrangement
    join: Callable[[Sequence[np.ndarray]], np.ndarray] = lambda parts: parts[0]


def _transpose(x: np.ndarray, config: EncoderConfig) -> np.ndarray:
    """The transposed matrix, copied by cache lines of 16 floats: six times as fast as `x.T`."""
    result = aligned(x.shape[::-1], x.dtype)
    for row in range(0, len(x), 16):
        result[..., row : row + 16] = x[row : row + 16].T
    return result


SAME = Transform(lambda x, c: x, lambda x, c: x)
TRANSPOSED = Transform(_transpose, _transpose)


def _heads_apart(axis: int) -> Transform:
    """For libraries that keep the attention heads apart: N·D here is [N, D] from an axis there."""

    def merge(x: np.ndarray, config: EncoderConfig) -> np.ndarray:
        if x.shape[axis : axis + 2] != (config.num_heads, config.head_size):
            raise ValueError("other heads")
        return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])

    def split(x: np.ndarray, config: EncoderConfig) -> np.ndarray:
        heads = (config.num_heads, config.head_size)
        return x.reshape(*x.shape[:axis], *heads, *x.shape[axis + 1 :])

    return Transform(merge, split)


HEADS_IN = _heads_apart(1)  # [H, N, D]
HEADS_BIAS = HEADS_OUT = _heads_apart(0)  # [N, D], [N, D, H]


def _interleaved(part: int, of: int) -> Transform:
    """For libraries that stack, for each attention head, its rows of several matrices.

    Head after head, D rows of the first matrix, D of the second, and so on: `[N * of * D, H]`.
    """

    def take(x: np.ndarray, config: EncoderConfig) -> np.ndarray:
        rows = x.reshape(config.num_heads, of, config.head_size, x.shape[1])[:, part]
        return _transpose(rows.reshape(-1, x.shape[1]), config)

    def lay_out(x: np.ndarray, config: EncoderConfig) -> np.ndarray:
        return x.T.reshape(config.num_heads, config.head_size, len(x))

    def join(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(parts, axis=1).reshape(-1, parts[0].shape[2])

    return Transform(take, lay_out, join)


QUERY_OF_HEADS, KEY_OF_HEADS, VALUE_OF_HEADS = (_interleaved(part, 3) for part in range(3))


def of_transposed(transform: Transform) -> Transform:
    """Returns the transform for a library that stores the transposed matrix."""
    return Transform(
        lambda x, c: transform.load(x.T, c), transform.save, lambda parts: transform.join(parts).T
    )


# Of a convolution: [kernel, in, out] here, [out, in, kernel] there.
REVERSED = Transform(lambda x, c: x.transpose(2, 1, 0), lambda x, c: x.transpose(2, 1, 0))

_ENCODER = re.compile(r"encoder/(?!pooler/)")  # the pooler goes with the task
_LAYER = re.compile(r"encoder/layer_(\d+)/").match

# Kind of row to the tensors it stands for: our suffix, their suffix, layout.
Kinds = Mapping[str, tuple[tuple[str, str, Transform], ...]]


class Link(NamedTuple):
    """One of our tensors and its counterpart elsewhere."""

    ours: str
    theirs: str
    transform: Transform


class TensorSource(Protocol):
    """Tensors by name, from files or a live model."""

    def names(self) -> Iterable[str]:
        """The names of all tensors."""

    def read(self, name: str) -> np.ndarray:
        """One tensor.

        Raises:
            CheckpointError: if it cannot be read.
        """

    def where(self, name: str) -> str:
        """The file of a tensor, or any file, for messages."""


def links(
    rows: Iterable[Row], kinds: Kinds, num_layers: int, layers_per_group: int = 1
) -> list[Link]:
    """The rows for every tensor and every layer that has weights of its own.

    In a row, {i} counts the layers, {group} the groups of them and {layer} those of a group.
    """
    return [
        Link(f"{ours}{our_end}".format(i=i), f"{theirs}{their_end}".format(**places), transform)
        for kind, ours, theirs in rows
        for i in (range(num_layers) if "{i}" in ours else (0,))
        for places in ({"i": i, "group": i // layers_per_group, "layer": i % layers_per_group},)
        for our_end, their_end, transform in kinds[kind]
    ]


def read_model(
    model: keras.Model,
    table: Sequence[Link],
    source: TensorSource,
    *,
    another_task: bool = False,
    chosen: bool = False,
) -> None:
    """Sets every weight of a new model from a source.

    Args:
        model: an encoder or a task, possibly made `without_weights`.
        table: the links; of several for one of our tensors, the first that the source has counts.
        source: the tensors. Those that nothing needs are logged as a warning.
        another_task: whether the source was saved for another task: then a classification head
            is not taken over, and what is missing of heads and pooler is initialized at random,
            which is logged as a warning.
        chosen: whether the caller named the task: then heads that are left behind are only logged
            as information.

    Raises:
        CheckpointError: if a weight is missing, or of another shape or type, or not finite, or
            the encoder has no place for one.
    """
    unused, missing = set(source.names()), []
    stored: dict[str, Link] = {}
    for link in table:
        if link.theirs in unused:
            stored.setdefault(link.ours, link)
    variables = named_variables(model)
    for name, link in stored.items():
        if _ENCODER.match(name) and name not in variables:
            raise CheckpointError(
                f"{source.where(link.theirs)} holds the tensor {link.theirs!r}, for which an "
                "encoder of the configuration beside it has no place."
            )
    for name, variable in variables.items():
        fresh = another_task and name.startswith("classifier/")
        if name in stored and not fresh:
            set_weight(variable, _checked(stored[name], variable, source, model))
            unused.discard(stored[name].theirs)
        elif another_task and not _ENCODER.match(name):
            missing.append(name)
        else:
            theirs = next((link.theirs for link in table if link.ours == name), name)
            advice = (
                "" if _ENCODER.match(name) else ' Load it with task="encoder" without the head.'
            )
            raise CheckpointError(
                f"{source.where(theirs)} lacks the tensor {theirs!r} "
                f"({name} of this {type(model).__name__}).{advice}"
            )
    initialize_rest(model)
    if missing:
        logger.warning("Not in the checkpoint, initialized at random: %s.", ", ".join(missing))
    heads = {link.theirs for link in table if not _ENCODER.match(link.ours)}
    left = unused & heads if chosen else set[str]()
    for level, names in ((logging.INFO, left), (logging.WARNING, unused - left)):
        if names:
            logger.log(level, "In the checkpoint, but not used: %s.", ", ".join(sorted(names)))


def check_layers(table: Iterable[Link], source: TensorSource, num_layers: int) -> None:
    """Passes if the source has the encoder layers 0 to `num_layers` - 1 and no others.

    Args:
        table: links for at least `num_layers` + 1 layers.
        source: the tensors.
        num_layers: what the configuration says.

    Raises:
        CheckpointError: otherwise.
    """
    names = set(source.names())
    found = {match[1] for link in table if link.theirs in names and (match := _LAYER(link.ours))}
    if found != {str(layer) for layer in range(num_layers)}:
        raise CheckpointError(
            f"{source.where('')} holds {len(found)} encoder layers, but the configuration beside "
            f"it says {num_layers}."
        )


def write_model(model: keras.Model, table: Iterable[Link]) -> dict[str, np.ndarray]:
    """Every weight of a model by its name and in its layout elsewhere.

    Raises:
        CheckpointError: if the table has no name for a weight.
    """
    weights = saved_weights(model)
    parts: dict[str, list[np.ndarray]] = {}
    joins = {}
    for link in table:
        if link.ours in weights:
            array = link.transform.save(np.asarray(weights.pop(link.ours)), model.config)
            parts.setdefault(link.theirs, []).append(array)
            joins[link.theirs] = link.transform.join
    if weights:
        raise CheckpointError(f"This format has no place for {', '.join(weights)}.")
    return {name: np.ascontiguousarray(joins[name](arrays)) for name, arrays in parts.items()}


def _checked(link: Link, variable: Any, source: TensorSource, model: keras.Model) -> np.ndarray:
    """The tensor in our layout and type, and in memory of its own, if it fits the variable."""
    place = f"{source.where(link.theirs)}: tensor {link.theirs!r}"
    raw = source.read(link.theirs)
    found = list(raw.shape)
    try:
        array = link.transform.load(raw, model.config)
    except (IndexError, TypeError, ValueError) as error:
        raise CheckpointError(f"{place} has shape {found}, which does not fit.") from error
    if array.shape != tuple(variable.shape):
        raise CheckpointError(
            f"{place} has shape {found}, but the configuration beside it wants "
            f"{list(variable.shape)} for {link.ours}."
        )
    if ("float" in str(array.dtype)) != ("float" in str(variable.dtype)):
        raise CheckpointError(f"{place} is {array.dtype}, but must be {variable.dtype}.")
    # The memory may be a mapped file's or another model's.
    if array.dtype != variable.dtype or np.may_share_memory(array, raw):
        array, theirs = aligned(array.shape, variable.dtype), array
        with np.errstate(over="ignore"):
            array[...] = theirs
    if not np.isfinite(array).all():
        raise CheckpointError(f"{place} holds values that are not finite as {variable.dtype}.")
    return array
