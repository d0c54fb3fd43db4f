"""Compare a classifier's SavedModel in float32 and bfloat16 with other runtimes.

    python benchmarks/runtimes.py WEIGHTS --peer-python PYTHON [--batches 1 8 32] [--threads 1]

WEIGHTS is a model directory in Hugging Face's format. PYTHON has torch and transformers. The sides
are our SavedModels, our ONNX file in onnxruntime and in OpenVINO, and PyTorch. In PyTorch, all
weights and operations are bfloat16. All sides take the same ids of 128 tokens without padding. Each
side is a process of its own. The sides run in turns, every other round in reverse order, one second
each.

Then our SavedModels take texts of 128 tokens from TensorFlow's C API, as in TensorFlow Serving.
This time is divided by the time of the ids in the same round. The memory of this process,
TensorFlow included, is measured after its calls. The processor must have AVX-512 BF16 or AMX.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from serving import in_c

import keras_bert as kb
from keras_bert import export
from keras_bert.export import worker
from keras_bert.export._verify.speed import long_text
from keras_bert.export.process import Process, running

HERE = Path(__file__).parent
LENGTH, SECONDS = 128, 1.0
DTYPES = ("float32", "bfloat16")
# The goals: a side, its peers, and the largest ratio of its time to the fastest peer's time.
GOALS = (
    ("SavedModel, bfloat16", ("PyTorch, bfloat16", "OpenVINO, bfloat16"), 1.3),
    ("SavedModel, bfloat16", ("SavedModel, float32",), 0.4),
    ("SavedModel, float32", ("onnxruntime, float32",), 1.05),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights")
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    model = kb.load(options.weights, task="classifier", labels=["0", "1"])
    model.preprocessor = model.preprocessor.with_length(LENGTH)
    text = long_text(model, ["A plain film about a long way home."], LENGTH)
    ids = {name: np.asarray(array) for name, array in model.preprocessor([text]).items()}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        directory = Path(folder)
        for dtype in DTYPES:
            export.saved_model(model, directory / dtype, dtype=dtype)
        export.onnx(model, directory / "model.onnx")
        sides = start(stack, directory, options)
        times = defaultdict(list)  # milliseconds of each round, by (side, batch)
        memory = defaultdict(list)  # MB of each round, by dtype
        for number in range(options.rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                for batch in options.batches:
                    times[side, batch].append(ids_time(sides[side], ids, batch))
            for dtype in DTYPES:
                settings = {"batches": options.batches, "threads": options.threads}
                texts = [text] * max(options.batches)
                reply = in_c(directory / dtype, texts, seconds=SECONDS, **settings)
                memory[dtype].append(reply["resident"] / 1000)
                for batch, found in zip(options.batches, reply["milliseconds"], strict=True):
                    times[f"text in C, {dtype}", batch].append(statistics.median(found[1:]))
            print(f"round {number + 1} of {options.rounds}", flush=True)
    report(times, options)
    for dtype, found in memory.items():
        print(f"MB of the process in C, {dtype}: {', '.join(f'{n:.0f}' for n in found)}")


def start(stack, directory, options):
    """Starts a process for each side; returns them by the side's name."""
    threads, file = options.threads, directory / "model.onnx"
    sides = {"onnxruntime, float32": stack.enter_context(running(file, threads))}
    for dtype in DTYPES:
        sides[f"SavedModel, {dtype}"] = stack.enter_context(running(directory / dtype, threads))
        sides[f"OpenVINO, {dtype}"] = stack.enter_context(running(file, threads, dtype))
        sides[f"PyTorch, {dtype}"] = stack.enter_context(in_pytorch(dtype, options))
    return sides


@contextlib.contextmanager
def in_pytorch(dtype, options):
    """Starts PyTorch as `running` starts the runtime of an artifact."""
    program = [options.peer_python, "-P", worker.__file__, HERE / "peers" / "runtime.py"]
    command = [*map(str, program), options.weights, str(options.threads), dtype]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            yield Process(Path(options.weights), "", process, errors)
        finally:
            process.kill()


def ids_time(process, ids, batch):
    """Returns the milliseconds of a call of a side with a batch of ids."""
    name = "ids" if "ids" in process.signatures else next(iter(process.signatures))
    names = process.signatures[name]["inputs"]
    inputs = {key: np.repeat(ids[key], batch, axis=0) for key in names}
    return process.time(name, inputs, SECONDS).milliseconds


def report(times, options):
    """Prints the times, and the ratios beside their goals."""
    print(f"\n{options.weights}: {LENGTH} tokens, {options.threads} thread(s), medians in ms\n")
    sides = list(dict.fromkeys(side for side, _ in times))
    print(f"| side | {' | '.join(f'batch {batch}' for batch in options.batches)} |")
    print("|---|" + "--:|" * len(options.batches))
    for side in sides:
        cells = (f"{statistics.median(times[side, batch]):.1f}" for batch in options.batches)
        print(f"| {side} | {' | '.join(cells)} |")
    print("\n| time / time | " + " | ".join(f"batch {b}" for b in options.batches) + " | goal |")
    print("|---|" + "--:|" * (len(options.batches) + 1))
    pairs = [*GOALS, *((f"text in C, {d}", (f"SavedModel, {d}",), 1.1) for d in DTYPES)]
    for side, peers, goal in pairs:
        cells = (f"{ratio(times, side, peers, batch):.2f}" for batch in options.batches)
        print(f"| {side} / {' or '.join(peers)} | {' | '.join(cells)} | {goal} |")


def ratio(times, side, peers, batch):
    """Returns a side's time divided by the fastest peer's time, the median over the rounds."""
    medians = {peer: statistics.median(times[peer, batch]) for peer in peers}
    fastest = min(medians, key=medians.get)
    pairs = zip(times[side, batch], times[fastest, batch], strict=True)
    return statistics.median(a / b for a, b in pairs)


if __name__ == "__main__":
    main()
