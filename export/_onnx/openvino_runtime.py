"""Runs an ONNX file in OpenVINO. `worker.py` loads this module without the package."""

import mmap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from keras_bert.export.worker import Load, Run, Signatures

PACKAGE = "openvino"
SIGNATURE = "serving_default"
"""Name that this module gives to the only signature of an ONNX file."""


def prepare(path: str, threads: int, precision: str) -> "Load":
    """Imports OpenVINO.

    Args:
        path: the ONNX file.
        threads: number of threads.
        precision: "float32" or "bfloat16", the precision of the computations.

    Raises:
        RuntimeError: if the file takes texts, or the processor does not compute in this precision.
    """
    import openvino

    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b"ai.onnx.contrib") >= 0:
            raise RuntimeError("OpenVINO has no operators for texts; export a file that takes ids")
    core = openvino.Core()
    if precision == "bfloat16" and not computes_in_bfloat16(core):
        raise RuntimeError("this processor has no instructions for bfloat16")
    hint = {"float32": "f32", "bfloat16": "bf16"}[precision]

    def load() -> "tuple[Signatures, Run]":
        settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads}
        compiled = core.compile_model(core.read_model(path), "CPU", settings)
        names = [_name(port) for port in compiled.outputs]
        shapes = {
            _name(port): [
                -1 if size.is_dynamic else size.get_length() for size in port.partial_shape
            ]
            for port in compiled.inputs
        }

        def run(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            results = compiled([inputs[name] for name in shapes])
            return {name: np.array(results[index]) for index, name in enumerate(names)}

        return {SIGNATURE: {"inputs": shapes, "outputs": names}}, run

    return load


def _name(port: Any) -> str:
    """Returns the name in the ONNX file. A port also has the names of values that equal its own."""
    return port.get_node().get_friendly_name().removesuffix("/sink_port_0")


def computes_in_bfloat16(core: Any) -> bool:
    """Returns whether the processor has instructions for bfloat16, by an `openvino.Core`."""
    return "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
