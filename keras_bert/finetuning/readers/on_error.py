"""Handling of examples that cannot be used: the reader fails, or skips and reports them."""

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
    """Returns `read(item)` for each item.

    Args:
        read: function that makes an example of an item. If the item cannot be used, the function
            raises an `InputError` that names the line.
        items: contents of the file.
        path: the file, for messages.
        on_error: "fail" raises the first error. "skip" leaves items with errors out, and logs
            their number and the first few errors.

    Raises:
        InputError: if an item cannot be used, or all items are skipped.
    """
    if on_error not in ("fail", "skip"):
        raise InputError(f"on_error is {on_error!r}, but must be 'fail' or 'skip'.")
    examples, errors = [], []
    for item in items:
        try:
            examples.append(read(item))
        except InputError as error:
            if on_error == "fail":
                raise
            errors.append(str(error))
    if errors and not examples:
        raise InputError(f"{path}: no example is left, all {len(errors)} have errors. {errors[0]}")
    if errors:
        count = len(errors) + len(examples)
        first = "\n".join(errors[:_SHOWN])
        logger.warning("%s: %d of %d examples are skipped:\n%s", path, len(errors), count, first)
    return examples
