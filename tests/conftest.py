"""Fixtures for all tests."""

import gc
import os
from pathlib import Path

import pytest

from tests.left_processes import (  # noqa: F401
    pytest_configure,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Graphs are so many objects that looking for cycles in them took an eighth of the time.
gc.set_threshold(200_000, 50, 1000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test begins first, so that nobody waits for it alone at the end."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real weights, vocabularies and corpora, which are not in the repository."""
    folder = os.environ.get("KERAS_BERT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the environment variable KERAS_BERT_DATA names no folder of data for tests")
    return Path(folder)
