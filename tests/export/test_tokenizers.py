"""The table of tokenizers: that its causes are what our tokenizer does, and what it comes to."""

import os
import unicodedata

import pytest

import keras_bert as kb

from . import tokenizers
from .conftest import TOKENS
from .tokenizers import CAUSES, MISSING_PIECE, OTHER, SEVERAL, causes_of, ours

ACCENT = next(cause.name for cause in CAUSES if "accents" in cause.name)
CONTROL = next(cause.name for cause in CAUSES if "control" in cause.name)


@pytest.fixture(scope="module")
def tokenizer():
    return kb.WordPiece(kb.Vocabulary(TOKENS))


def test_lines_are_put_down_to_causes(tokenizer):
    """By a reader that is ours but for two things, and for texts that it cannot read at all."""

    def read(texts):
        kept = [text.replace("\u00e9", "\ua66e").replace("\x07", "\ua66e") for text in texts]
        return ours(tokenizer)(["" if "?" in text else text for text in kept])

    found = causes_of(tokenizer, read, ["the film", "caf\u00e9", "a\x07", "\u00e9\x07", "good?"])
    assert found == {1: ACCENT, 2: CONTROL, 3: SEVERAL, 4: OTHER}


def test_onnxruntime_extensions(tokenizer, tmp_path):
    read = tokenizers.onnxruntime_extensions(tokenizer, tmp_path)
    texts = ["the film was good!", "\u0219", "bad\x00film", "bad\ua66e", ""]
    found = causes_of(tokenizer, read, texts)
    assert found == {1: ACCENT, 2: CONTROL, 3: MISSING_PIECE}


def test_causes_are_what_our_tokenizer_does(shared_data):
    """So a text that was prepared for them is read by us as before."""
    texts, hard = tokenizers.lines(shared_data)
    texts = [unicodedata.normalize("NFC", text) for text in texts[:hard:4]]
    tokenizer = tokenizers.real_tokenizer(shared_data, "bert-base-uncased")
    expected = ours(tokenizer)(texts)
    for cause in [cause for cause in CAUSES if cause.is_ours(tokenizer)][:-1]:  # that changes words
        found = ours(tokenizer)([cause.prepare(text) for text in texts])
        assert sum(a != b for a, b in zip(expected, found, strict=True)) <= 1, cause.name


@pytest.mark.private_data
@pytest.mark.phone
@pytest.mark.parametrize("name", tokenizers.NAMES)
def test_mediapipe(name, shared_data, tmp_path):
    """Compares every tenth line; the whole table is in the build notes."""
    python = os.environ.get("PHONE_PYTHON")
    assert python, "PHONE_PYTHON names no Python with MediaPipe; run make test-phone"
    texts, count = tokenizers.lines(shared_data)
    hard, prose = texts[:count:10], texts[count::10]
    tokenizer = tokenizers.real_tokenizer(shared_data, name)
    found = causes_of(tokenizer, tokenizers.mediapipe(tokenizer, tmp_path, python), hard + prose)
    assert OTHER not in found.values()
    assert 0.4 < sum(index < len(hard) for index in found) / len(hard) < 0.5
    of_prose = sum(index >= len(hard) for index in found)
    # That of cased models differs in its capital letters.
    assert of_prose == len(prose) if "uncased" not in name else of_prose <= 5
