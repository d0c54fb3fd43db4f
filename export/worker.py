"""Runs an artifact in its runtime, in a process that has neither this package nor Keras.

This script takes these arguments: the file of the runtime's module, the artifact's path, the number
of threads, and perhaps a precision. It loads the artifact and sends a first message that describes
it. Then it answers requests until standard input is closed. A message is a number of bytes,
followed by a NumPy archive of this size. A request has the `signature`, the inputs, and the
`seconds` to repeat the call for. The answer has the outputs or, if the call was repeated, only
times. This module imports NumPy, but nothing of the package.
"""

import functools
import importlib.metadata
import importlib.util
import io
import json
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

Run = Callable[[str, Mapping[str, np.ndarray]], dict[str, np.ndarray]]
Signatures = dict[str, dict[str, Any]]
"""For each signature: `inputs`, shapes by name with -1 for a free size, and `outputs`, names."""

Load = Callable[[], tuple[Signatures, Run]]
"""Returns an artifact's signatures, and a function that runs one of them by its name."""


def send(stream: BinaryIO, arrays: dict[str, Any]) -> None:
    """Writes the arrays to the stream as one message. NULs at the end of bytes are kept."""
    packed = {name: _pack(np.asarray(array)) for name, array in arrays.items()}
    content = io.BytesIO()
    np.savez(content, **packed)  # type: ignore[arg-type]
    stream.write(struct.pack("<q", len(content.getbuffer())) + content.getbuffer())
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, np.ndarray] | None:
    """Reads one message, or returns None if the other process has ended."""
    header = stream.read(8)
    size = struct.unpack("<q", header)[0] if len(header) == 8 else 0
    content = stream.read(size)
    if not size or len(content) < size:
        return None
    with np.load(io.BytesIO(content)) as arrays:
        return {name: _unpack(arrays[name]) for name in arrays}


def _pack(array: np.ndarray) -> np.ndarray:
    """Appends a byte to each bytes object, because NumPy would strip NULs at the end."""
    if array.dtype != object:
        return array
    return np.array([value + b"." for value in array.ravel()], "S").reshape(array.shape)


def _unpack(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "S":
        return array
    values = np.empty(array.size, object)
    values[:] = [value[:-1] for value in array.ravel()]
    return values.reshape(array.shape)


def repeat(function: Callable[[], Any], seconds: float) -> list[float]:
    """Calls a function for this time, at least three times; returns the milliseconds of each call.

    The first call does not count. If there are five calls or more, the second does not count
    either.
    """
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(1000 * (time.perf_counter() - start))
    return times[2 if len(times) >= 5 else 1 :]


def spread(times: list[float]) -> float:
    """Returns half the interquartile range, divided by the median."""
    low, _, high = statistics.quantiles(times, method="inclusive")
    return (high - low) / 2 / statistics.median(times)


def in_parts(run: Run, signatures: Signatures) -> Run:
    """Makes a function that runs an artifact with a fixed batch size on any number of texts.

    The artifact runs once for each part of that size. Copies of the last text fill the last part.
    """

    def run_all(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        size = next(iter(signatures[signature]["inputs"].values()))[0]
        if size < 0:
            return run(signature, inputs)
        count = len(next(iter(inputs.values())))
        parts = []
        for start in range(0, count, size):
            rows = np.minimum(np.arange(start, start + size), count - 1)
            parts.append(run(signature, {name: array[rows] for name, array in inputs.items()}))
        return {name: np.concatenate([p[name] for p in parts])[:count] for name in parts[0]}

    return run_all


def peak_memory() -> int:
    """Returns this process's peak memory in bytes, since its start or since `forget_peak`."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):  # not Linux
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak() -> None:
    """Resets the peak memory to the current memory, if the system supports it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def main(runtime_file: str, path: str, threads: str, *precision: str) -> None:
    """Loads an artifact and answers requests."""
    # Keep standard output for messages. Text that a runtime prints goes elsewhere.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    specification = importlib.util.spec_from_file_location("runtime", runtime_file)
    runtime = importlib.util.module_from_spec(specification)  # type: ignore[arg-type]
    specification.loader.exec_module(runtime)  # type: ignore[union-attr]
    load = runtime.prepare(path, int(threads), *precision)
    forget_peak()
    imported, start = peak_memory(), time.perf_counter()
    signatures, run = load()
    milliseconds = 1000 * (time.perf_counter() - start)
    run = in_parts(run, signatures)
    hello = {
        "runtime": f"{runtime.PACKAGE} {importlib.metadata.version(runtime.PACKAGE)}",
        "signatures": json.dumps(signatures),
        "milliseconds": milliseconds,
    }
    send(output, hello)
    while (request := receive(sys.stdin.buffer)) is not None:
        signature, seconds = str(request.pop("signature")), float(request.pop("seconds"))
        work = functools.partial(run, signature, request)
        try:
            if seconds:
                times = repeat(work, seconds)
                result: dict[str, Any] = {"spread": spread(times)}
            else:
                start = time.perf_counter()
                result = work()
                times = [1000 * (time.perf_counter() - start)]
            result["milliseconds"] = statistics.median(times)
            result["peak"] = peak_memory() - imported
            send(output, result)
        except Exception as error:
            send(output, {"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main(*sys.argv[1:])
