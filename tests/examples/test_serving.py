"""The clients of TensorFlow Serving, against stand-ins that load the same SavedModel."""

import json
import re
import runpy
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import tensorflow as tf
import yaml

import keras_bert as kb
from keras_bert import export
from tests.export.conftest import TOKENS, make_model

SERVING = Path(__file__).parent.parent.parent / "examples" / "serving"
TEXTS = ["the film was good", "", "bad film, the a b c d e f!"]


@pytest.fixture(scope="module")
def tagger():
    preprocessor = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(TOKENS)), sequence_length=16)
    return make_model("token_classifier", {"labels": ["O", "B-A", "I-A", "B-B"]}, preprocessor)


@pytest.fixture(scope="module")
def signatures(tagger, tmp_path_factory):
    base = tmp_path_factory.mktemp("served") / "tagger"
    export.saved_model(tagger, base, version=1)
    return tf.saved_model.load(str(base / "1")).signatures


def predict(signatures, body):
    """The row format of the server's REST API: rows in, rows out."""
    signature = signatures[body["signature_name"]]
    names = set(signature.structured_input_signature[1])
    rows = body["instances"]
    assert set(body) == {"signature_name", "instances"}
    assert all(set(row) == names for row in rows)
    columns = {name: tf.constant([row[name] for row in rows]) for name in names}
    outputs = signature(**columns)
    assert {len(value) for value in outputs.values()} == {len(rows)}
    plain = {name: as_json(value.numpy().tolist()) for name, value in outputs.items()}
    return {"predictions": [{n: v[index] for n, v in plain.items()} for index in range(len(rows))]}


def as_json(value):
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture
def rest_address(signatures):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                assert self.path == "/v1/models/tagger:predict"
                status, reply = 200, predict(signatures, json.loads(body))
            except (AssertionError, KeyError) as error:
                status, reply = 400, {"error": repr(error)}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def entities_of(row):
    names = ("labels", "starts", "ends", "entities")
    return list(zip(*(row[name] for name in names), strict=True))


def expected_entities(tagger):
    return [
        [(e["label"], e["start"], e["end"], e["text"]) for e in found["entities"]]
        for found in tagger.predict_text(TEXTS)
    ]


def run(monkeypatch, capsys, client, *arguments):
    monkeypatch.setattr(sys, "argv", [client, *arguments])
    monkeypatch.syspath_prepend(str(SERVING))  # as Python does for a script
    runpy.run_path(str(SERVING / f"{client}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_rest_client(rest_address, tagger, monkeypatch, capsys):
    texts = [f"text={text}" for text in TEXTS]
    options = ("--address", rest_address)
    rows = list(
        map(json.loads, run(monkeypatch, capsys, "rest_client", *options, "tagger", *texts))
    )
    assert [entities_of(row) for row in rows] == expected_entities(tagger)
    assert any(map(entities_of, rows))
    with pytest.raises(SystemExit, match="The server answered 400: .*nowhere"):
        run(monkeypatch, capsys, "rest_client", *options, "nowhere", *texts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["what a film"], "'what a film' names no input"),
        (["question=a", "question=b", "context=c"], "but there are: question 2, context 1"),
    ],
)
def test_what_is_wrong_is_told(monkeypatch, capsys, arguments, message):
    with pytest.raises(SystemExit):
        run(monkeypatch, capsys, "rest_client", "tagger", *arguments)
    assert message in capsys.readouterr().err


def test_no_server(monkeypatch, capsys):
    options = ("--address", "http://localhost:1")
    with pytest.raises(SystemExit, match="No server answers at http://localhost:1: "):
        run(monkeypatch, capsys, "rest_client", *options, "tagger", "text=a")


def test_what_fills_rows_up_is_removed(monkeypatch):
    monkeypatch.syspath_prepend(str(SERVING))
    client = runpy.run_path(str(SERVING / "rest_client.py"))
    without_filling = client["without_filling"]
    masks = {"tokens": [["a", "b"], ["", ""]], "scores": [[0.5, 0.2], [-1.0, -1.0]]}
    assert without_filling(masks) == {"tokens": [["a", "b"]], "scores": [[0.5, 0.2]]}
    regression = {"logits": [-2.0], "scores": [-2.0]}
    assert without_filling(regression) == regression


def test_grpc_client(signatures, tagger, monkeypatch, capsys):
    grpc = pytest.importorskip("grpc")
    predict_pb2 = pytest.importorskip("tensorflow_serving.apis.predict_pb2")
    from tensorflow_serving.apis import prediction_service_pb2_grpc as service

    class Servicer(service.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802
            assert request.model_spec.name == "tagger"
            signature = signatures[request.model_spec.signature_name]
            inputs = {n: tf.constant(tf.make_ndarray(v)) for n, v in request.inputs.items()}
            response = predict_pb2.PredictResponse()
            for name, value in signature(**inputs).items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
            return response

    server = grpc.server(ThreadPoolExecutor(1))
    service.add_PredictionServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        client = runpy.run_path(str(SERVING / "grpc_client.py"))
        columns = {"text": TEXTS}
        outputs = client["ask"](f"localhost:{port}", "tagger", "serving_default", columns)
        arguments = ("--address", f"localhost:{port}", "tagger", *[f"text={t}" for t in TEXTS])
        printed = run(monkeypatch, capsys, "grpc_client", *arguments)
    finally:
        server.stop(None)
    assert sorted(line.split()[0] for line in printed) == sorted(outputs)
    found = [
        [(*map(as_json, entity),) for entity in entities_of(row) if entity[0]]
        for row in (
            {name: values[index].tolist() for name, values in outputs.items()}
            for index in range(len(TEXTS))
        )
    ]
    assert found == expected_entities(tagger)


def test_files_for_the_server():
    compose = yaml.safe_load((SERVING / "docker-compose.yml").read_text("utf-8"))
    (service,) = compose["services"].values()
    assert service["image"].startswith("tensorflow/serving:")
    options = dict(option.removeprefix("--").split("=") for option in service["command"])
    mounted = dict(volume.split(":")[:2] for volume in service["volumes"])
    places = {place: source for source, place in mounted.items()}
    source = SERVING / places[options["batching_parameters_file"]]
    values = dict(re.findall(r"^(\w+) \{ value: (\d+) \}$", source.read_text("utf-8"), re.M))
    assert set(values) == {
        "max_batch_size",
        "batch_timeout_micros",
        "max_enqueued_batches",
        "num_batch_threads",
    }
