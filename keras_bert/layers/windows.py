"""Windows of long texts: divides long rows of ids into shorter rows, and pools their vectors."""

from collections.abc import Mapping
from typing import Any

from keras import ops

from keras_bert.errors import InputError, closest

WINDOW_POOLINGS = ("mean", "max")
"""Ways to make one vector of the vectors of a text's windows."""

MAX_WINDOWS = 32
"""Default of the largest number of windows of a text."""


def check_windows(pooling: str | None, max_windows: int) -> None:
    """Checks the pooling of windows, or None for no windows, and the largest number of windows.

    Raises:
        InputError: if the pooling is unknown or the number is not 1 or more.
    """
    if pooling is not None and pooling not in WINDOW_POOLINGS:
        raise InputError(
            f"windows is {pooling!r}, but must be {' or '.join(map(repr, WINDOW_POOLINGS))}, or "
            f"None for no windows.{closest(str(pooling), WINDOW_POOLINGS)}"
        )
    if type(max_windows) is not int or max_windows < 1:
        raise InputError(f"max_windows is {max_windows!r}, but must be 1 or more.")


def text_length(window_length: int, count: int, separator_at_end: bool = True) -> int:
    """Returns the number of tokens of the longest text that fits into a number of windows."""
    return window_length + (count - 1) * _stride(window_length, separator_at_end)


def window_count(length: int, window_length: int, separator_at_end: bool = True) -> int:
    """Returns the number of windows of a text with `length` tokens."""
    return 1 + max(-(-(length - window_length) // _stride(window_length, separator_at_end)), 0)


def divide(
    inputs: Mapping[str, Any], window_length: int, separator_at_end: bool = True
) -> tuple[dict[str, Any], Any]:
    """Divides rows of ids into overlapping windows.

    The windows are the rows of `Preprocessor.rows(texts, overlap="auto")`: each begins with the
    first token of its row, and ends with the separator at the row's end, if there is one. Neighbors
    share a third of their text tokens.

    Args:
        inputs: `token_ids`, `segment_ids` and `padding_mask` of single texts, int32 `[B, T]`; only
            `token_ids` are needed. Padding is at the end of the rows.
        window_length: largest number of tokens in a window.
        separator_at_end: whether the last token of a row is a separator.

    Returns:
        The inputs of the windows, int32 `[B * W, L]`, and whether each of them has a part of its
        text, bool `[B, W]`. W is the number of windows of T tokens, and L is `window_length`, or T
        if T is smaller.
    """
    token_ids = inputs["token_ids"]
    separators, size = int(separator_at_end), ops.shape(token_ids)[1]
    stride = _stride(window_length, separator_at_end)
    length = ops.shape(token_ids[:, :window_length])[1]
    count = 1 + (size - length + stride - 1) // stride

    position = ops.arange(length, dtype="int32")  # [L]
    begin = stride * ops.expand_dims(ops.arange(count, dtype="int32"), 1)  # [W, 1]
    # Position 0 is the row's first token, the text's own tokens begin at position 1.
    source = ops.where(position == 0, 0, ops.minimum(begin + position, size - 1))  # [W, L]

    mask = inputs.get("padding_mask")
    mask = ops.ones_like(token_ids) if mask is None else ops.cast(mask, "int32")
    last = ops.sum(mask, axis=1, keepdims=True) - 1  # [B, 1]
    # Number of the text's tokens in each window and in the windows after it, [B, W].
    rest = last - separators - ops.transpose(begin)
    shared = window_length - 1 - separators - stride
    is_window = (ops.transpose(begin) == 0) | (rest > shared)
    # The converter to TFLite knows `expand_dims`, but not an index with None.
    end = separators + ops.minimum(rest, length - 1 - separators)
    end = ops.expand_dims(end, -1)  # of the last token, [B, W, 1]
    inside = ops.expand_dims(is_window, -1) & (position <= end)  # [B, W, L]

    def framed(ids: Any) -> Any:
        return ops.take(ids, source, axis=1)

    parts = {"token_ids": framed(token_ids)}
    if separator_at_end:
        at_last = ops.arange(size, dtype="int32") == last
        separator = ops.sum(ops.where(at_last, token_ids, 0), axis=1, keepdims=True)  # [B, 1]
        parts["token_ids"] = ops.where(
            position == end, ops.expand_dims(separator, -1), parts["token_ids"]
        )
    if inputs.get("segment_ids") is not None:
        parts["segment_ids"] = framed(inputs["segment_ids"])
    parts = {name: ops.where(inside, ids, 0) for name, ids in parts.items()}
    parts["padding_mask"] = ops.cast(inside, "int32")
    return {name: ops.reshape(ids, (-1, length)) for name, ids in parts.items()}, is_window


def pool(vectors: Any, is_window: Any, pooling: str) -> Any:
    """Returns one vector for each text, float32 `[B, H]`: the mean or maximum over its windows.

    Args:
        vectors: vectors of the windows, `[B * W, H]`.
        is_window: bool `[B, W]`, from `divide`.
        pooling: one of `WINDOW_POOLINGS`.
    """
    count, size = ops.shape(is_window)[1], vectors.shape[-1]
    x = ops.reshape(ops.cast(vectors, "float32"), (-1, count, size))
    is_window = ops.expand_dims(is_window, -1)
    if pooling == "max":
        return ops.max(ops.where(is_window, x, -3e38), axis=1)
    total = ops.sum(ops.where(is_window, x, 0.0), axis=1)
    return total / ops.sum(ops.cast(is_window, "float32"), axis=1)


def _stride(window_length: int, separator_at_end: bool) -> int:
    """Returns the distance of neighboring windows: two thirds of the text tokens in a window."""
    room = window_length - 1 - int(separator_at_end)
    return room - room // 3
