"""Starts Python programs as forks of a process that has imported TensorFlow.

The imports take many seconds, and tests start many programs. A directory has the executables
`keras-bert` and `python`. They ask the server, the process with the imports, for a fork. The fork
has the caller's streams, working directory, arguments and environment, and runs the program as its
`__main__`. The executable passes signals on and ends with the fork's exit status.

The server has computed nothing, because TensorFlow's threads do not survive a fork. A program gets
a process of its own if the server cannot stand for its interpreter. This is so if options of Python
are given, or if an environment variable differs that modules may have read when they were imported.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import random
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

COMMANDS = (
    "tensorflow",
    "tensorflow_text",
    "keras_bert.cli.options",
    "keras_bert.export",
    "keras_bert.finetuning",
    "keras_bert.pretraining.training.trainer",
)
"""Modules that the commands of `keras-bert` import."""
FREE = (
    "PATH",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "COLUMNS",
    "LINES",
    "TF_CONFIG",
    "PYTEST_CURRENT_TEST",
)
"""Variables that no module reads when it is imported."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
BIN = Path(sys.executable).parent

# Imports little, because each program starts it. Exit statuses are as of `os.waitpid`.
CLIENT = """\
#!{python} -SE
import json, os, signal, socket, struct, sys
signals = {signals}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until they can be passed on
name = os.path.basename(sys.argv[0])
program = os.path.join({bin!r}, name)
request = [[program, *sys.argv[1:]], os.getcwd(), dict(os.environ)]
try:
    server = socket.socket(socket.AF_UNIX)
    server.connect({address!r})
    content = json.dumps(request).encode()
    socket.send_fds(server, [struct.pack("<q", len(content))], [0, 1, 2])
    server.sendall(content)
    accepted = server.recv(1) == b"y"
except (OSError, ValueError):
    accepted = False
if not accepted:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    os.execv(program, request[0])
for number in signals:
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda number, frame: server.sendall(bytes([number])))
signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
status = server.recv(4)
code = os.waitstatus_to_exitcode(struct.unpack("<i", status)[0]) if len(status) == 4 else 1
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class Forks:
    """A server and the directory of its executables; a context manager.

    Args:
        modules: modules that the server imports.
        hidden: modules whose import fails in the server and in all forks.
    """

    def __init__(self, modules: Sequence[str] = COMMANDS, hidden: Sequence[str] = ()):
        self._modules, self._hidden = modules, hidden

    def __enter__(self) -> "Forks":
        self.bin = Path(tempfile.mkdtemp(prefix="forks"))
        address = str(self.bin / "socket")
        for name in ("keras-bert", "python"):
            text = CLIENT.format(
                python=sys.executable,
                bin=str(BIN),
                address=address,
                signals=[int(number) for number in PASSED_ON],
            )
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(64)  # clients wait until the server has imported its modules
            options = json.dumps([listener.fileno(), self._modules, self._hidden])
            self._process = subprocess.Popen(
                [sys.executable, __file__, options],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # signals of a terminal reach the clients, not the forks
            )
        return self

    def module(self, name: str) -> list[str]:
        """Returns the beginning of a command that runs a module as `python -m` does."""
        code = f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
        return [str(self.bin / "python"), "-c", code]

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        shutil.rmtree(self.bin)
        assert self._process.returncode == 0, "the server of forks has failed"


class _Program:
    """A program that a client asked for: its fork, and how the client is told of its end."""

    def __init__(self, client: socket.socket, pid: int):
        self.client, self.pid = client, pid
        self.ended = os.pidfd_open(pid)

    def signal(self, number: int) -> None:
        signal.pidfd_send_signal(self.ended, number)

    def close(self) -> None:
        os.close(self.ended)
        self.client.close()


class _Request:
    """A program with its surroundings, as a client sends them."""

    def __init__(self, client: socket.socket):
        header, self.streams, _, _ = socket.recv_fds(client, 8, 3)
        content = b""
        if len(header) == 8:
            (size,) = struct.unpack("<q", header)
            while len(content) < size and (part := client.recv(size - len(content))):
                content += part
        self.command, self.folder, self.environment = json.loads(content or b"[[], null, {}]")

    def close(self) -> None:
        for stream in self.streams:
            os.close(stream)

    def source(self) -> tuple[str, str, list[str]] | None:
        """Returns the program's text, its file ("" for none) and its arguments; or None."""
        match self.command:
            case [program, *arguments] if program.endswith("/keras-bert"):
                return Path(program).read_text(), program, arguments
            case [_, "-c", text, *arguments]:
                return text, "", arguments
            case [_, "-P", file, *arguments] if not file.startswith("-"):
                return Path(file).read_text(), file, arguments
        return None

    def become(self) -> types.CodeType:
        """Gives this process the client's surroundings; returns the code to run."""
        found = self.source()
        assert found
        text, file, arguments = found
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
        self.close()
        _open_streams()
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv = [file or "-c", *arguments]
        if self.command[1:2] != ["-P"]:
            sys.path.insert(0, str(Path(file).parent) if file else "")
        module = types.ModuleType("__main__")
        if file:
            module.__file__ = file
        sys.modules["__main__"] = module
        signal.signal(signal.SIGINT, signal.default_int_handler)
        random.seed()
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()
        return compile(text, file or "<string>", "exec")


