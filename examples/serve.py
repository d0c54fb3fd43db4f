"""Serve a classifier over HTTP from its SavedModel, with nothing of this package at run time.

    python examples/serve.py served/1 --model reviews/model     # export, then serve
    curl -d '{"instances": ["what a film"]}' localhost:8501/v1/models/classifier:predict
    python examples/serving/rest_client.py classifier text="what a film"

The address and the JSON are TensorFlow Serving's, which serves the same directory; this is a
stand-in for trying it out. With --try TEXT it answers once, in this process, and ends.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import tensorflow as tf
import tensorflow_text  # noqa: F401  the operations on text

ADDRESS = "/v1/models/classifier:predict"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", help="of the SavedModel; TensorFlow Serving wants a number")
    parser.add_argument("--model", help="a classifier's directory, to export first")
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
        print(as_json(answer(classify, arguments.texts)))
        return
    server = ThreadingHTTPServer(("localhost", arguments.port), handler(classify))
    print(f"http://localhost:{server.server_port}{ADDRESS}", flush=True)
    server.serve_forever()


def answer(classify, instances: list[str] | list[dict[str, str]]) -> dict:
    texts = [row["text"] if isinstance(row, dict) else row for row in instances]
    outputs = classify(text=tf.constant(texts, tf.string))
    rows = zip(*(value.numpy().tolist() for value in outputs.values()), strict=True)
    return {"predictions": [dict(zip(outputs, row, strict=True)) for row in rows]}


def as_json(value: dict) -> str:
    return json.dumps(value, default=bytes.decode)


def handler(classify) -> type:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, reply = 200, answer(classify, json.loads(body)["instances"])
            except (KeyError, TypeError, ValueError) as error:
                reply = {"error": f"expected {{'instances': [texts]}}: {error!r}"}
                status = 400
            if self.path != ADDRESS:
                status, reply = 404, {"error": f"Only {ADDRESS} is served here."}
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(as_json(reply).encode())

    return Handler


if __name__ == "__main__":
    main()
