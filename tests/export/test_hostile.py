"""Hostile input: every artifact answers what Keras answers, or refuses it in words, and lives on.

One table of texts, one of ids, and one of the artifacts; each artifact gets all that it can take,
in a process of its own, so that a crash would be seen and told, not share the fate of pytest.
"""

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert import export
from keras_bert.export._saved_model.text_signatures import same, text_signature
from keras_bert.export.artifact_checks import ExportError
from keras_bert.export.process import running

from .conftest import make_model

ANSWER, REFUSAL = "Keras' answer", "an error of the runtime"
DEFINED = "numbers of the right shape"
POSITIONS, VOCABULARY = 64, 66  # of the model
GOOD = "The film was good!"
GOOD_TEXT = np.array([GOOD.encode()], object)


def texts(*values):
    """Strings `[N]`, as bytes."""
    return {"text": np.array([*values, None], object)[:-1]}


TEXTS = {
    "empty batch": (ANSWER, texts()),
    "empty string": (ANSWER, texts(b"")),
    "white space": (ANSWER, texts(b" \t\r\n", "\u3000\u00a0\u2028".encode())),
    "invalid UTF-8": (ANSWER, texts(b"\xff\xfe bad \xc3", b"\xc0\x80 good", b"\xf4\x90\x80\x80 x")),
    "surrogates in UTF-8": (ANSWER, texts(b"a \xed\xa0\x80 film")),
    "NUL": (ANSWER, texts(b"\x00", b"bad\x00film", b"good\x00")),
    "1 MB of words": (ANSWER, texts(b"good film " * 100_000)),
    "1 MB in one word": (ANSWER, texts(b"x" * 1_000_000)),
    "1 MB of accents": (ANSWER, texts(b"e" + "\u0301".encode() * 500_000)),
    "1 MB of ideographs": (ANSWER, texts("中".encode() * 333_333)),
    "1 MB of NUL": (ANSWER, texts(b"\x00" * 1_000_000)),
    "1 MB that is no UTF-8": (ANSWER, texts(b"\xff" * 1_000_000)),
    "a matrix of texts": (REFUSAL, {"text": np.array([[b"good", b"bad"]], object)}),
    "a text without a batch": (REFUSAL, {"text": np.array(b"good", object)}),
    "numbers for texts": (REFUSAL, {"text": np.array([1, 2], "int32")}),
    "no input": (REFUSAL, {}),
    "another input": (REFUSAL, {"words": np.array([b"good"], object)}),
}


def ids(shape=(2, 8), **changes):
    """Valid ids, changed; None leaves an input out."""
    inputs = dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), np.ones(shape, "int32"))
    inputs = {name: array.copy() for name, array in inputs.items()}
    inputs["token_ids"] += 4
    return {name: array for name, array in (inputs | changes).items() if array is not None}


def number(name, value):
    """Valid ids but for one."""
    inputs = ids()
    inputs[name][1, 3] = value
    return inputs


def of_type(kind):
    return {name: array.astype(kind) for name, array in ids().items()}


ROW = np.ones((2, 8), "int32")
IDS = {
    "empty batch": (ANSWER, ids((0, 8))),
    "no tokens": (REFUSAL, ids((2, 0))),
    "an id beyond the vocabulary": (REFUSAL, number("token_ids", VOCABULARY)),
    "the largest id": (REFUSAL, number("token_ids", 2**31 - 1)),
    "an id from the end": (ANSWER, number("token_ids", -1)),
    "an id before the beginning": (REFUSAL, number("token_ids", -VOCABULARY - 1)),
    "a segment too many": (ANSWER, number("segment_ids", 2)),
    "a negative segment": (ANSWER, number("segment_ids", -1)),
    "a mask of 2": (ANSWER, number("padding_mask", 2)),
    "a mask of 0": (ANSWER, ids(padding_mask=0 * ROW)),
    "as many tokens as positions": (ANSWER, ids((1, POSITIONS))),
    "one token too many": (REFUSAL, ids((1, POSITIONS + 1))),
    "many tokens too many": (REFUSAL, ids((1, 5000))),
    "a vector": (REFUSAL, ids((8,))),
    "a cube": (REFUSAL, ids((1, 8, 1))),
    "a number": (REFUSAL, ids(())),
    "a mask too short": (REFUSAL, ids(padding_mask=ROW[:, :7])),
    "a text too few": (REFUSAL, ids((3, 8), padding_mask=ROW)),
    "int64": (REFUSAL, of_type("int64")),
    "float32": (REFUSAL, of_type("float32")),
    "strings": (REFUSAL, {k: np.full((2, 8), b"1", object) for k in ids()}),
    "an input less": (REFUSAL, ids(padding_mask=None)),
    "an input more": (REFUSAL, ids(unheard_of=ROW)),
}