def _open_streams() -> None:
    """Opens Python's standard streams anew, as a starting interpreter does."""
    sys.stdin = sys.__stdin__ = _open(0, "r", sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _open(1, "w", sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _open(2, "w", sys.stderr)  # type: ignore[misc]
    sys.stderr.reconfigure(line_buffering=not sys.stderr.write_through)


def _open(descriptor: int, mode: str, old: Any) -> io.TextIOWrapper:
    """Opens a descriptor with the encoding and the buffering of the server's stream."""
    options = {"encoding": old.encoding, "errors": old.errors, "closefd": False}
    stream = cast(io.TextIOWrapper, open(descriptor, mode, **options))  # noqa: SIM115
    stream.reconfigure(write_through=old.write_through)
    return stream


def serve(listener: socket.socket, began_with: dict[str, str]) -> _Request | None:
    """Answers clients until standard input is closed.

    Returns:
        None in the server. In a fork, the request, whose program the caller is to run.
    """
    fixed = _fixed(began_with)
    programs: list[_Program] = []
    with listener, selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    for program in programs:
                        program.signal(signal.SIGKILL)
                    return None
                if key.fileobj is listener:
                    client, _ = listener.accept()
                    request = _Request(client)
                    if _fixed(request.environment) != fixed or request.source() is None:
                        request.close()
                        client.close()
                        continue
                    pid = os.fork()
                    if not pid:
                        for program in programs:
                            program.close()
                        client.close()
                        return request
                    request.close()
                    client.sendall(b"y")
                    program = _Program(client, pid)
                    programs.append(program)
                    selector.register(client, selectors.EVENT_READ, program)
                    selector.register(program.ended, selectors.EVENT_READ, program)
                elif (program := key.data) in programs:
                    if key.fileobj is program.client:
                        _pass_on(program, selector)
                    else:
                        _report_end(program, selector)
                        programs.remove(program)


def _fixed(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in FREE}


def _pass_on(program: _Program, selector: selectors.BaseSelector) -> None:
    """Sends a fork the signals that its client got. If the client was killed, kills the fork."""
    try:
        numbers = program.client.recv(64)
    except ConnectionError:
        numbers = b""
    for number in numbers or [signal.SIGKILL]:
        program.signal(number)
    if not numbers:
        selector.unregister(program.client)


def _report_end(program: _Program, selector: selectors.BaseSelector) -> None:
    _, status = os.waitpid(program.pid, 0)
    selector.unregister(program.ended)
    with contextlib.suppress(KeyError):
        selector.unregister(program.client)
    with contextlib.suppress(OSError):  # the client was killed
        program.client.sendall(struct.pack("<i", status))
    program.close()


def main(options: str) -> Any:
    """Imports the modules and serves; in a fork, returns the code to run."""
    began_with = dict(os.environ)
    sys.path.pop(0)  # this folder
    listener, modules, hidden = json.loads(options)
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in modules:
        importlib.import_module(name)
    assert threading.active_count() == 1
    if tensorflow := sys.modules.get("tensorflow.python.eager.context"):
        assert not tensorflow.context()._initialized, "an import has computed something"
    gc.collect()
    gc.freeze()  # so that forks share the memory
    request = serve(socket.socket(fileno=listener), began_with)
    return request and request.become()


if __name__ == "__main__":
    code = main(sys.argv[1])
    if code:
        exec(code, sys.modules["__main__"].__dict__)
