"""Leaves values of a parameter to the slow tests."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def others_slow(values: Iterable[Any], quick: int | Container[Any] = 1) -> list[Any]:
    """Leaves all values but the quick ones to `make test-slow`.

    Args:
        values: the parameter's values; a tuple gives one to each of several parameters.
        quick: the values that are quick, or how many of the first are.
    """
    values = list(values)
    chosen = values[:quick] if isinstance(quick, int) else quick
    return [v if v in chosen else _slow(v) for v in values]


def _slow(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.slow)
