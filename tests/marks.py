"""Which values of a parameter are tested quickly."""

from collections.abc import Iterable
from typing import Any

import pytest


def others_slow(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """The first values as they are; those after them are left to `make test-slow`."""
    values = list(values)
    return values[:quick] + [pytest.param(v, marks=pytest.mark.slow) for v in values[quick:]]
