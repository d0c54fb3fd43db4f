"""Added tokens in artifacts that take texts: cut out as in Keras, or refused."""

import json

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import export
from keras_bert.checkpoints.text_format import read_text_format
from keras_bert.export.process import running
from tests.fixtures.text_format.make_added_tokens import HERE, texts_for
from tests.marks import others_swept

from .conftest import TOKENS, make_model
from .test_serving_text import assert_same_answers

TEXTS = json.loads((HERE / "added_tokens.json").read_text("utf-8"))["texts"]


def model_of(name, task, **arguments):
    preprocessor = read_text_format(HERE / "added" / name, 24)
    options = {"vocabulary_size": len(preprocessor.vocabulary)}
    if preprocessor.num_segments < 2:
        options["num_segments"] = 0
    return make_model(task, arguments, preprocessor, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", others_swept(["electra", "roberta", "xlm-roberta", "deberta-v2"]))
def test_saved_model_of_texts(name, tmp_path):
    model, texts = model_of(name, "classifier", num_labels=3), texts_for(name, TEXTS)
    export.saved_model(model, tmp_path / "model", logits=True)
    with running(tmp_path / "model") as process:
        inputs = {"text": np.array([text.encode() for text in texts], object)}
        outputs = process.run("serving_default", inputs)
    expected = model(model.preprocessor(texts))
    np.testing.assert_allclose(outputs["logits"], expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_places_of_tags_in_a_saved_model(tmp_path):
    model = model_of("electra", "token_classifier", labels=["O", "B-X", "I-X"])
    export.saved_model(model, tmp_path / "model")
    assert_same_answers(model, tmp_path / "model", TEXTS[:60])


@pytest.mark.sweep
def test_places_of_answers_in_a_saved_model(tmp_path):
    model = model_of("electra", "span_classifier")
    export.saved_model(model, tmp_path / "model")
    assert_same_answers(model, tmp_path / "model", TEXTS[60:100], TEXTS[:40])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (export.tflite, "A TFLite file cannot find the added token '<e1>' and 1 more in texts"),
        (export.onnx, "An ONNX file cannot find the added token '<e1>' and 1 more in texts"),
    ],
)
def test_files_that_cannot_cut_texts(write, message, tmp_path):
    vocabulary = kb.Vocabulary([*TOKENS, "<e1>", "<e2>"])
    added = [kb.AddedToken("<e1>", special=True), kb.AddedToken("<e2>")]
    preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary, added_tokens=added), 16)
    model = make_model("embedder", {}, preprocessor, vocabulary_size=len(vocabulary))
    with pytest.raises(kb.InputError, match=f"{message}.*Leave out `text`"):
        write(model, tmp_path / "file", text=True)
    assert not list(tmp_path.iterdir())
