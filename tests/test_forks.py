"""A fork is as a process of its own: streams, exit status, signals, surroundings."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.forks import Forks


@pytest.fixture(scope="module")
def python():
    with Forks(modules=["json"]) as forks:
        yield forks.bin / "python"


def run(python, code, *arguments, **options):
    options = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run([python, "-c", code, *arguments], **options)


SURROUNDINGS = """
import os, sys
print(os.getcwd(), sys.argv, sys.path, sys.executable, __name__, sys.stdout.encoding)
print(dict(os.environ), sys.stdin.read(), sys.modules["__main__"].__dict__ is globals())
print(sys.stderr.line_buffering, sys.stderr.errors, file=sys.stderr)
sys.exit(3)
"""


def test_surroundings(python, tmp_path):
    options = {"cwd": tmp_path, "input": "ä\n", "env": os.environ | {"PATH": "/nowhere:/bin"}}
    found = [run(each, SURROUNDINGS, "a b", "", **options) for each in (python, sys.executable)]
    assert (found[0].returncode, found[0].stdout) == (3, found[1].stdout)
    assert found[0].stderr == found[1].stderr


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("", 0),
        ("import sys; sys.exit('why')", 1),
        ("1 / 0", 1),
        ("import os; os._exit(77)", 77),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import atexit; atexit.register(print, 'the end')", 0),
        ("import threading, time; threading.Timer(0.2, print, ['late']).start()", 0),
    ],
)
def test_exit_status_and_last_words(python, code, status):
    found, expected = run(python, code), run(sys.executable, code)
    assert found.returncode == expected.returncode == status
    assert found.stdout == expected.stdout
    assert found.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]


WAITING = """
import os, time
try:
    print(os.getpid(), flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def heeds_interrupts():
    """A shell starts background jobs with SIGINT ignored, and their programs inherit this."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_interrupts")
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 0, "interrupted\n"), (signal.SIGTERM, -signal.SIGTERM, "")],
    ids=["SIGINT", "SIGTERM"],
)
def test_signals_are_passed_on(python, number, status, said):
    with subprocess.Popen([python, "-c", WAITING], stdout=-1, text=True) as process:
        assert int(process.stdout.readline()) != process.pid
        process.send_signal(number)
        assert process.stdout.read() == said
    assert process.returncode == status


def test_a_fork_ends_with_its_client(python):
    with subprocess.Popen([python, "-c", WAITING], stdout=-1, text=True) as process:
        fork = int(process.stdout.readline())
        process.kill()
        assert process.stdout.read() == ""  # no process has the stream any longer
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{fork}") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{fork}")


def test_what_differs_at_imports_starts_a_process(python):
    code = "import os; print(os.getpid())"
    with subprocess.Popen([python, "-c", code], stdout=-1, text=True) as process:
        assert int(process.stdout.read()) != process.pid
    for command, changes in (
        ([python, "-c", code], {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}),
        ([python, "-I", "-c", code], {}),
    ):
        environment = os.environ | changes
        with subprocess.Popen(command, stdout=-1, text=True, env=environment) as process:
            assert int(process.stdout.read()) == process.pid


def test_several_at_once_draw_different_numbers(python):
    code = "import random, time; time.sleep(0.3); print(random.random())"
    command = [python, "-c", code]
    started = [subprocess.Popen(command, stdout=-1, text=True) for _ in range(4)]
    assert len({process.communicate()[0] for process in started}) == 4
    assert not any(process.returncode for process in started)


def test_a_server_that_cannot_start_fails():
    with pytest.raises(AssertionError, match="has failed"), Forks(modules=["no_such_module"]):
        pass
