"""Requests that TensorFlow Serving replays when it loads a model, so that no user waits for it.

The file is a TFRecord of `PredictionLog` messages. All that is needed of them are fields whose
content is bytes, so they are written here, field by field, without the server's package; the
numbers are those of `prediction_log.proto`, `predict.proto` and `model.proto` in
https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow as tf

FILE = "assets.extra/tf_serving_warmup_requests"

_PREDICT_LOG, _REQUEST = 6, 1  # PredictionLog.predict_log, PredictLog.request
_MODEL_SPEC, _INPUTS = 1, 2  # PredictRequest
_NAME, _SIGNATURE_NAME = 1, 3  # ModelSpec
_KEY, _VALUE = 1, 2  # an entry of a map


def write_warm_up(
    path: Path, model: str, requests: Sequence[tuple[str, Mapping[str, Sequence[str]]]]
) -> None:
    """Writes the requests.

    Args:
        path: of the file.
        model: the name under which it is served.
        requests: for each the signature's name, and N texts for each of its inputs.
    """
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            writer.write(_prediction_log(model, signature, inputs))


def _prediction_log(model: str, signature: str, inputs: Mapping[str, Sequence[str]]) -> bytes:
    specification = _field(_NAME, model.encode()) + _field(_SIGNATURE_NAME, signature.encode())
    request = _field(_MODEL_SPEC, specification)
    for name, texts in inputs.items():
        tensor = tf.make_tensor_proto(list(texts), tf.string).SerializeToString()
        request += _field(_INPUTS, _field(_KEY, name.encode()) + _field(_VALUE, tensor))
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes: number and type, length, content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits to a byte, the lowest first; all but the last have the eighth set."""
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])
