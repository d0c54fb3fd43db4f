"""ONNX files that take texts, by onnxruntime-extensions."""

import json
import logging

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import InputError, export
from keras_bert.export._onnx import text_input as onnx_text
from keras_bert.export.process import running
from tests.text.test_loading import byte_pair

from . import tokenizers
from .conftest import TOKENS, make_model

TEXTS = ["The film was good!", "", "bad film " * 30, " \t\n ", "中 film"]


def strings(texts):
    return np.array([text.encode("utf-8", "replace") for text in texts], object)


@pytest.fixture(scope="module")
def file(classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "a.onnx"
    export.onnx(classifier, path, text=True)
    return path


def test_texts_get_the_answers_of_the_model(file, classifier):
    with running(file) as process:
        inputs = process.signatures["serving_default"]["inputs"]
        assert inputs == {"text": [-1]}
        for texts in (TEXTS, TEXTS[:1]):
            found = process.run("serving_default", {"text": strings(texts)})
            ids = classifier.preprocessor(texts)
            expected = np.asarray(classifier(ids))
            np.testing.assert_allclose(found["logits"], expected, rtol=0, atol=1e-5)
            longest = int(np.asarray(ids["padding_mask"]).sum(axis=1).max())
            assert found["token_ids"].tolist() == np.asarray(ids["token_ids"])[:, :longest].tolist()
            best = [classifier.labels[i].encode() for i in expected.argmax(-1)]
            assert found["label"].tolist() == best
            np.testing.assert_array_equal(found["score"], found["scores"].max(-1))
            names = [label.encode() for label in classifier.labels]
            assert found["labels"].tolist() == [names] * len(texts)
        empty = process.run("serving_default", {"text": strings([])})
        assert {name: len(value) for name, value in empty.items()} == dict.fromkeys(empty, 0)


def test_a_warning_where_words_are_read_otherwise(tmp_path, preprocessor, caplog):
    """`ș` of the texts that are tried: its accent is not one of those that the library strips."""
    model = make_model("embedder", preprocessor=preprocessor)
    with caplog.at_level(logging.WARNING):
        export.onnx(model, tmp_path / "a.onnx", text=True, quantize="dynamic")
    assert "reads some texts differently from the model" in caplog.text


def test_a_warning_where_characters_are_composed(tmp_path, caplog):
    export.onnx(_embedder(normalization="nfc"), tmp_path / "a.onnx", text=True)
    assert "reads some texts differently from the model, such as 'Cafe\u0301'" in caplog.text


@pytest.mark.parametrize(("limit", "is_told"), [(100, False), (200, True)])
def test_a_warning_where_words_may_be_longer(limit, is_told, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(onnx_text, "_TEXTS", ["The film was good!"])
    tokenizer = kb.WordPiece(kb.Vocabulary(TOKENS), max_characters_per_word=limit)
    model = make_model("embedder", preprocessor=kb.Preprocessor(tokenizer, 24))
    export.onnx(model, tmp_path / "a.onnx", text=True)
    assert ("reads some texts differently from the model, such as 'xxx" in caplog.text) == is_told


def _embedder(text=None, **options):
    tokenizer = byte_pair(**options)
    size = len(tokenizer.vocabulary)
    preprocessor = kb.Preprocessor(tokenizer, 24, **text or {})
    return make_model("embedder", preprocessor=preprocessor, vocabulary_size=size)


def test_what_is_not_possible(tmp_path, preprocessor):
    for model, reason in (
        (
            make_model("token_classifier", preprocessor=preprocessor),
            "a TokenClassifier predicts for tokens",
        ),
        (make_model("embedder"), "it has no preprocessor"),
        (_embedder(pattern="llama3"), "its tokenizer splits words by the pattern llama3"),
        (_embedder(ignore_merges=True), "its tokenizer keeps words that are tokens"),
        (_embedder({"separator_at_end": False}), "its texts have no separator at the end"),
    ):
        with pytest.raises(InputError, match=f"cannot take texts.*{reason}"):
            export.onnx(model, tmp_path / "a.onnx", text=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.private_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most", "of_english"),
    [
        ("bert-base-uncased", 1484, 1),
        ("bert-base-cased", 507, 0),
        ("roberta-base", 2, 0),  # NUL
        ("deberta-v3", 2, 0),  # NUL
    ],
)
def test_lines_that_are_read_otherwise(name, most, of_english, shared_data, tmp_path):
    """Counts them among 4,952 hard lines, and among the English ones.

    `tokenizers.py` explains the causes.
    """
    lines = (shared_data / "text" / "tokenizer_stress.jsonl").read_text().splitlines()
    sources, texts = zip(*((r["src"], r["text"]) for r in map(json.loads, lines)), strict=True)
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    tokenizer = tokenizers.real_tokenizer(shared_data, name)
    readers = tokenizers.ours(tokenizer), tokenizers.onnxruntime_extensions(tokenizer, tmp_path)
    rows = zip(sources, *(read(texts) for read in readers), strict=True)
    differ = [source for source, expected, found in rows if expected != found]
    assert len(differ) <= most
    assert differ.count("xquad_en") <= of_english
