"""ONNX files that take texts, by onnxruntime-extensions."""

import json
import logging
import types
from collections import Counter

import numpy as np
import onnx
import pytest

import keras_bert as kb
from keras_bert import InputError, export
from keras_bert.export import onnx_text
from keras_bert.export.process import running
from keras_bert.text.byte_pair import BytePair
from keras_bert.text.byte_pair_learning import SPECIAL_TOKENS
from keras_bert.text.sentencepiece import SentencePiece

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
            names = [label.encode() for label in classifier.labels]
            assert found["labels"].tolist() == [names] * len(texts)
        empty = process.run("serving_default", {"text": strings([])})
        assert {name: len(value) for name, value in empty.items()} == dict.fromkeys(empty, 0)


def test_a_warning_where_words_are_read_otherwise(tmp_path, preprocessor, caplog):
    """`ș` of the texts that are tried: its accent is not one of those that the library strips."""
    model = make_model("embedder", preprocessor=preprocessor)
    with caplog.at_level(logging.WARNING):
        export.onnx(model, tmp_path / "a.onnx", text=True, quantize="dynamic")
    assert "reads some texts otherwise than the model" in caplog.text


@pytest.mark.parametrize(("limit", "is_told"), [(100, False), (200, True)])
def test_a_warning_where_words_may_be_longer(limit, is_told, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(onnx_text, "_TEXTS", ["The film was good!"])
    tokenizer = kb.WordPiece(kb.Vocabulary(TOKENS), max_characters_per_word=limit)
    model = make_model("embedder", preprocessor=kb.Preprocessor(tokenizer, 24))
    export.onnx(model, tmp_path / "a.onnx", text=True)
    assert ("reads some texts otherwise than the model, such as 'xxx" in caplog.text) == is_told


def test_what_is_not_possible(tmp_path, preprocessor):
    for model, reason in (
        (make_model("tagger", preprocessor=preprocessor), "a TokenClassifier answers is about"),
        (make_model("embedder"), "it has no preprocessor"),
    ):
        with pytest.raises(InputError, match=f"cannot take texts.*{reason}"):
            export.onnx(model, tmp_path / "a.onnx", text=True)
    assert not list(tmp_path.iterdir())


def _wordpiece(shared_data, name):
    vocabulary = kb.Vocabulary.from_file(shared_data / "vocabs" / name / "vocab.txt")
    return kb.WordPiece(vocabulary, lowercase="uncased" in name)


def _byte_pair(shared_data, name):
    return BytePair.load(shared_data / "vocabs" / name, special_tokens=SPECIAL_TOKENS)


def _sentencepiece(shared_data, name):
    roles = {"pad": "[PAD]", "unknown": "[UNK]", "cls": "[CLS]", "separator": "[SEP]"}
    return SentencePiece(
        (shared_data / "vocabs" / name / "spm.model").read_bytes(),
        last_tokens=["[MASK]"],
        special_tokens=roles | {"mask": "[MASK]"},
    )


def _read_otherwise(tokenizer, texts, path):
    """Numbers of the texts that the library reads otherwise."""
    preprocessor = kb.Preprocessor(tokenizer, sequence_length=256)
    model = types.SimpleNamespace(preprocessor=preprocessor)
    onnx.save(onnx_text.tokenizer_file(model), path)
    differ = []
    with running(path) as process:
        for start in range(0, len(texts), 256):
            part = slice(start, start + 256)
            read = process.run("serving_default", {"text": strings(texts[part])})
            found = read["token_ids"]
            expected = np.asarray(preprocessor(texts[part])["token_ids"])
            same = (found == expected[:, : found.shape[1]]).all(axis=1)
            differ += [start + index for index in np.flatnonzero(~same)]
    return differ


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "most", "of_english"),
    [
        ("bert-base-uncased", _wordpiece, 1484, 1),
        ("bert-base-cased", _wordpiece, 507, 0),
        ("roberta-base", _byte_pair, 2, 0),  # NUL
        ("deberta-v3", _sentencepiece, 2, 0),  # NUL
    ],
)
def test_lines_that_are_read_otherwise(name, make, most, of_english, shared_data, tmp_path):
    """Of 4,952 hard lines, and of the English among them; `pytest -s` prints the causes."""
    lines = (shared_data / "text" / "tokenizer_stress.jsonl").read_text().splitlines()
    sources, texts = zip(*((r["src"], r["text"]) for r in map(json.loads, lines)), strict=True)
    tokenizer, texts = make(shared_data, name), list(texts)
    differ = _read_otherwise(tokenizer, texts, tmp_path / "a.onnx")
    print(f"{name}: {len(differ)} of {len(texts)}", Counter(sources[index] for index in differ))
    assert len(differ) <= most
    assert sum(sources[index] == "xquad_en" for index in differ) <= of_english
    if make is _wordpiece:  # what is left if texts come in as our tokenizer prepares them
        some = [texts[index] for index in differ]
        prepared = tokenizer._normalizer.normalize(some).numpy()
        cased = kb.WordPiece(tokenizer.vocabulary, lowercase=False)
        prepared = [text.decode() for text in prepared]
        left = _read_otherwise(cased, prepared, tmp_path / "b.onnx")
        causes = {"accents, case, controls": len(differ) - len(left), "words": len(left)}
        print(causes)
