"""Metadata for MediaPipe and the Task Library, which read it in `test_tflite_phone.py`."""

import zipfile

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import keras_bert as kb
from keras_bert import InputError, export
from keras_bert.export._tflite.convert import tflite_runner

from .conftest import TOKENS, make_model, random_ids
from .test_tflite_text import tokenizer_of

LABELS = ["no", "yes", "mäßig"]


def test_classifier(classifier, tmp_path):
    path = tmp_path / "a.tflite"
    export.tflite(classifier, path, metadata=True)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("labels.txt").decode().split("\n") == [*LABELS, ""]
        assert archive.read("vocab.txt").decode().split("\n") == [*TOKENS, ""]
    interpreter = Interpreter(model_path=str(path))
    assert [detail["shape"].tolist() for detail in interpreter.get_input_details()] == [[1, 32]] * 3
    assert len(interpreter.get_output_details()) == 1
    ids = random_ids(5, 32)
    found = tflite_runner(path)(ids)
    assert set(found) == {"scores"}
    expected = classifier.scores(classifier(ids))
    np.testing.assert_allclose(found["scores"], expected, rtol=0, atol=1e-5)
    again = tmp_path / "again.tflite"
    export.tflite(classifier, again, metadata=True)
    assert again.read_bytes() == path.read_bytes()


def test_int8_without_segments(preprocessor, tmp_path):
    """MediaPipe counts three inputs, whatever the model uses; there, they may be of any type."""
    arguments = {"labels": LABELS}
    model = make_model("classifier", arguments, preprocessor, num_segments=0)
    texts = ["the good film", "bad!"] * 8
    path = tmp_path / "a.tflite"
    export.tflite(
        model, path, "int8", representative=texts, metadata=True, keep_float=["*layer_norm"]
    )
    assert len(Interpreter(model_path=str(path)).get_input_details()) == 3
    ids = {name: np.asarray(x) for name, x in preprocessor(texts[:2]).items()}
    del ids["segment_ids"]
    found = tflite_runner(path)(ids)["scores"]
    np.testing.assert_allclose(found, model.scores(model(ids)), rtol=0, atol=0.1)


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_tokenizer_that_differs_there_is_told_of(lowercase, tmp_path, caplog):
    tokenizer = kb.WordPiece(kb.Vocabulary(TOKENS), lowercase=lowercase)
    model = make_model("embedder", preprocessor=kb.Preprocessor(tokenizer, 16))
    export.tflite(model, tmp_path / "a.tflite", metadata=True)
    told = [record.getMessage() for record in caplog.records if "MediaPipe" in record.getMessage()]
    assert len(told) == 1
    assert ("accents" in told[0], "capital" in told[0]) == (lowercase, not lowercase)
    assert "ideographs" not in told[0]


def test_options_that_are_not_there(tmp_path, caplog):
    tokenizer = kb.WordPiece(kb.Vocabulary(TOKENS), split_cjk=False, strip_accents=False)
    model = make_model("embedder", preprocessor=kb.Preprocessor(tokenizer, 16))
    export.tflite(model, tmp_path / "a.tflite", metadata=True)
    assert "texts with letters beyond ASCII, ideographs, control" in caplog.text


def special(**changes):
    tokens = [changes.get("cls", token) if token == "[CLS]" else token for token in TOKENS]
    return kb.WordPiece(kb.Vocabulary(tokens, **changes))


def test_labels_of_two_lines_are_refused(preprocessor, tmp_path):
    model = make_model(arguments={"labels": ["no", "yes\nor so"]}, preprocessor=preprocessor)
    with pytest.raises(InputError, match=r"label 'yes\\nor so' has a line break"):
        export.tflite(model, tmp_path / "a.tflite", metadata=True)


@pytest.mark.parametrize(
    ("task", "tokenizer", "options", "message"),
    [
        ("token_classifier", None, {}, "nor the Task Library runs a TokenClassifier"),
        ("classifier", None, {}, "has no preprocessor"),
        ("classifier", tokenizer_of("roberta"), {}, "has a BytePair tokenizer"),
        ("classifier", special(cls="<s>"), {}, "cls token is '<s>'"),
        ("classifier", special(), {"batch_size": 2}, "one text at a time"),
        ("span_classifier", special(), {}, "gives 384 tokens, but this model takes at most 64"),
        ("span_classifier", special(), {"sequence_length": 32}, "gives 384 tokens"),
    ],
)
def test_what_is_refused(task, tokenizer, options, message, tmp_path):
    preprocessor = tokenizer and kb.Preprocessor(tokenizer, 24)
    model = make_model(task, preprocessor=preprocessor, vocabulary_size=400)
    with pytest.raises(InputError, match=message):
        export.tflite(model, tmp_path / "a.tflite", metadata=True, **options)
    assert not list(tmp_path.iterdir())
