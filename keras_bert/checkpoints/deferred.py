"""Models whose weights come from a file, without drawing random ones first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras


@contextmanager
def without_weights() -> Iterator[None]:
    """Models made in the block have shapes and names, but no weights and no memory yet."""
    with keras.StatelessScope(initialize_variables=False):
        yield


def set_weight(variable: Any, value: Any) -> None:
    """Gives a variable its value, for the first time or anew."""
    if variable._value is None:  # Keras has no public word for it
        variable._initializer = lambda shape, dtype=None: value
        variable._deferred_initialize()
    else:
        variable.assign(value)


def initialize_rest(model: keras.Model) -> None:
    """Gives every variable that has no value yet the one of its initializer."""
    for variable in model.variables:
        if variable._value is None:
            variable._deferred_initialize()
