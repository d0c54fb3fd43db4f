"""Measure the sides of a comparison in turns on one accelerator.

Each side has a process that compiles once and stays, so that a round takes only the time of its
steps. The processes share the memory of the device.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

PACKAGES = ("jax", "keras", "safetensors")
BACKEND = {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class Prepared(NamedTuple):
    """A side that is ready: `run` makes some steps, waits for the device and returns a number.

    `details` are printed with the measurements. `finish` is called after the last round.
    """

    run: Callable[[int], float]
    details: dict[str, Any]
    finish: Callable[[], None] = lambda: None


class Side(NamedTuple):
    """A side: a function that prepares it, the packages it needs, its environment variables."""

    prepare: Callable[..., Prepared]
    needed: tuple[str, ...]
    environment: dict[str, str]


def compare(command: list[str], sides: dict[str, Side], rounds: int) -> dict[str, dict[str, Any]]:
    """Starts `command --measure SIDE` for each side and measures the sides in turns.

    Returns:
        For each side its details, the result of `run`, the median of `seconds` per step, and
        `ratio`: how much faster the first side is, the median over the rounds.
    """
    processes = {}
    for name, side in sides.items():
        missing = [m for m in side.needed if importlib.util.find_spec(m) is None]
        if missing:
            print(f"| {name} | left out: {' and '.join(missing)} cannot be imported |")
            continue
        processes[name] = subprocess.Popen(
            [*command, "--measure", name],
            env=os.environ | side.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    results = {name: _answer(process, name) for name, process in processes.items()}
    seconds: dict[str, list[float]] = {name: [] for name in processes}
    for number in range(rounds):
        for name in list(processes) if number % 2 == 0 else reversed(processes):
            process = processes[name]
            assert process.stdin
            process.stdin.write("run\n")
            process.stdin.flush()
            measured = _answer(process, name)
            seconds[name].append(measured["seconds"])
            results[name]["result"] = measured["result"]
    for process in processes.values():
        process.communicate()  # closes its input, which ends it
    first = next(iter(seconds.values()))
    for name, values in seconds.items():
        results[name]["seconds"] = statistics.median(values)
        ratios = (theirs / ours for ours, theirs in zip(first, values, strict=True))
        results[name]["ratio"] = statistics.median(ratios)
    return results


def _answer(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    assert process.stdout
    for line in process.stdout:
        if line.startswith("{"):
            return json.loads(line)
    sys.exit(f"{name} failed, see above")


def serve(prepared: Prepared, steps: int) -> None:
    """Compiles, prints the details, and measures `steps` steps for each line of the input."""
    prepared.run(3)
    print(json.dumps(prepared.details), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        result = prepared.run(steps)
        seconds = (time.perf_counter() - began) / steps
        print(json.dumps({"seconds": seconds, "result": result}), flush=True)
    prepared.finish()


def trace(run: Callable[[int], float], directory: str) -> None:
    """Writes a trace of three steps on JAX to the directory."""
    import jax

    with jax.profiler.trace(directory):
        run(3)
