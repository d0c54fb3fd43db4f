"""Run the sides of a comparison in turns, each in its own process, and compare their speed.

At its end a side prints one line of JSON: `tokens` without padding, `seconds`,
`processor_seconds` and, for some comparisons, `cells`: the number of tokens with padding.
"""

import json
import os
import statistics
import subprocess
import sys


def run_in_turns(
    sides: dict[str, list[str]], rounds: int, threads: int
) -> dict[str, list[dict[str, float]]]:
    """Returns the measurements of each side by round; every other round is in reverse order."""
    runs = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            runs[side].append(_measure(side, sides[side], threads))
            print(f"round {number + 1}: {side}: {runs[side][-1]}", flush=True)
    return runs


def _measure(side: str, command: list[str], threads: int) -> dict[str, float]:
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def speeds(runs: dict, side: str, seconds: str = "seconds") -> list[float]:
    """Returns the tokens per second of each round, by `seconds` or "processor_seconds"."""
    return [once["tokens"] / once[seconds] for once in runs[side]]


def ratio(runs: dict, ours: str, theirs: str, seconds: str = "seconds") -> float:
    """Returns the median over rounds of one side's speed divided by another side's."""
    pairs = zip(*(speeds(runs, side, seconds) for side in (ours, theirs)), strict=True)
    return statistics.median(a / b for a, b in pairs)


def table(runs: dict, ours: str = "keras_bert") -> list[str]:
    """Returns lines of a table with the speed of each side, and ours relative to it."""
    padded = all("cells" in once for side in runs for once in runs[side])
    lines = [
        f"| side |{' padding |' if padded else ''} real tokens/s, median | lowest, highest "
        f"| {ours} is faster by, median | tokens/s of processor time | {ours} by |",
        "|---|" + "---|" * (5 + padded),
    ]
    for side in runs:
        cells = [side]
        if padded:
            tokens, computed = (sum(once[n] for once in runs[side]) for n in ("tokens", "cells"))
            cells.append(f"{1 - tokens / computed:.1%}")
        for seconds in ("seconds", "processor_seconds"):
            found = speeds(runs, side, seconds)
            spread = [f"{min(found):.0f}, {max(found):.0f}"] if seconds == "seconds" else []
            by = f"{ratio(runs, ours, side, seconds):.2f}"
            cells += [f"{statistics.median(found):.0f}", *spread, by]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def use_threads(count: int) -> None:
    """Sets TensorFlow's threads in the process of a side."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(count)
    tf.config.threading.set_inter_op_parallelism_threads(count)
