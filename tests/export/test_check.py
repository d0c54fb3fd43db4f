"""Artifacts that cannot be made, or are wrong, do not get their name."""

import importlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert import InputError, export
from keras_bert.export.artifact_checks import ExportError, check, compare, difference, reference

from .conftest import make_model


def test_difference():
    a = {"x": np.array([1.0, 2.0]), "y": np.zeros((0, 2))}
    assert difference(a, a) == 0
    assert difference(a, {**a, "x": np.array([1.0, 2.5])}) == 0.5
    assert difference(a, {"x": a["x"]}) == np.inf
    assert difference(a, {**a, "x": np.zeros((2, 1))}) == np.inf
    assert difference(a, {**a, "x": np.array([1.0, np.nan])}) == np.inf


def test_infinite_answers_are_not_compared():
    infinite = {"x": np.array([np.inf, 1.0])}
    with pytest.raises(ExportError, match="differs from the model by inf"):
        compare("file", infinite, infinite, 1e-5)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda out: {**out, "scores": out["scores"] + 1e-4}, r"differs from the model by 1.0e-04"),
        (lambda out: {"scores": out["scores"]}, "differs from the model by inf"),
        (lambda out: 1 / 0, "division by zero"),
    ],
)
def test_check(spoil, message, classifier):
    check(classifier, "file", lambda ids: reference(classifier, ids), 1e-5)
    with pytest.raises(ExportError, match=message):
        check(classifier, "file", lambda ids: spoil(reference(classifier, ids)), 1e-5)


def test_vectors_of_padding_are_not_compared():
    mask = np.array([[1, 1, 0]])
    vectors = np.ones((1, 3, 2), "float32")
    at_padding, at_token, broken = vectors.copy(), vectors.copy(), vectors.copy()
    at_padding[0, 2], at_token[0, 1], broken[0, 2] = 9, 9, np.nan
    compare("file", {"sequence_output": vectors}, {"sequence_output": at_padding}, 1e-5, mask)
    for wrong in (at_token, broken):
        with pytest.raises(ExportError, match="differs"):
            compare("file", {"sequence_output": vectors}, {"sequence_output": wrong}, 1e-5, mask)


@pytest.mark.parametrize(
    ("kind", "earlier"),
    [
        ("saved_model", "artifact/assets.extra/keras_bert.json"),
        ("tflite", "artifact"),
        ("onnx", "artifact"),
    ],
)
def test_a_failed_check_keeps_the_earlier_artifact(kind, earlier, tmp_path, monkeypatch):
    earlier = tmp_path / earlier
    earlier.parent.mkdir(parents=True, exist_ok=True)
    earlier.write_text("an earlier artifact")

    def fail(*arguments):
        raise ExportError("The artifact differs.")

    module = importlib.import_module(f"keras_bert.export._{kind}.convert")
    monkeypatch.setattr(module, "check", fail)
    with pytest.raises(ExportError, match="differs"):
        getattr(export, kind)(make_model(), tmp_path / "artifact")
    assert earlier.read_text() == "an earlier artifact"
    assert [file.name for file in tmp_path.iterdir()] == ["artifact"]


@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [
        ("onnx", "tf2onnx", "onnx"),
        ("onnx", "onnxruntime", "onnx"),
        ("tflite", "ai_edge_litert.interpreter", "tflite"),
    ],
)
def test_a_missing_package_is_named(kind, package, extra, classifier, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf'pip install -e "\.\[{extra}\]"'):
        getattr(export, kind)(classifier, tmp_path / "artifact")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["saved_model", "tflite", "onnx"])
def test_models_that_cannot_be_exported(kind, tmp_path, monkeypatch):
    write = getattr(export, kind)
    with pytest.raises(InputError, match="A Sequential cannot be exported"):
        write(keras.Sequential(), tmp_path / "artifact")
    half = make_model()
    half.dtype_policy = keras.DTypePolicy("mixed_bfloat16")
    with pytest.raises(InputError, match="computes in mixed_bfloat16"):
        write(half, tmp_path / "artifact")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match="KERAS_BACKEND=tensorflow"):
        write(make_model(), tmp_path / "artifact")
    assert not list(tmp_path.iterdir())


def test_the_names_are_functions_and_bring_tensorflow_only_when_used():
    program = """
import sys
from keras_bert import export
assert "tensorflow" not in sys.modules and "keras" not in sys.modules
assert {"onnx", "saved_model", "tflite", "verify"} <= set(dir(export))
import keras_bert.export._onnx.convert
assert "tensorflow" in sys.modules
assert callable(export.onnx) and callable(export.verify) and callable(export.tflite)
assert callable(export.saved_model)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
