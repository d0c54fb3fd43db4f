"""An artifact in its runtime, in a process of its own, which has neither this package nor Keras.

Run as a script with a path and a number of threads as its arguments, it loads the artifact, says
what that takes, and answers requests on standard input until that is closed. Each message is the
number of its bytes and a NumPy archive; a request names the `signature`, the `seconds` to repeat
it for, and the inputs. It is answered by the outputs or, if it was repeated, by times alone.
Nothing but NumPy is imported here at the top, and nothing of this package at all.
"""

import functools
import importlib.metadata
import io
import json
import mmap
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
"""By name their `inputs`, names to shapes in which -1 is free, and the names of their `outputs`."""

Load = Callable[[], tuple[Signatures, Run]]
"""An artifact's signatures, and itself as a function of a signature's name and inputs."""


def send(stream: BinaryIO, arrays: dict[str, Any]) -> None:
    """Writes one message; arrays of bytes objects arrive as they are, NULs at the end too."""
    packed = {name: _pack(np.asarray(array)) for name, array in arrays.items()}
    content = io.BytesIO()
    np.savez(content, **packed)  # type: ignore[arg-type]
    stream.write(struct.pack("<q", len(content.getbuffer())) + content.getbuffer())
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, np.ndarray] | None:
    """Reads one message; None if the other side is gone, be it in the middle of one."""
    header = stream.read(8)
    size = struct.unpack("<q", header)[0] if len(header) == 8 else 0
    content = stream.read(size)
    if not size or len(content) < size:
        return None
    with np.load(io.BytesIO(content)) as arrays:
        return {name: _unpack(arrays[name]) for name in arrays}


def _pack(array: np.ndarray) -> np.ndarray:
    """Bytes get a last byte that NumPy does not strip."""
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
    """The milliseconds of each call of a function that is called for some time.

    It is called three times at least; the first two of five calls or more are not counted, and
    the first of fewer is not.
    """
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(1000 * (time.perf_counter() - start))
    return times[2 if len(times) >= 5 else 1 :]


def spread(times: list[float]) -> float:
    """Half the distance of the quartiles as a share of the median."""
    low, _, high = statistics.quantiles(times, method="inclusive")
    return (high - low) / 2 / statistics.median(times)


# Each runtime is imported, then loads; the names of its packages say what it is called.


