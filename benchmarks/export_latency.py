"""Compare the latency of our ONNX file with ONNX files of the same weights by other exporters.

    python benchmarks/export_latency.py WEIGHTS --peer-python PYTHON

WEIGHTS is a model directory in Hugging Face's format. PYTHON has torch, transformers, onnx and
onnxscript, and runs `benchmarks/peers/onnx_export.py`. The side `keras` is the file that
`model.export(format="onnx")` of Keras writes for our model. onnxruntime's `quantize_dynamic`, with
its defaults, makes the int8 files of the other sides.

All files run in onnxruntime in one process, in turns. Every other round runs them in reverse order.
A ratio is the median of the rounds' ratios. If other programs use the machine, processor time says
more than the clock.
"""

import argparse
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
OURS = "keras_bert"
PEERS = {"torch": "torchscript", "torch, default": "dynamo"}  # side to torch's exporter
CLOCKS = {"clock": time.perf_counter, "processor": time.process_time}
# The goals: (peer, whether int8) to the largest ratio of our time to the peer's time.
GOALS = {("torch", False): 1.05, ("torch", True): 1.05, ("keras", False): 0.9, ("keras", True): 0.9}


def export_files(weights, python, directory):
    """Writes the float32 file of each side, and returns the files by side."""
    files = {side: directory / f"{side}.onnx" for side in (OURS, "keras", *PEERS)}
    peers = PEERS if python else {}
    program = str(HERE / "peers" / "onnx_export.py")
    for side, exporter in peers.items():
        command = [python, program, weights, str(files[side]), "--exporter", exporter]
        subprocess.run(command, check=True, capture_output=True)
    subprocess.run([sys.executable, __file__, weights, "--write", str(directory)], check=True)
    return {side: file for side, file in files.items() if file.exists()}


def write(weights, directory):
    """Writes our files in float32 and int8, and Keras' file of the same model."""
    import keras

    import keras_bert
    from keras_bert import export
    from keras_bert.export.signatures import input_names

    model = keras_bert.load(weights, task="encoder")
    export.onnx(model, directory / f"{OURS}.onnx")
    export.onnx(model, directory / f"{OURS}-int8.onnx", quantize="dynamic")
    names = input_names(model)
    shapes = {n: keras.InputSpec(shape=(None, None), dtype="int32", name=n) for n in names}
    keras_file = str(directory / "keras.onnx")
    model.export(keras_file, format="onnx", input_signature=[shapes], verbose=False)


def quantize(files):
    """Returns the int8 files by side; onnxruntime makes those that do not exist."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.disable(logging.WARNING)  # it recommends a preparation that is for convolutions
    small = {}
    for side, file in files.items():
        small[side] = file.with_name(f"{side}-int8.onnx")
        if not small[side].exists():
            quantize_dynamic(file, small[side], weight_type=QuantType.QInt8)
    logging.disable(logging.NOTSET)
    return small


def session(file, threads):
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    return InferenceSession(file, options, providers=["CPUExecutionProvider"])


def inputs_of(run, batch, length):
    """Returns random ids without padding, under the names of the file's inputs."""
    generator = np.random.default_rng(0)
    arrays = {}
    for tensor in run.get_inputs():
        kind = "int32" if "int32" in tensor.type else "int64"
        values = generator.integers(5, 1000, (batch, length))
        if "mask" in tensor.name:
            values = np.ones_like(values)
        elif "type" in tensor.name or "segment" in tensor.name:
            values = np.zeros_like(values)
        arrays[tensor.name] = values.astype(kind)
    return arrays


def measure(runs, batch, length, rounds):
    """Returns the seconds of each round: clock to side to list."""
    found = {clock: defaultdict(list) for clock in CLOCKS}
    inputs = {side: inputs_of(run, batch, length) for side, run in runs.items()}
    for number in range(rounds + 2):  # the first two warm up
        for side in runs if number % 2 else reversed(runs):
            starts = {clock: now() for clock, now in CLOCKS.items()}
            runs[side].run(None, inputs[side])
            for clock, now in CLOCKS.items():
                if number > 1:
                    found[clock][side].append(now() - starts[clock])
    return found


def rows(found, batch, kind, files):
    """Yields the lines of the table."""
    for side in files:
        cells = [str(batch), kind, side, f"{files[side].stat().st_size / 1e6:.1f}"]
        for clock in CLOCKS:
            times = found[clock][side]
            ratio = statistics.median(
                ours / theirs for ours, theirs in zip(found[clock][OURS], times, strict=True)
            )
            cells += [f"{1000 * statistics.median(times):.1f}", f"{ratio:.3f}"]
        goal = GOALS.get((side, kind == "int8"))
        yield "| " + " | ".join([*cells, f"{goal:.2f}" if goal else ""]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights")
    parser.add_argument("--peer-python")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--keep", type=Path, help="directory that keeps the files; files found there are used"
    )
    options = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if options.write:
        write(options.weights, options.write)
        return
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.keep or Path(scratch)
        directory.mkdir(exist_ok=True)
        files = {s: directory / f"{s}.onnx" for s in (OURS, "keras", *PEERS)}
        files = {side: file for side, file in files.items() if file.exists()}
        if OURS not in files:
            files = export_files(options.weights, options.peer_python, directory)
        kinds = {"float32": files, "int8": quantize(files)}
        texts = f"{options.length} tokens, {options.threads} thread(s), {options.rounds} rounds"
        print(f"{options.weights}: {texts}\n")
        print(
            "| batch | weights | side | MB | ms | ours / it | ms of processor | ours / it | goal |"
        )
        print("|" + "---|" * 9)
        for kind, sides in kinds.items():
            runs = {side: session(file, options.threads) for side, file in sides.items()}
            for batch in options.batches:
                found = measure(runs, batch, options.length, options.rounds)
                print("\n".join(rows(found, batch, kind, sides)), flush=True)


if __name__ == "__main__":
    main()
