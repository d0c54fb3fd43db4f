"""Vectors of texts in fewer bytes, for large indexes."""

import logging
from typing import Any

import numpy as np

from keras_bert.errors import InputError, closest

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
_FEW = 100  # sentence-transformers warns below this number of vectors, too

logger = logging.getLogger(__name__)


def check_precision(precision: str, ranges: Any, count: int, size: int) -> None:
    """Checks the arguments of `quantize_vectors`. Warns if ranges would come from few vectors.

    Args:
        precision: one of `PRECISIONS`.
        ranges: as in `quantize_vectors`.
        count: number N of the vectors.
        size: size D of the vectors.

    Raises:
        InputError: if the precision is unknown, the ranges have another shape or do not belong to
            the precision, or they are missing and there is only one vector.
    """
    if precision not in PRECISIONS:
        raise InputError(
            f"There is no precision {precision!r}.{closest(precision, PRECISIONS)} Choose one of "
            f"{', '.join(PRECISIONS)}."
        )
    if ranges is not None:
        if not precision.endswith("int8"):
            raise InputError(f"ranges are for int8 and uint8, but the precision is {precision!r}.")
        if np.shape(ranges) != (2, size):
            raise InputError(
                f"ranges have the shape {list(np.shape(ranges))}, but must have [2, {size}]: the "
                "lowest and the highest value of each entry."
            )
    elif precision.endswith("int8") and count == 1:
        raise InputError(
            f"The precision {precision!r} needs the range of each entry, which one vector does not "
            "have; give ranges, the lowest and the highest values in many vectors."
        )
    elif precision.endswith("int8") and 0 < count < _FEW:
        logger.warning(
            "The ranges for %s come from only %d vectors; give ranges of more vectors.",
            precision,
            count,
        )


def quantize_vectors(vectors: np.ndarray, precision: str, ranges: Any = None) -> np.ndarray:
    """Converts float vectors to a smaller type, with the formulas of sentence-transformers.

    "int8" and "uint8" divide each entry's range into 255 equal steps. "ubinary" keeps one bit of
    each entry, 1 if the entry is above 0, and packs 8 bits into a uint8. "binary" is "ubinary"
    minus 128, an int8.

    Args:
        vectors: float32 vectors `[N, D]`.
        precision: one of `PRECISIONS`.
        ranges: lowest and highest value of each entry, `[2, D]`, for "int8" and "uint8". Values
            outside are clipped. By default, the lowest and the highest values in `vectors`.

    Returns:
        `[N, D]` or, if bits are packed, `[N, ceil(D / 8)]`.
    """
    if precision == "float32":
        return vectors
    if precision.endswith("binary"):
        bits = np.packbits(vectors > 0, axis=-1)
        return bits if precision == "ubinary" else (bits.astype("int16") - 128).astype("int8")
    if not len(vectors):
        return vectors.astype(precision)
    if ranges is None:
        ranges = (vectors.min(axis=0), vectors.max(axis=0))
    low, high = np.asarray(ranges, "float32")
    steps = (high - low) / 255
    numbers = np.floor((vectors - low) / np.where(steps == 0, np.float32(1), steps))
    numbers = np.clip(numbers, 0, 255)
    return (numbers - 128 if precision == "int8" else numbers).astype(precision)
