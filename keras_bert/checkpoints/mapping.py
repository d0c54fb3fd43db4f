"""Converts tensors between other libraries and this package; one table serves both directions.

In this module, "ours" means this package's tensor or name, "theirs" the other library's. A family
has a table of rows: the kind of layer, our name and their name. A format lists, for each kind, the
tensors of such a layer and their layouts. `links` combines both tables, for reading and writing.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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
    """Layout of a tensor in another library.

    Args:
        load: converts their tensor to ours. If their tensor holds several of our tensors, `load`
            takes one of them out.
        save: converts our tensor to theirs, or to a part of theirs.
        join: joins the parts of their tensor, in the order of the links.
    """

    load: Rearrangement
    save: Rearrangement
    join: Callable[[Sequence[np.ndarray]], np.ndarray] = lambda parts: parts[0]


def _transpose(x: np.ndarray, config: EncoderConfig) -> np.ndarray:
    """Transposes a matrix in strips of 16 rows (a cache line): six times as fast as with `x.T`."""
    result = aligned(x.shape[::-1], x.dtype)
    for row in range(0, len(x), 16):
        result[..., row : row + 16] = x[row : row + 16].T
    return result


def _merge_heads(x: np.ndarray, config: EncoderConfig, axis: int) -> np.ndarray:
    """Merges the axes N, D of attention heads, at `axis` and after it, into one axis N·D."""
    if x.shape[axis : axis + 2] != (config.num_heads, config.head_size):
        raise ValueError("other heads")
    return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])


def _split_heads(x: np.ndarray, config: EncoderConfig, axis: int) -> np.ndarray:
    """Splits an axis N·D into the axes N, D of attention heads."""
    heads = (config.num_heads, config.head_size)
    return x.reshape(*x.shape[:axis], *heads, *x.shape[axis + 1 :])


# Some libraries stack the projections in one matrix [N · 3 · D, H]: for each attention head, D rows
# of the query, D rows of the key, D rows of the value.
def _take_stacked(x: np.ndarray, config: EncoderConfig, part: int) -> np.ndarray:
    rows = x.reshape(config.num_heads, 3, config.head_size, x.shape[1])[:, part]
    return _transpose(rows.reshape(-1, x.shape[1]), config)


def _lay_out_stacked(x: np.ndarray, config: EncoderConfig) -> np.ndarray:
    return x.T.reshape(config.num_heads, config.head_size, len(x))


def _join_stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(parts, axis=1).reshape(-1, parts[0].shape[2])


def part_of(transform: Transform, part: int, count: int) -> Transform:
    """Returns the transform of one of `count` tensors that are stacked along the first axis."""

    def load(x: np.ndarray, config: EncoderConfig) -> np.ndarray:
        return transform.load(np.split(x, count)[part], config)

    return Transform(load, transform.save, np.concatenate)


SAME = Transform(lambda x, c: x, lambda x, c: x)
TRANSPOSED = Transform(_transpose, _transpose)
HEADS_IN = Transform(partial(_merge_heads, axis=1), partial(_split_heads, axis=1))  # [H, N, D]
# [N, D], [N, D, H]
HEADS_BIAS = HEADS_OUT = Transform(partial(_merge_heads, axis=0), partial(_split_heads, axis=0))
QUERY_OF_HEADS = Transform(partial(_take_stacked, part=0), _lay_out_stacked, _join_stacked)
KEY_OF_HEADS = QUERY_OF_HEADS._replace(load=partial(_take_stacked, part=1))
VALUE_OF_HEADS = QUERY_OF_HEADS._replace(load=partial(_take_stacked, part=2))
# A convolution's weight is [kernel, in, out] in Keras and [out, in, kernel] in PyTorch.
REVERSED = Transform(lambda x, c: x.transpose(2, 1, 0), lambda x, c: x.transpose(2, 1, 0))


def of_transposed(transform: Transform) -> Transform:
    """Returns the transform for a library that stores the transposed matrix."""
    return Transform(
        lambda x, c: transform.load(x.T, c), transform.save, lambda parts: transform.join(parts).T
    )


_ENCODER = re.compile(r"encoder/(?!pooler/)")  # the pooler counts as a part of the head
_LAYER = re.compile(r"encoder/layer_(\d+)/").match

# For each kind of row, its tensors: our suffix, their suffix, layout.
Kinds = dict[str, tuple[tuple[str, str, Transform], ...]]
KERAS_KINDS: Kinds = {
    "dense": (("/kernel", "/kernel", SAME), ("/bias", "/bias", SAME)),
    "norm": (("/gamma", "/gamma", SAME), ("/beta", "/beta", SAME)),
    "table": (("", "", SAME),),
    "vector": (("", "", SAME),),
    "heads_in": (("/kernel", "/kernel", HEADS_IN), ("/bias", "/bias", HEADS_BIAS)),
    "heads_out": (("/kernel", "/kernel", HEADS_OUT), ("/bias", "/bias", SAME)),
}


class Link(NamedTuple):
    """One of our tensors and its counterpart in another library."""

    ours: str
    theirs: str
    transform: Transform


class TensorSource(Protocol):
    """Tensors by name, from files or a model in memory."""

    def names(self) -> Iterable[str]:
        """Returns the names of all tensors."""

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor by its name.

        Raises:
            CheckpointError: if the tensor cannot be read.
        """

    def where(self, name: str) -> str:
        """Returns the file of a tensor for messages, or any file if there is no such tensor."""


