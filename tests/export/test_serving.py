"""Files beside the graph for TensorFlow Serving: versions, names, requests to warm up with."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from keras_bert import InputError, export

from .conftest import make_model

WARM_UP = "assets.extra/tf_serving_warmup_requests"


@pytest.fixture(scope="module")
def served(preprocessor, tmp_path_factory):
    """A model that answers questions, as version 7 with the names of Hugging Face."""
    model = make_model("span_classifier", {}, preprocessor)
    base = tmp_path_factory.mktemp("served") / "squad"
    export.saved_model(model, base, version=7, names="huggingface")
    return model, base


def fields(message):
    """The fields of a message of the wire format, all of which hold bytes: number, content."""
    found, place = [], 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place, value, shift = place + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        assert key & 7 == 2
        size = varint()
        found.append((key >> 3, message[place : place + size]))
        place += size
    return found


def requests_of(directory):
    """Model, signature and inputs of each request, by the numbers of the published protos."""
    for record in tf.data.TFRecordDataset(str(directory / WARM_UP)):
        ((number, log),) = fields(record.numpy())
        assert number == 6  # predict_log
        ((number, request),) = fields(log)
        assert number == 1
        parts = fields(request)
        (specification,) = (dict(fields(part)) for number, part in parts if number == 1)
        inputs = {}
        for entry in (dict(fields(part)) for number, part in parts if number == 2):
            proto = tensor_pb2.TensorProto.FromString(entry[2])
            inputs[entry[1].decode()] = tf.make_ndarray(proto)
        yield specification[1].decode(), specification[3].decode(), inputs


def test_version_and_names(served):
    model, base = served
    assert [path.name for path in base.iterdir()] == ["7"]
    ids = tf.saved_model.load(str(base / "7")).signatures["ids"]
    assert set(ids.structured_input_signature[1]) == {
        "input_ids",
        "token_type_ids",
        "attention_mask",
    }
    report = export.verify(model, [base / "7"], ["the film", ""], seconds=0)
    assert [row.takes for row in report.rows] == ["text", "ids"]
    assert max(row.difference for row in report.rows) <= 1e-5
    description = json.loads((base / "7" / "assets.extra" / "keras_bert.json").read_text("utf-8"))
    assert description["input_names"]["padding_mask"] == "attention_mask"


def test_warm_up_is_replayed(served):
    _, base = served
    signatures = tf.saved_model.load(str(base / "7")).signatures
    replayed = {}
    for model, signature, inputs in requests_of(base / "7"):
        assert model == "squad"
        arguments = {name: tf.constant(value) for name, value in inputs.items()}
        replayed[signature] = signatures[signature](**arguments)
    assert set(replayed) == set(signatures) - {"ids"}
    assert np.isfinite(replayed["question_answer"]["score"]).all()
    assert len(replayed["serving_default"]["start_logits"]) == 2


def test_the_servers_own_protos_read_it(served):
    prediction_log = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    _, base = served
    records = tf.data.TFRecordDataset(str(base / "7" / WARM_UP))
    logs = [prediction_log.PredictionLog.FromString(record.numpy()) for record in records]
    for log, (model, signature, inputs) in zip(logs, requests_of(base / "7"), strict=True):
        request = log.predict_log.request
        assert (request.model_spec.name, request.model_spec.signature_name) == (model, signature)
        for name, value in inputs.items():
            np.testing.assert_array_equal(tf.make_ndarray(request.inputs[name]), value)
        assert len(request.inputs) == len(inputs)


def test_wrong_arguments_are_told(classifier, tmp_path):
    with pytest.raises(
        InputError, match="names is 'hf', but must be one of keras_bert, huggingface"
    ):
        export.saved_model(classifier, tmp_path / "a", names="hf")
    with pytest.raises(InputError, match="version is -1, but must be 0 or more"):
        export.saved_model(classifier, tmp_path / "a", version=-1)
    assert not list(tmp_path.iterdir())
