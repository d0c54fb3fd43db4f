"""Runs a SavedModel in TensorFlow. `worker.py` loads this module without the package."""

import importlib.metadata
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from keras_bert.export.worker import Load, Run, Signatures

PACKAGE = "tensorflow"


def prepare(path: str, threads: int) -> "Load":
    """Imports TensorFlow and tensorflow-text's operators, and hides Keras from this process."""
    for name in ("keras", "keras_bert", "tf_keras"):
        sys.modules[name] = None  # type: ignore[assignment]  # makes an import of the module fail
    import tensorflow as tf

    # Load the operators' libraries directly, because `import tensorflow_text` imports Keras.
    for file in importlib.metadata.files("tensorflow-text") or ():
        if file.suffix == ".so" and file.parent.name == "ops":
            tf.load_op_library(str(file.locate()))
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)

    def load() -> "tuple[Signatures, Run]":
        functions = tf.saved_model.load(path).signatures
        signatures = {}
        for name, function in functions.items():
            inputs = function.structured_input_signature[1]
            shapes = {key: [n or -1 for n in spec.shape.as_list()] for key, spec in inputs.items()}
            signatures[name] = {"inputs": shapes, "outputs": [*function.structured_outputs]}

        def run(signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            tensors = {name: tf.constant(array) for name, array in inputs.items()}
            outputs = functions[signature](**tensors)
            return {name: value.numpy() for name, value in outputs.items()}

        return signatures, run

    return load
