"""Examples that cannot be used: the reader fails, or leaves them out and says so."""

import logging
import os
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from keras_bert.errors import InputError

logger = logging.getLogger(__name__)

OnError = Literal["fail", "skip"]
_SHOWN = 3

Item = TypeVar("Item")
Example = TypeVar("Example")


def read_each(
    read: Callable[[Item], Example],
    items: Iterable[Item],
    path: str | os.PathLike,
    on_error: OnError,
) -> list[Example]:
    """`read(item)` for each item.

    Args:
        read: raises an `InputError`, which names the line, if the item cannot be used.
        items: what the file holds.
        path: the file, for messages.
        on_error: "fail" lets the first error pass; "skip" leaves those items out and logs how
            many there are, and what is wrong with the first few.

    Raises:
        InputError: for an item that cannot be used, or if all are skipped.
    """
    if on_error not in ("fail", "skip"):
        raise InputError(f"on_error is {on_error!r}, but must be 'fail' or 'skip'.")
    examples, faults = [], []
    for item in items:
        try:
            examples.append(read(item))
        except InputError as error:
            if on_error == "fail":
                raise
            faults.append(str(error))
    if faults and not examples:
        raise InputError(f"{path}: no example is left, all {len(faults)} have errors. {faults[0]}")
    if faults:
        count = len(faults) + len(examples)
        first = "\n".join(faults[:_SHOWN])
        logger.warning("%s: %d of %d examples are skipped:\n%s", path, len(faults), count, first)
    return examples
