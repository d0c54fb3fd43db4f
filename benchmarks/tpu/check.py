"""Compile training steps for a TPU v5e on a machine without one, and print a table.

    make tpu-check                        # each objective, small: compiled anew
    make tpu-check CASES="base large"     # the cases whose first word is one of these
    make tpu-check CASES=                 # nothing: the table from results.json

A compiled step is what `tf.distribute` runs on each replica: forward and backward pass, clipping
and optimizer, with dropout, in bfloat16 with float32 weights, for one chip. Results are kept in
results.json beside this file. The check fails if a result differs by more than 3 % from the formula
in `keras_bert.pretraining.training.throughput`, or needs more memory than the chip has.

The first three columns are in TFLOP:

- formula: the operations of the matrix products by the formula.
- products: the operations of the matrix products in TensorFlow's module.
- compiled: all operations that the compiler counts, with element-wise ones. It counts a loop once,
  so if a batch has parts it counts one part, and is compared with one part of the formula.

Memory is in GB (10⁹ bytes). The arguments are the weights, the optimizer's moments and the batch.
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
MEMORY = int(15.75 * 2**30)  # libtpu leaves this much of a v5e's 16 GiB to programs
TOLERANCE = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", help="cases to compile: their names or first words")
    wanted = parser.parse_args().cases
    for name in [name for name in CASES if name in wanted or name.split()[0] in wanted]:
        print(f"{name} ...", file=sys.stderr, flush=True)
        keep(name, measure(name))
    results = read()
    print_table(results)
    sys.exit(0 if all(map(holds, results.values())) else 1)


def measure(name: str) -> dict:
    """Lowers and compiles a case, each in its own process, so that all memory is freed."""
    with tempfile.NamedTemporaryFile() as module:
        formula = run("steps", name, module.name)
        result = run("compiler", module.name, str(CASES[name].accumulation))
    return {"formula": formula, **result, "day": time.strftime("%Y-%m-%d")}


def run(program: str, *arguments: str) -> Any:
    """Runs a program and returns the last line that it prints, as JSON."""
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
