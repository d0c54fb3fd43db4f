"""Measure a classifier's SavedModel: texts beside ids, or many callers at once.

    python benchmarks/serving.py MODEL TEXTS [--batches 1 8 32] [--rounds 9] [--threads 1]
    python benchmarks/serving.py MODEL TEXTS --requests 10000 [--callers 32]

MODEL is a directory of keras_bert. TEXTS is a TSV with a header and texts in its first column.

The first command compares the time of the text signature with the time of the signature that takes
ids. The ids are made from the same texts and padded to the longest text of the batch, as the file
does inside. The signatures run in turns, every other round in reverse order. A ratio is the median
of the rounds' ratios.

With `--requests`, many callers send requests of one to eight texts and the answers are compared.
The requests go through TensorFlow's C API, as in TensorFlow Serving, in a process without Keras.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import keras_bert as kb
from keras_bert import export
from keras_bert.export.signatures import without_padding

C_API = Path(__file__).parent.parent / "tests" / "export" / "c_api.py"
CLOCKS = (time.perf_counter, time.process_time)
BATCHES, TEXTS_OF_A_REQUEST = 40, 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--requests", type=int, help="number of requests; without it, times are measured"
    )
    parser.add_argument("--callers", type=int, default=32)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    model = kb.load(options.model)
    lines = Path(options.texts).read_text("utf-8").splitlines()[1:]
    texts = [line.split("\t")[0] for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, "1")
        export.saved_model(model, directory)
        if options.requests:
            print(json.dumps(ask(model, directory, texts, options)))
            return
        signatures = tf.saved_model.load(str(directory)).signatures
        print("| batch | tokens | text, ms | ids, ms | text / ids: clock | processor |")
        print("|---|---|---|---|---|---|")
        for size in options.batches:
            batches = [texts[start : start + size] for start in range(0, BATCHES * size, size)]
            print(row(model, signatures, [batch for batch in batches if batch], options.rounds))


def row(model, signatures, batches, rounds):
    """Measures both signatures with the same batches; returns a row of the table."""
    ids = [without_padding(model.preprocessor(batch)) for batch in batches]
    sides = {
        "text": (signatures["serving_default"], [{"text": tf.constant(b)} for b in batches]),
        "ids": (signatures["ids"], ids),
    }
    text, same = (function(**inputs[0])["scores"] for function, inputs in sides.values())
    np.testing.assert_allclose(text, same, rtol=0, atol=1e-5)
    runs = []
    for number in range(-1, rounds):  # the first one warms up
        order = reversed(sides) if number % 2 else sides
        runs.append({side: _time(*sides[side]) for side in order})
    runs = runs[1:]
    cells = [len(batches[0]), round(statistics.mean(b["token_ids"].shape[1] for b in ids))]
    for side in sides:
        seconds = statistics.median(run[side][0] for run in runs)
        cells.append(f"{1000 * seconds / len(batches):.2f}")
    for clock in range(len(CLOCKS)):
        ratio = statistics.median(run["text"][clock] / run["ids"][clock] for run in runs)
        cells.append(f"{ratio:.3f}")
    return f"| {' | '.join(map(str, cells))} |"


def _time(function, batches):
    began = [clock() for clock in CLOCKS]
    for inputs in batches:
        function(**inputs)
    return [clock() - start for clock, start in zip(CLOCKS, began, strict=True)]


def in_c(directory, texts, **request):
    """Calls a SavedModel with texts in TensorFlow's C API; returns the reply of `c_api.py`."""
    file = saved_model_pb2.SavedModel()
    file.ParseFromString((directory / "saved_model.pb").read_bytes())
    signature = file.meta_graphs[0].signature_def["serving_default"]
    request |= {
        "directory": str(directory),
        "text": signature.inputs["text"].name,
        "scores": signature.outputs["scores"].name,
        "texts": texts,
    }
    done = subprocess.run(
        [sys.executable, str(C_API)], input=json.dumps(request), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def ask(model, directory, texts, options):
    """Returns the largest difference between the answers and Keras', and the memory in kB."""
    texts, began = texts[:TEXTS_OF_A_REQUEST], time.perf_counter()
    reply = in_c(directory, texts, requests=options.requests, callers=options.callers)
    keras_scores = model.scores(np.asarray(model(model.preprocessor(texts))))
    return {
        "requests": options.requests,
        "callers": options.callers,
        "seconds": round(time.perf_counter() - began, 1),
        "difference of the first answers from Keras": float(
            np.abs(keras_scores - np.array(reply["scores"])).max()
        ),
        "difference of all answers from the first": reply["difference"],
        "memory after a fifth of the requests, at the end": reply["resident"],
    }


if __name__ == "__main__":
    main()
