"""The graph splits texts into the same words as Python."""

import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.text import words
from keras_bert.text.characters import characters_of
from keras_bert.text.words.in_graph import split_words, strip

ALPHABET = "ab9_.'’-!中\u0301 \u3000\x1cé🎉\x00"


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
def in_graph(texts):
    characters = characters_of(texts)
    starts, ends, splits = split_words(characters)
    return starts, ends, splits, characters.begins, characters.pieces(starts, ends)


@tf.function(
    input_signature=[tf.TensorSpec([None], kind) for kind in (tf.string, tf.int32, tf.int32)],
    autograph=False,
)
def stripped(texts, starts, ends):
    return strip(characters_of(texts), starts, ends)


def assert_same_words(texts):
    starts, ends, splits, begins, pieces = (
        x.numpy() for x in in_graph(tf.constant(texts, tf.string))
    )
    assert len(splits) == len(texts) + 1
    for index, text in enumerate(texts):
        part = slice(splits[index], splits[index + 1])
        spans = np.stack([starts[part], ends[part]], axis=1) - begins[index]
        expected = words.split_words(text)
        assert spans.tolist() == [list(span) for span in expected], text
        assert [piece.decode() for piece in pieces[part]] == [text[a:b] for a, b in expected]
    return len(starts)


@given(st.lists(st.text(ALPHABET) | st.text(st.characters(exclude_categories=["Cs"]))))
@settings(max_examples=150, deadline=None)
def test_words_equal_python(texts):
    assert_same_words(texts)


def test_words_of_hard_lines(shared_data):
    lines = (shared_data / "text" / "tokenizer_stress.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    assert assert_same_words(texts) > 10 * len(texts)


@given(st.lists(st.text(" \ta\u3000é", max_size=9), min_size=1), st.data())
@settings(max_examples=100, deadline=None)
def test_strip_equals_python(texts, data):
    number = data.draw(st.integers(0, len(texts) - 1))
    start, end = sorted(data.draw(st.integers(0, len(texts[number]))) for _ in range(2))
    before = sum(len(text) + 1 for text in texts[:number])
    span = (int(x[0]) - before for x in stripped(texts, [start + before], [end + before]))
    assert texts[number][slice(*span)] == texts[number][start:end].strip()


@pytest.mark.parametrize("text", [b"\xff\xfe bad \xc3", b"\x80\x80a", b"\xf7\xbf\xbf\xbf", b""])
def test_bytes_that_are_no_text_are_no_error(text):
    starts, ends, *_ = in_graph(tf.constant([text, b"a", text]))
    assert len(starts) == len(ends) >= 1
