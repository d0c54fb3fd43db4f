"""Stops a process at each of its renames and deletions, before or after the call.

The process is a fork, so that the imports are not repeated. Functions run in a fork of the test.
Commands run in a fork of a process that has imported TensorFlow but computed nothing, since
TensorFlow's threads do not survive a fork. A process that a command starts is not stopped.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CALLS = ("rename", "replace", "unlink", "remove", "rmdir")


class Kill(NamedTuple):
    """A signal that a process sends to itself.

    Args:
        call: index of the rename or deletion.
        signal: its number.
        after: whether the call is made first.
    """

    call: int
    signal: int
    after: bool


class Outcome(NamedTuple):
    """Result of a process.

    Args:
        code: its exit status; if a signal killed it, minus the signal's number.
        calls: number of renames and deletions; 0 if it was killed.
        said: standard output and standard error.
    """

    code: int
    calls: int
    said: str


def kills(calls: int) -> Iterator[Kill]:
    """Yields the kills of a process with so many calls; equal states are tried once.

    Before a call, the files are as after the call before it.
    """
    yield Kill(0, signal.SIGINT, False)
    for call in range(calls):
        yield Kill(call, signal.SIGKILL, False)
        yield Kill(call, signal.SIGINT, True)
    yield Kill(calls - 1, signal.SIGKILL, True)


def a_few(calls: int) -> Iterator[Kill]:
    """Yields two kills in the second half, where the files of a save are being moved."""
    yield Kill(calls // 2, signal.SIGKILL, False)
    yield Kill(calls * 2 // 3, signal.SIGINT, True)


SWEEP = pytest.param(kills, marks=pytest.mark.sweep)


def fork(action: Callable[[], int | None], kill: Kill | None = None) -> Outcome:
    """Runs a function in a fork, which exits with its result, and stops the fork as `kill` says."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as counted:
        pid = os.fork()
        if not pid:
            _run(action, kill, said.fileno(), counted.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0)
        counted.seek(0)
        return Outcome(code, int(counted.read() or 0), said.read())


def _run(action: Callable[[], int | None], kill: Kill | None, said: int, counted: int) -> None:
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.alarm(300)
        os.dup2(said, 1)
        os.dup2(said, 2)
        calls = _count_calls(kill)
        code = action() or 0
        os.write(counted, str(len(calls)).encode())
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _count_calls(kill: Kill | None) -> list[str]:
    """Wraps the functions of `os`; returns a list that grows with each call."""
    calls: list[str] = []

    def wrap(name: str) -> None:
        function = getattr(os, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            hit = kill is not None and kill.call == len(calls) - 1
            if hit and not kill.after:
                os.kill(os.getpid(), kill.signal)
            result = function(*arguments, **options)
            if hit and kill.after:
                os.kill(os.getpid(), kill.signal)
            return result

        setattr(os, name, wrapped)

    for name in CALLS:
        wrap(name)
    return calls


class Commands:
    """Runs commands of `keras-bert` in forks of one process; a context manager."""

    def __enter__(self) -> "Commands":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kills"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, folder: Path, *arguments: object, kill: Kill | None = None) -> Outcome:
        """Runs one command line in a folder, and stops it as `kill` says."""
        request = {"folder": os.fspath(folder), "arguments": [*map(str, arguments)], "kill": kill}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return Outcome(*json.loads(self._process.stdout.readline()))


def main() -> None:
    """Answers the requests of `Commands`."""
    import tensorflow  # noqa: F401

    from keras_bert.cli import main as command

    def run(folder: str, arguments: Sequence[str]) -> int:
        os.chdir(folder)
        return command(arguments)

    for line in sys.stdin:
        request = json.loads(line)
        kill = request["kill"] and Kill(*request["kill"])
        outcome = fork(lambda r=request: run(r["folder"], r["arguments"]), kill)
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
