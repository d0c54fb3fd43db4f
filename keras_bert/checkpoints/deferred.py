"""Models whose weights come from a file, without drawing random ones first.

Keras makes variables without values inside a `StatelessScope`, but has no public way to give them
values one by one: the names with an underscore and the register below are its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras.src.backend.common import global_state

_REGISTER = "uninitialized_variables"


@contextmanager
def without_weights() -> Iterator[None]:
    """Models made in the block have shapes and names, but no weights and no memory yet."""
    before = list(global_state.get_global_attribute(_REGISTER, []))
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Or the next such scope, say in a training step, would initialise them (again).
        global_state.set_global_attribute(_REGISTER, before)


def set_weight(variable: Any, value: Any) -> None:
    """Gives a variable its value, for the first time or anew."""
    if variable._value is None:
        variable._initializer = lambda shape, dtype=None: value
        variable._deferred_initialize()
    else:
        variable.assign(value)


def initialize_rest(model: keras.Model) -> None:
    """Gives every variable that has no value yet the one of its initializer."""
    for variable in model.variables:
        if variable._value is None:
            variable._deferred_initialize()