class Artifact(NamedTuple):
    """Something exported.

    Args:
        file: its name.
        write: (model, path), which exports it.
        takes: signatures, by what goes in.
        otherwise: cases in which it does otherwise than the table says.
    """

    file: str
    write: Callable
    takes: dict[str, str]
    otherwise: dict[str, str] = {}  # noqa: RUF012


BOTH = {"text": "serving_default", "ids": "ids"}
ARTIFACTS = {
    "SavedModel": Artifact("served", functools.partial(export.saved_model, logits=True), BOTH),
    "TFLite": Artifact("a.tflite", export.tflite, {"ids": "serving_default"}),
    "TFLite of texts": Artifact(
        "text.tflite",
        lambda model, path: export.tflite(model, path, text=True),
        {"text": "serving_default"},
    ),
    "TFLite of one shape": Artifact(
        "b.tflite",
        lambda model, path: export.tflite(model, path, batch_size=2, sequence_length=8),
        {"ids": "serving_default"},
        dict.fromkeys(("empty batch", "as many tokens as positions"), REFUSAL),
    ),
    "ONNX": Artifact(
        "a.onnx",
        export.onnx,
        {"ids": "serving_default"},
        {
            "a negative segment": DEFINED,  # OneHot counts from the end, where Keras has no row
            "an input more": ANSWER,  # the process gives the file what it knows
        },
    ),
    "ONNX of texts": Artifact(
        "text.onnx",
        lambda model, path: export.onnx(model, path, text=True),
        {"text": "serving_default"},
    ),
}
CASES = {"text": TEXTS, "ids": IDS}


def keras_answers(model, inputs):
    """Logits of Keras."""
    if "text" in inputs:
        inputs = model.preprocessor(inputs["text"].tolist())
    return np.asarray(model({name: inputs[name] for name in ids()}))


def verdict(answer, expected, wanted):
    """Returns what is wrong with an answer or a refusal, or None."""
    if isinstance(answer, str):
        is_fine = wanted == REFUSAL and answer and not answer.startswith("CRASH")
        return None if is_fine else f"refused: {answer}"
    if wanted == REFUSAL:
        return f"answered: {answer}"
    if answer.shape != expected.shape:
        return f"answered in the shape {answer.shape}, not {expected.shape}"
    if not np.isfinite(answer).all():
        return f"answered: {answer}"
    if wanted == DEFINED:
        return None
    difference = np.abs(answer - expected).max(initial=0)
    return None if difference <= 1e-5 else f"differs by {difference}"


def ask(process, signature, inputs):
    """Its outputs, or what it says instead."""
    try:
        return process.run(signature, inputs)
    except ExportError as error:
        # Without a reply, the process is dead.
        return str(error) if " failed: " in str(error) else f"CRASH: {error}"


@pytest.mark.parametrize("name", ARTIFACTS)
def test_artifacts(name, classifier, tmp_path):
    artifact = ARTIFACTS[name]
    path = tmp_path / artifact.file
    artifact.write(classifier, path)
    wrong = {}
    for kind, signature in artifact.takes.items():
        good = texts(GOOD.encode()) if kind == "text" else ids()
        expected_of_good = keras_answers(classifier, good)
        with running(path) as process:
            for case, (wanted, inputs) in CASES[kind].items():
                wanted, expected = artifact.otherwise.get(case, wanted), None
                found = ask(process, signature, inputs)
                answer = found if isinstance(found, str) else found["logits"]
                if wanted != REFUSAL:
                    # An ONNX file of texts tells what its own tokenizer has read.
                    is_told = "token_ids" in found and kind == "text"
                    read = of_read(found["token_ids"]) if is_told else inputs
                    expected = keras_answers(classifier, read)
                mistake = verdict(answer, expected, wanted)
                if mistake is not None:
                    wrong[kind, case] = mistake[:300]
                after = ask(process, signature, good)
                if (
                    isinstance(after, str)
                    or np.abs(after["logits"] - expected_of_good).max() > 1e-5
                ):
                    wrong[kind, case, "and then"] = after
                    break
    assert wrong == {}


