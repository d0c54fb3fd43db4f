"""Runs an ONNX file in onnxruntime. `worker.py` loads this module without the package."""

import mmap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from keras_bert.export.worker import Load, Run, Signatures

PACKAGE = "onnxruntime"
SIGNATURE = "serving_default"
"""Name that this module gives to the only signature of an ONNX file."""


def prepare(path: str, threads: int) -> "Load":
    """Imports onnxruntime and, if the file needs it, onnxruntime-extensions."""
    import onnxruntime

    library = None
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b"ai.onnx.contrib") >= 0:
            import onnxruntime_extensions

            library = onnxruntime_extensions.get_library_path()

    def load() -> "tuple[Signatures, Run]":
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
            # onnxruntime takes str, but messages hold bytes.
            texts = {
                key: _each(lambda x: x.decode("utf-8", "replace"), inputs[key]) for key in shapes
            }
            results = zip(names, session.run(names, texts), strict=True)
            return {name: _each(str.encode, value) for name, value in results}

        return {SIGNATURE: {"inputs": shapes, "outputs": names}}, run

    return load


def _each(function: Callable[[Any], Any], array: np.ndarray) -> np.ndarray:
    """Applies a function to each string of an array; returns other arrays unchanged."""
    if array.dtype != object:
        return array
    values = np.empty(array.size, object)
    values[:] = [function(value) for value in array.ravel()]
    return values.reshape(array.shape)
