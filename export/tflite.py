"""TFLite: ids in, answers out, for phones and everything else that runs LiteRT."""

import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.atomic import replacing
from keras_bert.config import closest
from keras_bert.errors import InputError
from keras_bert.export.check import FLOAT32_TOLERANCE, Arrays, Run, check, explaining, require
from keras_bert.export.signatures import Weights, answers_of, ids_function

# The type that weights are stored in, and the difference allowed. For the small types that is
# only a guard against nonsense: what they cost, `verify` finds on real texts.
QUANTIZATIONS: dict[str, tuple[tf.DType | None, float]] = {
    "none": (None, FLOAT32_TOLERANCE),
    "float16": (tf.float16, 0.02),
    "dynamic": (tf.int8, 0.25),
}


def tflite(
    model: keras.Model,
    path: str | os.PathLike,
    quantize: str | None = "none",
    sequence_length: int | None = None,
) -> None:
    """Writes a TFLite file with the signature `serving_default`.

    Inputs: `token_ids`, `segment_ids`, `padding_mask` int32; outputs as those of the SavedModel's
    `ids`, float32. Only TFLite's built-in operators are used.

    Args:
        model: an `Encoder` or a task.
        path: the file, replaced if it exists.
        quantize: "none"; "float16" (weights in half precision); "dynamic" (weights in int8,
            activations quantized while it runs).
        sequence_length: None lets inputs be of any shape `[N, T]`; a number L fixes them to
            `[1, L]`, for delegates that want static shapes.

    Raises:
        InputError: if an argument is not possible, or `ai-edge-litert` is not installed.
        ExportError: if what was written does not give the model's answers.
    """
    answers_of(model)
    require("ai_edge_litert.interpreter", "tflite")
    quantize = quantize or "none"
    if quantize not in QUANTIZATIONS:
        raise InputError(
            f"There is no quantization {quantize!r}.{closest(quantize, QUANTIZATIONS)} "
            f"Choose one of {', '.join(QUANTIZATIONS)}."
        )
    _check_length(sequence_length, model.config.max_positions)
    shape = None if sequence_length is None else (1, sequence_length)
    stored, tolerance = QUANTIZATIONS[quantize]
    with replacing(path) as scratch:
        with explaining("Converting to TFLite"):
            scratch.write_bytes(_convert(model, stored, shape))
        with explaining("Loading the TFLite file"):
            run = tflite_runner(scratch)
        check(model, "TFLite file", run, tolerance, shape)


def _convert(model: keras.Model, stored: tf.DType | None, shape: tuple[int, int] | None) -> bytes:
    function = ids_function(model, *(shape or (None, None)))
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function()], Weights(model)
    )
    if stored is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if stored == tf.float16:
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def tflite_runner(path: str | os.PathLike) -> Run:
    """A TFLite file as a function, on one thread; one text at a time if it takes no more."""
    signature = _signature(path)
    if fixed_length(path) is None:
        return lambda inputs: signature(**inputs)

    def run(inputs: Arrays) -> Arrays:
        rows = [
            signature(**{name: array[i : i + 1] for name, array in inputs.items()})
            for i in range(len(inputs["token_ids"]))
        ]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    return run


def fixed_length(path: str | os.PathLike) -> int | None:
    """The only length T that a TFLite file takes, or None if it takes any."""
    length = int(_signature(path).get_input_details()["token_ids"]["shape_signature"][1])
    return length if length > 0 else None


def _signature(path: str | os.PathLike) -> Any:
    litert = require("ai_edge_litert.interpreter", "tflite")
    interpreter = litert.Interpreter(model_path=str(path), num_threads=1)
    return interpreter.get_signature_runner("serving_default")


def _check_length(length: int | None, longest: int) -> None:
    if length is not None and not 1 <= length <= longest:
        raise InputError(
            f"sequence_length is {length}, but this model takes 1 to {longest} tokens."
        )
