"""The example that serves a classifier, with requests of all kinds."""

import contextlib
import json
import runpy
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from tests.finetuning import tiny

FILE = str(Path(__file__).parents[2] / "examples" / "serve.py")
CONNECTIONS = 1000


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(FILE, run_name="serve")


def lengths(text):
    """Stands in for a model: the output of a text is its number of bytes."""
    return {"length": tf.strings.length(text)}


@contextlib.contextmanager
def serving(example, classify=lengths):
    server = example["Server"](classify, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def port(example):
    with serving(example) as port:
        yield port


def request_of(body, path="/v1/models/classifier:predict", length=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode() + body


def connect(port):
    return socket.create_connection(("localhost", port), timeout=120)


def answer_on(connection):
    """Status and JSON, read to the end of the connection."""
    content = b"".join(iter(lambda: connection.recv(2**16), b""))
    head, _, body = content.partition(b"\r\n\r\n")
    assert b"Content-Type: application/json" in head
    return int(head.split()[1]), json.loads(body)


def ask(port, request):
    with connect(port) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return answer_on(connection)


def is_served(port):
    return ask(port, request_of({"instances": ["abc"]})) == (200, {"predictions": [{"length": 3}]})


def test_a_classifier(example, tmp_path, monkeypatch, capsys):
    kb.save(tiny.classifier(), tmp_path / "model")
    texts = ["the film was good", "", "é" * 1000]
    served = tmp_path / "served" / "1"
    arguments = ["serve", served, "--model", tmp_path / "model", "--try", *texts]
    monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
    runpy.run_path(FILE, run_name="__main__")
    expected = json.loads(capsys.readouterr().out.splitlines()[-1])["predictions"]
    assert [row["label"] for row in expected] == [
        row["label"] for row in kb.load(tmp_path / "model").predict_text(texts)
    ]
    signature = tf.saved_model.load(str(served)).signatures["serving_default"]
    with serving(example, signature) as port:
        rows = [{"text": text} for text in texts]
        status, reply = ask(
            port, request_of({"signature_name": "serving_default", "instances": rows})
        )
        assert (status, list(reply)) == (200, ["predictions"])
        for row, right in zip(reply["predictions"], expected, strict=True):
            assert (row["label"], row["labels"]) == (right["label"], right["labels"])
            np.testing.assert_allclose(row["scores"], right["scores"], atol=1e-5)


BAD = {
    "a text in place of a list": ({"instances": "abc"}, "no list of instances"),
    "nothing": ({"instances": []}, "no list of instances"),
    "another name": ({"instance": ["abc"]}, "no list of instances"),
    "a list": (["abc"], "no list of instances"),
    "a nested list": ({"instances": [["abc"]]}, "Instance 0 is not a text"),
    "a number": ({"instances": ["abc", 5]}, "Instance 1 is not a text"),
    "null": ({"instances": [None]}, "Instance 0 is not a text"),
    "a number as text": ({"instances": [{"text": 5}]}, "Instance 0 is not a text"),
    "another input": ({"instances": [{"text": "a", "b": "c"}]}, "Instance 0 is not a text"),
    "half a pair": (b'{"instances": ["\\ud800"]}', "half of a surrogate pair"),
    "another signature": ({"signature_name": "ids", "instances": ["a"]}, "Only the signature"),
    "too many": ({"instances": ["a"] * 1025}, "There are 1025 instances, but at most 1024"),
    "no JSON": (b"instances=abc", "not JSON"),
    "no UTF-8": (b'{"instances": ["\xff"]}', "not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "empty": (b"", "not JSON"),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD)
def test_a_bad_body_gets_400_and_a_sentence(body, message, port):
    status, reply = ask(port, request_of(body))
    assert (status, list(reply)) == (400, ["error"])
    assert message in reply["error"]
    assert is_served(port)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (request_of({"instances": ["a"]}, path="/"), 404),
        (request_of(b'{"instances": ["' + b"a" * 2**21 + b'"]}'), 413),
        (request_of(b"", length=10**12), 413),
        (request_of(b"", length="abc"), 411),
        (request_of(b"", length=-1), 411),
        (b"POST /v1/models/classifier:predict HTTP/1.1\r\n\r\n", 411),
        (request_of(b"{", length=100), 400),
        (b"GET / HTTP/1.1\r\n\r\n", 501),
    ],
    ids=["path", "huge", "length of a terabyte", "length of letters", "negative length",
         "no length", "cut off", "GET"],
)  # fmt: skip
def test_a_faulty_request_gets_its_code(request_, expected, port):
    status, reply = ask(port, request_)
    assert (status, list(reply)) == (expected, ["error"])
    assert is_served(port)


def test_a_slow_client_is_told_and_does_not_stop_others(example, monkeypatch):
    """However regularly its bytes come."""
    globals_ = example["Handler"].setup.__globals__
    monkeypatch.setitem(globals_, "SECONDS_TO_SEND", 0.5)
    with serving(example) as port, connect(port) as slow:
        slow.sendall(request_of(b"", length=1000))
        deadline = time.monotonic() + 60
        slow.setblocking(False)
        content = b""
        while not content and time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                content = slow.recv(2**16)
            with contextlib.suppress(OSError):
                slow.send(b" ")
            time.sleep(0.02)
        assert b" 408 " in content.partition(b"\r\n")[0]
        assert is_served(port)


def test_clients_that_hang_up_do_no_harm(port, capfd):
    whole, part = request_of({"instances": ["a"]}), request_of(b"", length=100)
    for request in (b"", b"POST", b"no HTTP\r\n\r\n", b"a" * 2**17, part, whole):
        for _ in range(5):
            connection = connect(port)
            connection.sendall(request)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()  # by a reset
    assert is_served(port)
    assert "Traceback" not in capfd.readouterr().err


def test_a_model_that_fails_or_takes_too_long(example, monkeypatch):
    """The answers are 500 and 503, and the server goes on."""
    release = threading.Event()

    def classify(text):
        if text[0] == b"fail":
            raise tf.errors.InternalError(None, None, "Oh.")
        if text[0] == b"wait":
            release.wait(60)
        return lengths(text)

    globals_ = example["Handler"].setup.__globals__
    with serving(example, classify) as port:
        status, reply = ask(port, request_of({"instances": ["fail"]}))
        assert (status, reply) == (500, {"error": "The model failed with InternalError."})
        monkeypatch.setitem(globals_, "SECONDS_TO_ANSWER", 0.2)
        status, reply = ask(port, request_of({"instances": ["wait"]}))
        assert (status, reply) == (503, {"error": "Too busy; try again later."})
        release.set()
        monkeypatch.setitem(globals_, "SECONDS_TO_ANSWER", 60.0)
        assert is_served(port)


def test_a_thousand_connections_at_once_are_all_answered(example):
    """All are open before the first one sends; each gets its own answer."""
    sizes = []

    def classify(text):
        sizes.append(len(text))
        return lengths(text)

    with serving(example, classify) as port, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in range(CONNECTIONS)]
        for length, connection in enumerate(connections):
            connection.sendall(request_of({"instances": ["a" * length, "b"]}))
        answers = [answer_on(connection) for connection in connections]
    for length, answer in enumerate(answers):
        assert answer == (200, {"predictions": [{"length": length}, {"length": 1}]})
    assert sum(sizes) == 2 * CONNECTIONS
    assert max(sizes) <= example["BATCH"]


def test_more_connections_than_threads_wait(example, monkeypatch):
    monkeypatch.setitem(example["Handler"].setup.__globals__, "MAX_CONNECTIONS", 2)
    with serving(example) as port, ThreadPoolExecutor(20) as pool:
        assert all(pool.map(is_served, [port] * 40))
