"""Serve a classifier over HTTP from its SavedModel, with nothing of this package at run time.

    python examples/serve.py served/1 --model reviews/model     # export, then serve
    curl -d '{"instances": ["what a film"]}' localhost:8501/v1/models/classifier:predict

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

    loaded = tf.saved_model.load(arguments.directory)
    classify = loaded.signatures["serving_default"]
    if arguments.texts:
        print(json.dumps(answer(classify, arguments.texts)))
        return
    server = ThreadingHTTPServer(("localhost", arguments.port), handler(classify))
    print(f"http://localhost:{server.server_port}{ADDRESS}", flush=True)
    server.serve_forever()


def answer(classify, texts: list[str]) -> dict:
    outputs = {name: value.numpy() for name, value in classify(text=tf.constant(texts)).items()}
    rows = zip(outputs["label"], outputs["scores"].tolist(), strict=True)
    return {"predictions": [{"label": label.decode(), "scores": row} for label, row in rows]}


def handler(classify) -> type:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, reply = 200, answer(classify, json.loads(body)["instances"])
            except (KeyError, TypeError, ValueError) as error:
                status, reply = 400, {"error": f"expected {{'instances': [texts]}}: {error!r}"}
            self.send_response(status if self.path == ADDRESS else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

    return Handler


if __name__ == "__main__":
    main()
