"""Fails a session whose tests leave processes behind. The hooks are for `conftest.py`.

A process inherits an environment variable with the session's id, so that it is found even if its
parent has ended. A fork of pytest itself that runs no program of its own has the environment that
pytest began with; such a fork is found as long as pytest is its parent. Needs /proc, so Linux.
"""

import os
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest

VARIABLE = "KERAS_BERT_TEST_SESSION"
# Seconds that processes get which are about to end.
GRACE = float(os.environ.get("KERAS_BERT_TEST_GRACE", "30"))
PROC = Path("/proc")
# Helpers of multiprocessing; they end as soon as the process that started them has ended.
HELPERS = ("from multiprocessing.resource_tracker ", "from multiprocessing.forkserver ")
_report = pytest.StashKey[list[str]]()


class LeftProcess(NamedTuple):
    """A process that is still there.

    Args:
        pid: its number.
        test: the test that started it, "" if unknown.
        command: its command line.
    """

    pid: int
    test: str
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid}, started by {self.test or 'an unknown test'}: {self.command}"


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        os.environ[VARIABLE] = uuid.uuid4().hex  # workers of pytest-xdist inherit it


@pytest.hookimpl(trylast=True)  # after pytest-xdist has ended its workers
def pytest_sessionfinish(session: pytest.Session) -> None:
    if is_worker(session.config):
        return
    if not (PROC / "self" / "environ").exists():
        session.config.stash[_report] = ["Not checked: this system has no /proc."]
        return
    left = after_grace(VARIABLE, os.environ[VARIABLE], parent=os.getpid())
    if left:
        session.config.stash[_report] = list(map(str, left))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if lines := config.stash.get(_report, []):
        terminalreporter.section("processes that the tests left behind")
        for line in lines:
            terminalreporter.line(line)


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def after_grace(name: str, value: str, parent: int = 0) -> list[LeftProcess]:
    """Returns the processes that live on for longer than the grace period."""
    deadline = time.monotonic() + GRACE
    while (left := living(name, value, parent)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def living(name: str, value: str, parent: int = 0) -> list[LeftProcess]:
    """Returns the processes with an environment variable, and the children of `parent`."""
    found = []
    for folder in PROC.glob("[0-9]*"):
        try:
            state, its_parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            words = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # it has ended, or is another user's
            continue
        is_child, pid = int(its_parent) == parent, int(folder.name)
        if state == "Z" or pid == os.getpid() or (is_child and any(h in command for h in HELPERS)):
            continue
        variables = dict(word.partition("=")[::2] for word in words)
        if is_child or variables.get(name) == value:
            test = variables.get("PYTEST_CURRENT_TEST", "")
            found.append(LeftProcess(pid, test, command.replace("\0", " ").strip()))
    return found
