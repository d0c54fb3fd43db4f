"""A SavedModel in a process of its own, which has neither this package nor Keras.

Run as a script with the directory as its argument, it answers requests on standard input until
that is closed. Each message is the number of its bytes and a NumPy archive; a request names the
`signature`, the `seconds` to repeat it for, and the inputs. Nothing but NumPy is imported here at
the top, and nothing of this package at all.
"""

import importlib.metadata
import io
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np


def send(stream: BinaryIO, arrays: dict[str, Any]) -> None:
    """Writes one message; arrays of bytes objects arrive as they are, NULs at the end too."""
    packed = {name: _pack(np.asarray(array)) for name, array in arrays.items()}
    content = io.BytesIO()
    np.savez(content, **packed)  # type: ignore[arg-type]
    stream.write(struct.pack("<q", len(content.getbuffer())) + content.getbuffer())
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, np.ndarray] | None:
    """Reads one message; None if the other side is gone."""
    header = stream.read(8)
    if len(header) < 8:
        return None
    with np.load(io.BytesIO(stream.read(struct.unpack("<q", header)[0]))) as arrays:
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


def repeat(function: Callable[[], Any], seconds: float) -> tuple[Any, float]:
    """Calls a function for some time, at least once.

    Returns:
        The last result and the median of the milliseconds a call took. The first two of five
        calls or more are not counted.
    """
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end or (seconds and len(times) < 5):
        start = time.perf_counter()
        result = function()
        times.append(1000 * (time.perf_counter() - start))
    return result, statistics.median(times[2:] if len(times) >= 5 else times)


def main(directory: str) -> None:
    """Answers requests to the SavedModel."""
    # Whatever TensorFlow prints must not mix with the messages.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for name in ("keras", "keras_bert", "tf_keras"):
        sys.modules[name] = None  # type: ignore[assignment]  # from now on, importing it fails
    import tensorflow as tf

    # `import tensorflow_text` would do, but brings Keras with it.
    for file in importlib.metadata.files("tensorflow-text") or ():
        if file.suffix == ".so" and file.parent.name == "ops":
            tf.load_op_library(str(file.locate()))
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    signatures = tf.saved_model.load(directory).signatures
    while (request := receive(sys.stdin.buffer)) is not None:
        signature, seconds = str(request.pop("signature")), float(request.pop("seconds"))
        try:
            inputs = {name: tf.constant(array) for name, array in request.items()}
            call = signatures[signature]
            result, milliseconds = repeat(
                lambda call=call, inputs=inputs: {k: v.numpy() for k, v in call(**inputs).items()},
                seconds,
            )
            send(output, {**result, "milliseconds": milliseconds})
        except Exception as error:
            send(output, {"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main(sys.argv[1])
