"""Serve a classifier's SavedModel over HTTP, to try it on your machine.

    python examples/serve.py served/1 --model reviews/model     # export, then serve
    curl -d '{"instances": ["A warm film."]}' localhost:8501/v1/models/classifier:predict
    python examples/serving/rest_client.py classifier text="A warm film."

The address and the JSON are the same as in TensorFlow Serving, which can serve the same directory.
Only this machine can reach the server. The server uses TensorFlow and tensorflow-text, but not
keras_bert. Texts of simultaneous requests are computed in one batch. With --try TEXT, the script
prints the answer and ends.
"""

import argparse
import io
import json
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import tensorflow as tf
import tensorflow_text  # noqa: F401  the operations on text

ADDRESS = "/v1/models/classifier:predict"
EXPECTED = 'expected {"instances": [texts]}, each a string or {"text": a string}'
BATCH = 64  # after this many texts, no more requests join a batch
MAX_INSTANCES = 1024  # texts of a request
MAX_BYTES = 2**20  # size of a request's body
MAX_CONNECTIONS = 1024  # served at once; the same number wait in the system's queue
SECONDS_TO_SEND = 10.0  # time for a client to send its whole request
SECONDS_TO_ANSWER = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", help="SavedModel; name the directory by a number")
    parser.add_argument("--model", help="directory of a classifier to export first")
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--try", dest="texts", nargs="+", metavar="TEXT")
    arguments = parser.parse_args()
    if arguments.model:
        import keras_bert as kb
        from keras_bert import export

        export.saved_model(kb.load(arguments.model), arguments.directory)

    try:
        classify = tf.saved_model.load(arguments.directory).signatures["serving_default"]
    except (OSError, KeyError):
        parser.error(f"{arguments.directory} is no SavedModel of a model that takes texts.")
    if arguments.texts:
        print(as_json({"predictions": predict(classify, arguments.texts)}))
        return
    server = Server(classify, arguments.port)
    print(f"http://localhost:{server.server_port}{ADDRESS}", flush=True)
    server.serve_forever()


def predict(classify: Callable[..., dict], texts: list[str]) -> list[dict]:
    """Returns the outputs of each text."""
    predictions = []
    for start in range(0, len(texts), BATCH):
        outputs = classify(text=tf.constant(texts[start : start + BATCH], tf.string))
        rows = zip(*(value.numpy().tolist() for value in outputs.values()), strict=True)
        predictions += [dict(zip(outputs, row, strict=True)) for row in rows]
    return predictions


def as_json(value: dict) -> str:
    return json.dumps(value, default=bytes.decode)


class RequestError(Exception):
    """An HTTP status other than 200, with a sentence that says why."""

    def __init__(self, status: HTTPStatus, message: str):
        super().__init__(message)
        self.status = status


def read_texts(body: bytes) -> list[str]:
    """Returns the texts of a request, or raises a RequestError."""

    def refuse(message: str) -> RequestError:
        return RequestError(HTTPStatus.BAD_REQUEST, message)

    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise refuse(f"The body is not JSON; {EXPECTED}.") from None
    instances = request.get("instances") if isinstance(request, dict) else None
    if not isinstance(instances, list) or not instances:
        raise refuse(f"The body has no list of instances; {EXPECTED}.")
    if len(instances) > MAX_INSTANCES:
        raise refuse(f"There are {len(instances)} instances, but at most {MAX_INSTANCES} fit.")
    if request.get("signature_name", "serving_default") != "serving_default":
        raise refuse("Only the signature serving_default is served here.")
    texts = []
    for index, row in enumerate(instances):
        text = row["text"] if isinstance(row, dict) and row.keys() == {"text"} else row
        if not isinstance(text, str):
            raise refuse(f"Instance {index} is not a text; {EXPECTED}.")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise refuse(f"Instance {index} holds half of a surrogate pair.") from None
        texts.append(text)
    return texts