def _saved_model(path: str, threads: int) -> Load:
    for name in ("keras", "keras_bert", "tf_keras"):
        sys.modules[name] = None  # type: ignore[assignment]  # from now on, importing it fails
    import tensorflow as tf

    # `import tensorflow_text` would do, but brings Keras with it.
    for file in importlib.metadata.files("tensorflow-text") or ():
        if file.suffix == ".so" and file.parent.name == "ops":
            tf.load_op_library(str(file.locate()))
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)

    def load() -> tuple[Signatures, Run]:
        functions = tf.saved_model.load(path).signatures
        described = {}
        for name, function in functions.items():
            inputs = function.structured_input_signature[1]
            shapes = {key: [n or -1 for n in spec.shape.as_list()] for key, spec in inputs.items()}
            described[name] = {"inputs": shapes, "outputs": [*function.structured_outputs]}

        def run(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            tensors = {name: tf.constant(array) for name, array in inputs.items()}
            outputs = functions[signature](**tensors)
            return {name: value.numpy() for name, value in outputs.items()}

        return described, run

    return load


def _tflite(path: str, threads: int) -> Load:
    from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

    make, options = Interpreter, {}
    if any(_mentions(path, name) for name in (b"TFText>", b"FastBertNormalize")):
        make, options = InterpreterWithCustomOps, {"custom_op_registerers": _text_operators()}

    def load() -> tuple[Signatures, Run]:
        interpreter = make(model_path=path, num_threads=threads, **options)
        names = interpreter.get_signature_list()
        runners = {name: interpreter.get_signature_runner(name) for name in names}
        described = {}
        for name, runner in runners.items():
            details = runner.get_input_details()
            shapes = {key: [*map(int, x["shape_signature"])] for key, x in details.items()}
            described[name] = {"inputs": shapes, "outputs": [*runner.get_output_details()]}
        return described, lambda signature, inputs: runners[signature](**inputs)

    return load


def _text_operators() -> list[Any]:
    """What registers tensorflow-text's operators; the package itself would bring Keras with it."""
    import ctypes
    import importlib.util

    def file(package: str, beginning: str) -> str:
        files = importlib.metadata.files(package) or ()
        return str(next(x for x in files if x.name.startswith(beginning)).locate())

    ctypes.CDLL(file("tensorflow", "libtensorflow_framework.so"), ctypes.RTLD_GLOBAL)
    path = file("tensorflow-text", "tflite_registrar.so")
    # Where the package is imported, too, a library of another name would be a second one, and the
    # process would crash at its end.
    name = "tensorflow_text.core.pybinds.tflite_registrar"
    specification = importlib.util.spec_from_file_location(name, path)
    registrar = importlib.util.module_from_spec(specification)  # type: ignore[arg-type]
    specification.loader.exec_module(registrar)  # type: ignore[union-attr]
    return [getattr(registrar, name) for name in dir(registrar) if name.startswith("Add")]


def _onnx(path: str, threads: int) -> Load:
    import onnxruntime

    library = None
    if _mentions(path, b"ai.onnx.contrib"):
        import onnxruntime_extensions

        library = onnxruntime_extensions.get_library_path()

    def load() -> tuple[Signatures, Run]:
        options = onnxruntime.SessionOptions()
        if library is not None:
            options.register_custom_ops_library(library)
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4  # errors are raised, not printed
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        shapes = {
            key.name: [size if isinstance(size, int) else -1 for size in key.shape]
            for key in session.get_inputs()
        }

        def run(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            # onnxruntime has strings where messages have bytes.
            texts = {
                key: _each(lambda x: x.decode("utf-8", "replace"), inputs[key]) for key in shapes
            }
            results = zip(names, session.run(names, texts), strict=True)
            return {name: _each(str.encode, value) for name, value in results}

        return {"serving_default": {"inputs": shapes, "outputs": names}}, run

    return load


def _each(function: Callable[[Any], Any], array: np.ndarray) -> np.ndarray:
    """A function of every string of an array; other arrays as they are."""
    if array.dtype != object:
        return array
    values = np.empty(array.size, object)
    values[:] = [function(value) for value in array.ravel()]
    return values.reshape(array.shape)


def _mentions(path: str, name: bytes) -> bool:
    """Whether a file has the name of an operator, or of a kind of them, in it."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(name) >= 0


RUNTIMES: dict[str, tuple[str, Callable[[str, int], Load]]] = {
    "": ("tensorflow", _saved_model),
    ".tflite": ("ai-edge-litert", _tflite),
    ".onnx": ("onnxruntime", _onnx),
}
"""Ending of an artifact's name to its runtime's package and what imports it.

That of SavedModels hides Keras from its process; the others may run in any.
"""


def loaded(path: str | os.PathLike, ending: str) -> tuple[Signatures, Run]:
    """An artifact in this process, on one thread, whatever its name ends in.

    Where it takes texts, tensorflow-text has to be imported before, or not at all.
    """
    return RUNTIMES[ending][1](os.fspath(path), 1)()


def in_parts(run: Run, signatures: Signatures) -> Run:
    """An artifact that takes any number of texts, whether its own is fixed or not.

    Where it is, they are given to it so many at a time; the last text fills up the last part.
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
    """Bytes this process has had at once, since it began or since `forget_peak`."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):  # not Linux
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak() -> None:
    """What the process has now is its peak from here on, where the system allows to say so."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def main(path: str, threads: str) -> None:
    """Answers requests to an artifact."""
    # Whatever a runtime prints must not mix with the messages.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    package, runtime = RUNTIMES["" if Path(path).is_dir() else Path(path).suffix]
    load = runtime(path, int(threads))
    forget_peak()
    imported, start = peak_memory(), time.perf_counter()
    signatures, run = load()
    milliseconds = 1000 * (time.perf_counter() - start)
    run = in_parts(run, signatures)
    hello = {
        "runtime": f"{package} {importlib.metadata.version(package)}",
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