def of_read(token_ids):
    """Inputs of the tokens that a file has read."""
    segments = np.zeros_like(token_ids)
    return {
        "token_ids": token_ids,
        "segment_ids": segments,
        "padding_mask": (token_ids != 0).astype("int32"),
    }


@pytest.mark.sweep
@pytest.mark.parametrize("task", ["token_classifier", "span_classifier", "masked_lm"])
def test_signatures_of_other_tasks(task, preprocessor, tmp_path):
    """They give what `predict_text` gives, and refuse what is not a batch of texts."""
    model = make_model(task, preprocessor=preprocessor)
    export.saved_model(model, tmp_path / "served")
    own = text_signature(model)
    with running(tmp_path / "served") as process:
        for case, (wanted, inputs) in TEXTS.items():
            if not inputs.keys() <= {"text"}:
                continue
            column = inputs.get("text", GOOD_TEXT)
            if wanted == ANSWER and task == "masked_lm":  # Keras fills no text without a mask
                column = texts(*(b"[MASK] " + text for text in column))["text"]
            columns = [column] * len(own.inputs)
            fed = dict(zip(own.inputs, columns, strict=True)) if inputs else {}
            found = ask(process, own.name, fed)
            assert not str(found).startswith("CRASH"), case
            if wanted == REFUSAL:
                assert isinstance(found, str), case
            elif case not in ("invalid UTF-8", "surrogates in UTF-8", "1 MB that is no UTF-8"):
                # Keras answers from Python's strings, which have no such bytes.
                strings = [[text.decode() for text in column.tolist()] for column in columns]
                assert same(own.predict(model, strings, 5), own.read(found), 1e-5), case


def test_the_loader_of_tensorflow_serving(classifier, tmp_path):
    export.saved_model(classifier, tmp_path / "served", logits=True)
    file = saved_model_pb2.SavedModel()
    file.ParseFromString((tmp_path / "served" / "saved_model.pb").read_bytes())
    described = file.meta_graphs[0].signature_def
    names, cases = [], []
    for kind, signature in ((kind, described[name]) for kind, name in BOTH.items()):
        for name, (wanted, inputs) in CASES[kind].items():
            if inputs.keys() <= signature.inputs.keys():
                fed = [_tensor(signature.inputs[key].name, x) for key, x in inputs.items()]
                names.append((kind, name, wanted))
                cases.append({"inputs": fed, "scores": signature.outputs["logits"].name})
    signature = described["serving_default"]
    request = {
        "directory": str(tmp_path / "served"),
        "text": signature.inputs["text"].name,
        "scores": signature.outputs["logits"].name,
        "texts": [GOOD],
        "cases": [
            *cases,
            {**cases[0], "inputs": [_tensor(signature.inputs["text"].name, GOOD_TEXT)]},
        ],
    }
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("c_api.py")],
        input=json.dumps(request),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *answers, last = json.loads(done.stdout)["answers"]
    wrong = {}
    for (kind, name, wanted), answer in zip(names, answers, strict=True):
        expected = keras_answers(classifier, CASES[kind][name][1]) if wanted == ANSWER else None
        found = answer.get("error", np.reshape(answer.get("scores", []), (-1, 3)))
        mistake = verdict(found, expected, wanted)
        if mistake is not None:
            wrong[kind, name] = mistake[:300]
    assert wrong == {}
    expected = keras_answers(classifier, {"text": GOOD_TEXT})
    np.testing.assert_allclose(last["scores"], expected, rtol=0, atol=1e-5)


def _tensor(name, array):
    """As `c_api.py` takes it."""
    values = array.ravel().tolist()
    if array.dtype != object:
        return [name, array.dtype.name, array.shape, values]
    decoded = [value.decode("utf-8", "surrogateescape") for value in values]
    return [name, "string", array.shape, decoded]
