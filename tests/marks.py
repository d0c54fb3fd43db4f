"""Leaves values of a parameter to the slow tests, or to the tests of all values."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def others_slow(values: Iterable[Any], quick: int | Container[Any] = 1) -> list[Any]:
    """Leaves all values but the quick ones to `make test-slow`.

    Args:
        values: the parameter's values; a tuple gives one to each of several parameters.
        quick: the values that are quick, or how many of the first are.
    """
    return _marked(values, quick, pytest.mark.slow)


def others_swept(values: Iterable[Any], quick: int | Container[Any] = 1) -> list[Any]:
    """Leaves all values but the quick ones to `make test-sweep`, because each takes seconds.

    Args:
        values: see `others_slow`.
        quick: see `others_slow`.
    """
    return _marked(values, quick, pytest.mark.sweep)


def _marked(
    values: Iterable[Any], quick: int | Container[Any], mark: pytest.MarkDecorator
) -> list[Any]:
    values = list(values)
    chosen = values[:quick] if isinstance(quick, int) else quick
    return [value if value in chosen else _param(value, mark) for value in values]


def _param(value: Any, mark: pytest.MarkDecorator) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=mark)
