"""The report: every artifact in its own runtime."""

import io
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from keras_bert import InputError, export
from keras_bert.export import worker
from keras_bert.export._verify.signatures import signatures_for
from keras_bert.export.artifact_checks import ExportError
from keras_bert.export.formats import SAVED_MODEL
from keras_bert.export.process import running

from .conftest import HARD_TEXTS, make_model, random_ids, scramble


@pytest.fixture(scope="module")
def artifacts(classifier, tmp_path_factory):
    directory = tmp_path_factory.mktemp("artifacts")
    export.saved_model(classifier, directory / "served")
    export.tflite(classifier, directory / "a.tflite")
    export.tflite(classifier, directory / "short.tflite", sequence_length=16)
    export.onnx(classifier, directory / "a.onnx")
    return [directory / name for name in ("served", "a.tflite", "short.tflite", "a.onnx")]


def test_report_on_texts(classifier, artifacts):
    report = export.verify(classifier, artifacts, HARD_TEXTS, seconds=0)
    assert [row.takes for row in report.rows] == ["text", "ids", "ids", "ids", "ids"]
    assert report.texts == len(HARD_TEXTS)
    for row in report.rows:
        assert row.difference <= 1e-5
        assert row.agreement == 100
        assert set(row.milliseconds) == {1, 8}
        assert all(value > 0 for value in row.milliseconds.values())
    assert report.rows[3].megabytes == pytest.approx(artifacts[2].stat().st_size / 1e6)
    lines = str(report).splitlines()
    assert len(lines) == 2 + len(report.rows) + 1
    assert "100.00 %" in lines[2]
    assert f"{len(HARD_TEXTS)} texts" in lines[-1]


def test_report_on_pairs(classifier, artifacts):
    pairs = (HARD_TEXTS, HARD_TEXTS[::-1])
    report = export.verify(classifier, artifacts[:2], pairs, seconds=0)
    assert [row.takes for row in report.rows] == ["text pair", "ids", "ids"]
    assert max(row.difference for row in report.rows) <= 1e-5


def test_another_model_is_found_out(classifier, artifacts, preprocessor):
    other = make_model(arguments={"labels": classifier.labels}, preprocessor=preprocessor)
    scramble(other, seed=5)
    report = export.verify(other, [artifacts[-1]], HARD_TEXTS, seconds=0)
    assert report.rows[0].difference > 1e-3


@pytest.mark.parametrize(
    ("task", "arguments", "agrees"),
    [
        ("encoder", None, None),
        ("pretraining", None, 100),
        ("classifier", {"num_labels": 2, "problem_type": "multi_label"}, 100),
        ("classifier", {"num_labels": 2, "problem_type": "regression"}, None),
    ],
)
def test_every_task(task, arguments, agrees, tmp_path):
    model = make_model(task, arguments)
    export.onnx(model, tmp_path / "a.onnx")
    (row,) = export.verify(model, [tmp_path / "a.onnx"], random_ids(11, 20), seconds=0).rows
    assert row.difference <= 1e-5
    assert row.agreement == agrees


def test_ids_without_mask_in_a_saved_model_and_a_shorter_file(tmp_path):
    model = make_model("encoder")
    export.saved_model(model, tmp_path / "1")
    export.tflite(model, tmp_path / "a.tflite", sequence_length=20)
    ids = {"token_ids": random_ids(9, 12)["token_ids"]}
    report = export.verify(model, [tmp_path / "1", tmp_path / "a.tflite"], ids, seconds=0)
    assert max(row.difference for row in report.rows) <= 1e-5
    long = {"token_ids": np.ones((2, 30), "int32")}
    with pytest.raises(InputError, match="30 tokens, but the artifact takes 20"):
        export.verify(model, [tmp_path / "a.tflite"], long)


