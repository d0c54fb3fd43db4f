"""The session check, in sessions of its own."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import left_processes

pytestmark = pytest.mark.skipif(
    not left_processes.PROC.joinpath("self", "environ").exists(), reason="needs /proc"
)
TEST = """
import subprocess

def test_starts_one():
    subprocess.Popen(["sleep", "{seconds}"], start_new_session=True)
"""


def session(folder, *options, grace, seconds):
    """Runs a session whose only test starts a process and does not wait for it."""
    (folder / "test_it.py").write_text(TEST.format(seconds=seconds))
    program = [sys.executable, "-m", "pytest", "-p", "tests.left_processes", "--rootdir", folder]
    root = str(Path(__file__).parent.parent)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return subprocess.run(
        [*program, *options, folder / "test_it.py"],
        env=environment | {"PYTHONPATH": root, "KERAS_BERT_TEST_GRACE": str(grace)},
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_session_that_leaves_a_process_fails_and_names_it(options, tmp_path):
    done = session(tmp_path, *options, grace=0, seconds=987)
    line = r"^pid (\d+), started by test_it.py::test_starts_one .*: sleep 987$"
    found = re.search(line, done.stdout, re.MULTILINE)
    if found:
        os.kill(int(found[1]), signal.SIGKILL)
    assert found, done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 passed" in done.stdout


def test_a_process_that_is_about_to_end_is_waited_for(tmp_path):
    done = session(tmp_path, grace=60, seconds=0.5)
    assert done.returncode == 0, done.stdout
    assert "left behind" not in done.stdout
