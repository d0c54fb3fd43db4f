"""Artifacts of models that read long texts in windows give the Keras model's outputs."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert import export
from tests.marks import others_swept

from .conftest import TOKENS, make_model, random_ids
from .test_formats import FORMATS

TEXTS = ["the good film", "", "the film was bad . " * 20, "good ! " * 7]


def preprocessor(length=16):
    return kb.Preprocessor(kb.WordPiece(kb.Vocabulary(TOKENS)), length)


def windowed(windows="max", **arguments):
    arguments = {"labels": ["no", "yes"], "windows": windows, **arguments}
    return make_model(arguments=arguments, preprocessor=preprocessor())


@pytest.mark.parametrize(
    ("kind", "windows"),
    others_swept([(kind, windows) for kind in FORMATS for windows in ("max", "mean")]),
)
def test_ids_of_any_length(kind, windows, tmp_path):
    write, load = FORMATS[kind]
    model = windowed(windows)
    write(model, tmp_path / f"a.{kind}")
    run = load(tmp_path / f"a.{kind}")
    for batch, length in ((1, 1), (3, 16), (2, 17), (4, 100)):
        ids = random_ids(batch, length)
        actual = np.asarray(run(ids)["logits"])
        np.testing.assert_allclose(actual, model(ids), rtol=0, atol=1e-5)


def test_a_saved_model_reads_texts_in_windows(tmp_path):
    model = windowed()
    export.saved_model(model, tmp_path / "1")
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    assert set(signatures) == {"serving_default", "ids"}
    found = signatures["serving_default"](text=tf.constant(TEXTS))
    expected = model.predict_text(TEXTS, top_k=None)
    assert [label.decode() for label in found["label"].numpy()] == [e["label"] for e in expected]
    scores = [[e["scores"][label] for label in model.labels] for e in expected]
    np.testing.assert_allclose(found["scores"], scores, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_an_onnx_file_reads_texts_in_windows(tmp_path):
    pytest.importorskip("onnxruntime_extensions")
    from keras_bert.export.process import running

    model = windowed("mean")
    export.onnx(model, tmp_path / "a.onnx", text=True)
    with running(tmp_path / "a.onnx") as process:
        found = process.run(
            "serving_default", {"text": np.array([t.encode() for t in TEXTS], object)}
        )
    np.testing.assert_allclose(found["logits"], model.predict(TEXTS, verbose=0), rtol=0, atol=1e-4)


@pytest.mark.parametrize("option", ["text", "metadata"])
def test_tflite_refuses_to_cut_texts(option, tmp_path):
    with pytest.raises(kb.InputError, match=f"in windows, but a TFLite file with `{option}`"):
        export.tflite(windowed(), tmp_path / "a.tflite", **{option: True})
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_tflite_file_of_fixed_length(tmp_path):
    model = windowed(max_windows=4)
    with pytest.raises(kb.InputError, match="takes 1 to 46 tokens"):
        export.tflite(model, tmp_path / "a.tflite", sequence_length=47)
    export.tflite(model, tmp_path / "a.tflite", sequence_length=46)
    ids = random_ids(2, 46)
    actual = FORMATS["tflite"][1](tmp_path / "a.tflite")(ids)["logits"]
    np.testing.assert_allclose(actual, model(ids), rtol=0, atol=1e-5)