def test_bad_input(classifier, artifacts, tmp_path):
    with pytest.raises(InputError, match="at least one path"):
        export.verify(classifier, [], ["a"])
    with pytest.raises(InputError, match="at least one"):
        export.verify(classifier, artifacts[1:2], [])
    (tmp_path / "README").write_text("a file of another kind")
    for name in ("missing.onnx", "README"):
        with pytest.raises(InputError, match="is not an artifact"):
            export.verify(classifier, [tmp_path / name], ["a"])
    with pytest.raises(InputError, match="no preprocessor"):
        export.verify(make_model(), artifacts[1:2], ["a"])
    with pytest.raises(InputError, match="need 'token_ids'"):
        export.verify(make_model(), artifacts[1:2], {"ids": [[1]]})
    with pytest.raises(
        InputError, match=r"token_ids have the shape \(2,\), but all ids need the same shape \[N, T"
    ):
        export.verify(make_model(), artifacts[1:2], {"token_ids": [1, 2]})
    with pytest.raises(InputError, match=r"padding_mask have the shape \(1, 1\)"):
        export.verify(make_model(), artifacts[1:2], {"token_ids": [[1, 2]], "padding_mask": [[1]]})
    (tmp_path / "damaged.onnx").write_bytes(b"no protobuf")
    with pytest.raises(ExportError, match="damaged.onnx cannot be run"):
        export.verify(classifier, [tmp_path / "damaged.onnx"], ["a"])
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "saved_model.pb").write_bytes(b"no protobuf")
    with pytest.raises(ExportError, match="damaged cannot be run"):
        export.verify(classifier, [tmp_path / "damaged"], ["a"])


def test_a_process_that_dies_is_told_of(artifacts):
    def ask_the_dead():
        with running(artifacts[-1]) as process:
            process.popen.kill()
            process.popen.wait()
            process.run("serving_default", random_ids(2, 8))

    with pytest.raises(ExportError, match="a.onnx cannot be run"):
        ask_the_dead()


def test_signatures_of_others_are_passed_over():
    def process(**signatures):
        return SimpleNamespace(path="a.tflite", signatures=signatures)

    of_ids = {"inputs": {"input_ids": [-1, 16]}, "outputs": ["logits"]}
    of_pixels = {"inputs": {"pixel_values": [1, 3, 8, 8]}, "outputs": ["logits"]}
    without = {"inputs": {}, "outputs": ["logits"]}
    (signature,) = signatures_for(process(a=of_pixels, b=of_ids, c=without), ["logits"], ["a"])
    assert (signature.name, signature.takes, signature.length) == ("b", "ids", 16)
    for others in ({}, {"a": of_pixels}, {"c": without}):
        with pytest.raises(InputError, match="a.tflite cannot be compared: it has no signature"):
            signatures_for(process(**others), ["logits"], ["a"])


def test_the_worker_knows_neither_keras_nor_this_package(artifacts):
    program = f"""
import runpy, sys
sys.argv = ["worker", {str(SAVED_MODEL.runtime)!r}, {str(artifacts[0])!r}, "1"]
runpy.run_path({worker.__file__!r}, run_name="__main__")
assert "tensorflow" in sys.modules
assert not [name for name in sys.modules if name.startswith(("keras.", "keras_bert."))]
"""
    subprocess.run([sys.executable, "-P", "-c", program], check=True, stdin=subprocess.DEVNULL)


def test_messages_arrive_as_they_are():
    texts = np.array([b"", b"\x00", b"a\x00\x00", "ä🎉".encode(), b"\xff"], object)
    stream = io.BytesIO()
    worker.send(stream, {"text": texts, "ids": np.arange(6).reshape(2, 3), "seconds": 0.5})
    worker.send(stream, {"text": texts[:0]})
    stream.seek(0)
    first, second = worker.receive(stream), worker.receive(stream)
    assert first["text"].tolist() == texts.tolist()
    assert first["ids"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert float(first["seconds"]) == 0.5
    assert second["text"].shape == (0,)
    assert worker.receive(stream) is None
    assert worker.receive(io.BytesIO(stream.getvalue()[:100])) is None