class Batcher:
    """Computes the texts of waiting requests in one batch, in a thread of its own."""

    def __init__(self, classify: Callable[..., dict]):
        self._classify = classify
        self._waiting: queue.Queue[tuple[list[str], Future]] = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def predict(self, texts: list[str]) -> list[dict]:
        """Returns the outputs of each text, or raises a TimeoutError."""
        future: Future = Future()
        self._waiting.put((texts, future))
        try:
            return future.result(SECONDS_TO_ANSWER)
        finally:
            future.cancel()  # after a timeout, nobody reads the result

    def _run(self) -> None:
        while True:
            together = [self._waiting.get()]
            while sum(len(texts) for texts, _ in together) < BATCH and not self._waiting.empty():
                together.append(self._waiting.get())
            together = [one for one in together if one[1].set_running_or_notify_cancel()]
            try:
                rows = iter(predict(self._classify, [t for texts, _ in together for t in texts]))
                for texts, future in together:
                    future.set_result([next(rows) for _ in texts])
            except Exception as error:  # TensorFlow's; each request gets it, the thread continues
                for _, future in together:
                    if not future.done():
                        future.set_exception(error)


class UntilDeadline(io.RawIOBase):
    """Reads from a connection until a deadline, even if bytes keep coming slowly."""

    def __init__(self, connection: socket.socket, seconds: float):
        self._connection = connection
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self._connection.settimeout(max(self._deadline - time.monotonic(), 1e-3))
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Answers a request with JSON. The answer to a bad request is one sentence."""

    timeout = SECONDS_TO_SEND  # limit for writing; reads have a deadline

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(UntilDeadline(self.connection, SECONDS_TO_SEND))

    def do_POST(self) -> None:
        try:
            texts = self.read_request()
            status, reply = HTTPStatus.OK, {"predictions": self.server.batcher.predict(texts)}
        except RequestError as error:
            status, reply = error.status, {"error": str(error)}
        except TimeoutError:
            status, reply = HTTPStatus.SERVICE_UNAVAILABLE, {"error": "Too busy; try again later."}
        except Exception as error:  # TensorFlow's
            self.log_error("%r", error)
            message = f"The model failed with {type(error).__name__}."
            status, reply = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": message}
        self.reply(status, reply)

    def read_request(self) -> list[str]:
        length = self.headers["Content-Length"] or ""
        if not (length.isascii() and length.isdecimal()):
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be a number.")
        try:
            if int(length) > MAX_BYTES:
                for _ in range(0, min(int(length), 64 * MAX_BYTES), MAX_BYTES):
                    self.rfile.read(MAX_BYTES)  # otherwise the client would not see the answer
                message = f"The body has {length} bytes, but at most {MAX_BYTES} are read."
                raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
            body = self.rfile.read(int(length))
        except TimeoutError:
            message = f"The request did not come within {SECONDS_TO_SEND:g} seconds."
            raise RequestError(HTTPStatus.REQUEST_TIMEOUT, message) from None
        if len(body) < int(length):
            raise RequestError(HTTPStatus.BAD_REQUEST, "The body is shorter than Content-Length.")
        if self.path != ADDRESS:
            raise RequestError(HTTPStatus.NOT_FOUND, f"Only {ADDRESS} is served here.")
        return read_texts(body)

    def send_error(self, code, message=None, explain=None) -> None:
        """Answers a request that http.server refuses, such as GET or malformed HTTP."""
        self.reply(code, {"error": f"{message or HTTPStatus(code).phrase}."})

    def reply(self, status: int, value: dict) -> None:
        content = as_json(value).encode()
        self.connection.settimeout(self.timeout)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    """Answers each connection in a thread of a pool. If no thread is free, connections wait."""

    request_queue_size = MAX_CONNECTIONS

    def __init__(self, classify: Callable[..., dict], port: int):
        super().__init__(("localhost", port), Handler)
        self.batcher = Batcher(classify)
        self._pool = ThreadPoolExecutor(MAX_CONNECTIONS)

    def process_request(self, request, client_address) -> None:
        self._pool.submit(self.process_request_thread, request, client_address)

    def handle_error(self, request, client_address) -> None:
        if not isinstance(sys.exception(), OSError):  # an OSError: the client has hung up
            super().handle_error(request, client_address)


if __name__ == "__main__":
    main()
