"""Runs a TFLite file in LiteRT. `worker.py` loads this module without the package."""

import ctypes
import importlib.metadata
import importlib.util
import mmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_bert.export.worker import Load, Run, Signatures

PACKAGE = "ai-edge-litert"
_TEXT_OPERATORS = (b"TFText>", b"FastBertNormalize")  # beginnings of the operators' names


def prepare(path: str, threads: int) -> "Load":
    """Imports LiteRT, and tensorflow-text's operators if the file uses them.

    A process that also imports tensorflow-text must import it before it calls this function.
    """
    from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

    make, options = Interpreter, {}
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if any(content.find(name) >= 0 for name in _TEXT_OPERATORS):
            make, options = InterpreterWithCustomOps, {"custom_op_registerers": _text_operators()}

    def load() -> "tuple[Signatures, Run]":
        interpreter = make(model_path=path, num_threads=threads, **options)
        names = interpreter.get_signature_list()
        runners = {name: interpreter.get_signature_runner(name) for name in names}
        signatures = {}
        for name, runner in runners.items():
            details = runner.get_input_details()
            shapes = {key: [*map(int, x["shape_signature"])] for key, x in details.items()}
            signatures[name] = {"inputs": shapes, "outputs": [*runner.get_output_details()]}
        return signatures, lambda signature, inputs: runners[signature](**inputs)

    return load


def _text_operators() -> list[Any]:
    """Returns the functions that register tensorflow-text's operators.

    This function loads them from the library file, because `import tensorflow_text` imports Keras.
    """

    def file(package: str, beginning: str) -> str:
        files = importlib.metadata.files(package) or ()
        return str(next(x for x in files if x.name.startswith(beginning)).locate())

    ctypes.CDLL(file("tensorflow", "libtensorflow_framework.so"), ctypes.RTLD_GLOBAL)
    path = file("tensorflow-text", "tflite_registrar.so")
    # Use the package's own module name. If the process also imports the package, another name
    # would load the library twice, and the process would crash at its end.
    name = "tensorflow_text.core.pybinds.tflite_registrar"
    specification = importlib.util.spec_from_file_location(name, path)
    registrar = importlib.util.module_from_spec(specification)  # type: ignore[arg-type]
    specification.loader.exec_module(registrar)  # type: ignore[union-attr]
    return [getattr(registrar, name) for name in dir(registrar) if name.startswith("Add")]
