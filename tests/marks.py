"""Which values of a parameter are tested quickly."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def others_slow(values: Iterable[Any], quick: int | Container[Any] = 1) -> list[Any]:
    """All values; but those that are quick, so many of the first, are left to `make test-slow`."""
    values = list(values)
    chosen = values[:quick] if isinstance(quick, int) else quick
    return [v if v in chosen else pytest.param(v, marks=pytest.mark.slow) for v in values]
