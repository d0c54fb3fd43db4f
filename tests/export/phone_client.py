"""Files in MediaPipe and in the Task Library; run in an environment that has those alone.

`python phone_client.py REQUESTS.json` prints a list of the answers: a request is a kind of client,
a path and a list of inputs.
"""

import ctypes
import json
import sys


def classify(path, texts):
    from mediapipe.tasks.python import text

    with text.TextClassifier.create_from_model_path(path) as client:
        return [
            [{c.category_name: c.score for c in head.categories} for head in result.classifications]
            for result in map(client.classify, texts)
        ]


def embed(path, texts):
    from mediapipe.tasks.python import text

    with text.TextEmbedder.create_from_model_path(path) as client:
        return [
            [part.embedding.tolist() for part in result.embeddings]
            for result in map(client.embed, texts)
        ]


def task_library():
    """Its import needs a library for USB that few machines have; a package brings it."""
    import libusb_package

    ctypes.CDLL(str(libusb_package.get_library_path()), ctypes.RTLD_GLOBAL)
    from tflite_support.task import text

    return text


def classify_by_task_library(path, texts):
    client = task_library().BertNLClassifier.create_from_file(path)
    return [
        [{c.category_name: c.score for c in head.categories} for head in result.classifications]
        for result in map(client.classify, texts)
    ]


def answer(path, pairs):
    client = task_library().BertQuestionAnswerer.create_from_file(path)
    return [
        [
            {"text": a.text, "start": a.pos.start, "end": a.pos.end, "logit": a.pos.logit}
            for a in client.answer(context, question).answers
        ]
        for question, context in pairs
    ]


def describe(path, _):
    """Returns a file's metadata as the Task Library's code reads it."""
    task_library()
    from tflite_support import metadata

    displayer = metadata.MetadataDisplayer.with_model_file(path)
    return [json.loads(displayer.get_metadata_json()), displayer.get_packed_associated_file_list()]


CLIENTS = {
    "classify": classify,
    "embed": embed,
    "classify by task library": classify_by_task_library,
    "answer": answer,
    "describe": describe,
}

if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        requests = json.load(file)
    answers = [CLIENTS[kind](path, inputs) for kind, path, inputs in requests]
    json.dump(answers, sys.stdout)
