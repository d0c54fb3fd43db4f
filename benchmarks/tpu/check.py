"""Training steps compiled for a TPU v5e without one: a table.

    make tpu-check                        # each objective, small: compiled anew
    make tpu-check CASES="base large"     # the cases whose first word is one of these
    make tpu-check CASES=                 # nothing: the table from results.json

What is compiled is what `tf.distribute` runs on each replica: forward and backward pass, clipping
and optimizer, with dropout, in bfloat16 with float32 weights, for one chip. Results are kept in
results.json beside this file. It fails if a result is more than 3 % off the formula in
`keras_bert.pretraining.training.throughput`, or needs more memory than the chip has.

TFLOP, in turn: the formula; the products of matrices in the module that TensorFlow hands over,
which are what the formula counts; all that the compiler counts in its program, element-wise
operations included, a loop as if it ran once: so of a batch in parts it counts one part, and is
compared with the formula's. Memory in GB (10⁹ bytes): the arguments are weights, moments and the
batch.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.tpu.cases import CASES

RESULTS = Path(__file__).with_name("results.json")
MEMORY = int(15.75 * 2**30)  # of the 16 GiB of a v5e, what libtpu leaves to programs
TOLERANCE = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "cases", nargs="*", help="what to compile: names of cases, or their first words"
    )
    wanted = parser.parse_args().cases
    for name in [name for name in CASES if name in wanted or name.split()[0] in wanted]:
        print(f"{name} ...", file=sys.stderr, flush=True)
        keep(name, measure(name))
    results = read()
    print_table(results)
    sys.exit(0 if all(map(holds, results.values())) else 1)


def measure(name: str) -> dict:
    """Lowers and compiles, each in a process of its own, which gives all memory back."""
    with tempfile.NamedTemporaryFile() as module:
        formula = run("steps", name, module.name)
        result = run("compiler", module.name, str(CASES[name].accumulation))
    return {"formula": formula, **result, "day": time.strftime("%Y-%m-%d")}


def run(program: str, *arguments: str) -> Any:
    """The last line that a program prints."""
    command = [sys.executable, "-m", f"benchmarks.tpu.{program}", *arguments]
    return json.loads(subprocess.check_output(command, text=True).strip().split("\n")[-1])


def read() -> dict[str, dict]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(name: str, result: dict) -> None:
    results = {**read(), name: result}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def holds(result: dict) -> bool:
    off = abs(result["products"] / result["formula"] - 1)
    return off < TOLERANCE and result.get("memory", MEMORY + 1) <= MEMORY


def print_table(results: dict[str, dict]) -> None:
    print("| step | formula | products | compiled | arguments | temporaries | memory | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for name in [name for name in CASES if name in results]:
        result = results[name]
        formula, parts = result["formula"], CASES[name].accumulation
        counts = [f"{formula / 1e12:.3f}"]
        for kind, expected in (("products", formula), ("flops", formula / parts)):
            if kind in result:
                share = result[kind] / expected - 1
                counts.append(f"{result[kind] / 1e12:.3f} ({share:+.1%})")
        sizes = [
            f"{result[kind] / 1e9:.2f}"
            for kind in ("arguments", "temporaries", "memory")
            if kind in result
        ]
        rest = [*sizes, str(result["seconds"])] if sizes else [f"refused: {result['refused']}"]
        label = f"{name}, {parts} parts" if parts > 1 else name
        print(f"| {label} | {' | '.join(counts + rest)} |")


if __name__ == "__main__":
    main()