def links(
    rows: Iterable[Row], kinds: Kinds, num_layers: int, layers_per_group: int = 1
) -> list[Link]:
    """Expands a table of names to links.

    A row with {i} in our name gives links for each layer that has its own weights. Other rows give
    links once.

    In the names of a row, {i} stands for the layer's index, {group} for the index of its group, and
    {layer} for its index within the group.
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
        model: an encoder or a task, possibly made inside `without_weights`.
        table: the links. If our tensor has several links, the first one whose tensor is in the
            source is used.
        source: the tensors. A warning lists unused tensors.
        another_task: whether the source was saved for another task. Then a classification head is
            not read, except the part that it shares with a masked language model's head. Missing
            weights of heads and pooler are initialized at random, and a warning lists them.
        chosen: whether the caller named the task. Then unused heads are logged at the level INFO.

    Raises:
        CheckpointError: if a weight is missing, has another shape or type, or has values that are
            not finite; or if the source has an encoder's tensor that this encoder does not have.
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
                f"{source.where(link.theirs)} holds the tensor {link.theirs!r}, but an encoder "
                "with the configuration beside it has no such weight."
            )
    of_masked_lm = {link.theirs for link in table if link.ours.startswith("masked_lm/")}
    if "masked_lm/bias" not in stored:
        of_masked_lm.clear()
    for name, variable in variables.items():
        fresh = another_task and name.startswith(("classifier/", "span/"))
        fresh = fresh and (name not in stored or stored[name].theirs not in of_masked_lm)
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
    """Checks that the source has the encoder layers 0 to `num_layers` - 1 and no others.

    Args:
        table: links for at least `num_layers` + 1 layers.
        source: the tensors.
        num_layers: number of layers in the configuration.

    Raises:
        CheckpointError: if the source has other layers.
    """
    names = set(source.names())
    found = {match[1] for link in table if link.theirs in names and (match := _LAYER(link.ours))}
    if found != {str(layer) for layer in range(num_layers)}:
        raise CheckpointError(
            f"{source.where('')} holds {len(found)} encoder layers, but the configuration beside "
            f"it says {num_layers}."
        )


def renamed_weights(model: keras.Model, table: Iterable[Link]) -> dict[str, np.ndarray]:
    """Returns every weight of a model with the name and in the layout of another library.

    Raises:
        CheckpointError: if the table has no link for a weight.
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
        raise CheckpointError(f"This format has no names for the weights {', '.join(weights)}.")
    return {name: np.ascontiguousarray(joins[name](arrays)) for name, arrays in parts.items()}


def _checked(link: Link, variable: Any, source: TensorSource, model: keras.Model) -> np.ndarray:
    """Reads a tensor, converts its layout and type, and checks that it fits the variable."""
    place = f"{source.where(link.theirs)}: tensor {link.theirs!r}"
    raw = source.read(link.theirs)
    found = list(raw.shape)
    try:
        array = link.transform.load(raw, model.config)
    except (IndexError, TypeError, ValueError) as error:
        raise CheckpointError(f"{place} has shape {found}, which does not fit.") from error
    if array.shape != tuple(variable.shape):
        raise CheckpointError(
            f"{place} has shape {found}, but the configuration beside it needs "
            f"{list(variable.shape)} for {link.ours}."
        )
    if ("float" in str(array.dtype)) != ("float" in str(variable.dtype)):
        raise CheckpointError(f"{place} is {array.dtype}, but must be {variable.dtype}.")
    # Copies memory that may belong to a mapped file or to another model.
    if array.dtype != variable.dtype or np.may_share_memory(array, raw):
        array, theirs = aligned(array.shape, variable.dtype), array
        with np.errstate(over="ignore"):
            array[...] = theirs
    if not np.isfinite(array).all():
        raise CheckpointError(f"{place} holds values that are not finite as {variable.dtype}.")
    return array
