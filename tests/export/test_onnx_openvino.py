"""ONNX files run in OpenVINO, too, with the outputs of ONNX's reference evaluator."""

import sys

import numpy as np
import pytest

from keras_bert import InputError, export
from keras_bert.export._onnx.openvino_runtime import computes_in_bfloat16
from keras_bert.export._verify import comparison
from keras_bert.export.artifact_checks import ExportError
from tests.marks import others_swept

from .conftest import HARD_TEXTS, make_model, random_ids
from .test_onnx_quantization import DIFFERENCES, evaluate

openvino = pytest.importorskip("openvino")
TEXTS = ["good film", "bad film", "the film was good"]


@pytest.mark.parametrize("quantize", others_swept(["none", "float16", "dynamic"]))
def test_the_same_answers(quantize, tmp_path):
    model = make_model("pretraining", num_layers=2)
    export.onnx(model, tmp_path / "a.onnx", quantize=quantize)
    core = openvino.Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}  # not bfloat16
    compiled = core.compile_model(core.read_model(tmp_path / "a.onnx"), "CPU", exact)
    allowed = {"none": 1e-5, **DIFFERENCES}[quantize]
    for batch, length in ((3, 20), (1, 1), (2, 64)):
        ids = random_ids(batch, length)
        found = {name: compiled(ids)[name] for name in ("mlm_logits", "nsp_logits")}
        for name, expected in evaluate(str(tmp_path / "a.onnx"), ids).items():
            assert found[name].shape == expected.shape
            assert np.abs(found[name] - expected).max() <= allowed * max(1, np.abs(expected).max())


@pytest.fixture(scope="module")
def file(classifier, tmp_path_factory):
    return export.onnx(classifier, tmp_path_factory.mktemp("openvino") / "a.onnx")


def test_verify_runs_both_precisions(classifier, file):
    report = export.verify(classifier, [file], HARD_TEXTS, seconds=0, openvino=True)
    rows = {row.openvino: row for row in report.rows}
    assert rows[""].runtime.startswith("onnxruntime ")
    assert rows["float32"].runtime == f"openvino {openvino.__version__.split('-')[0]}"
    assert rows["float32"].difference <= 1e-5
    assert f"{file}, OpenVINO float32" in str(report)
    assert ("bfloat16" in rows) == computes_in_bfloat16(openvino.Core())
    if "bfloat16" in rows:
        assert 1e-5 < rows["bfloat16"].difference < 0.05, "computed in bfloat16"


def test_no_bfloat16_where_the_processor_lacks_it(classifier, file, monkeypatch):
    monkeypatch.setattr(comparison, "computes_in_bfloat16", lambda core: False)
    report = export.verify(classifier, [file], TEXTS, seconds=0, openvino=True)
    assert [row.openvino for row in report.rows] == ["", "float32"]


def test_the_page_says_which_runtime(classifier, file, tmp_path):
    page = tmp_path / "page.md"
    found = export.report(classifier, [file], TEXTS, page, seconds=1e-3, openvino=True)
    text = page.read_text("utf-8")
    assert "| a.onnx, OpenVINO float32 | ids |" in text
    assert "OpenVINO runs files with `dynamic` quantization slower" in text
    assert all(row.speed.latencies for row in found.rows)


def test_no_onnx_file(classifier, tmp_path):
    path = export.tflite(classifier, tmp_path / "a.tflite")
    with pytest.raises(InputError, match="OpenVINO runs ONNX files, but no path is one"):
        export.verify(classifier, [path], TEXTS, openvino=True)


def test_a_file_that_takes_texts(classifier, tmp_path):
    pytest.importorskip("onnxruntime_extensions")
    path = export.onnx(classifier, tmp_path / "a.onnx", text=True)
    with pytest.raises(ExportError, match=r"a.onnx cannot be run: .*export a file that takes ids"):
        export.verify(classifier, [path], TEXTS, openvino=True)


def test_without_the_package(classifier, file, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(InputError, match=r'needs openvino .* pip install -e "\.\[openvino\]"'):
        export.verify(classifier, [file], TEXTS, openvino=True)
