import itertools
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert as kb
from keras_bert.text.words import begins_word, first_tokens, split_words
from tests.text import stress
from tests.text.test_loading import KINDS

TOKENIZERS = {kind: make() for kind, make in KINDS.items()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mr. O'Neill's (3.5%)", ["Mr", ".", "O'Neill's", "(", "3.5", "%", ")"]),
        ("the U.S. of A.", ["the", "U.S", ".", "of", "A", "."]),
        ("twenty-one—a--b d’e ’f-", ["twenty-one", "—", "a", "-", "-", "b", "d’e", "’", "f", "-"]),
        ("हिन्दी भाषा e\u0301te\u0301", ["हिन्दी", "भाषा", "e\u0301te\u0301"]),
        ("\u0301 a", ["\u0301", "a"]),
        ("中国ABC", ["中", "国", "ABC"]),
        ("@a_b\u3000c\n#d\u00a0e", ["@", "a", "_", "b", "c", "#", "d", "e"]),
        ("🙂🙂\u200bx", ["🙂", "🙂", "\u200b", "x"]),
        (" \t\n", []),
        ("", []),
    ],
)
def test_words(text, words):
    assert [text[start:end] for start, end in split_words(text)] == words


@given(st.text(alphabet=st.characters() | st.sampled_from(" .-'’aé中🙂"), max_size=40))
@settings(max_examples=300, deadline=None)
def test_words_are_all_that_is_not_white_space(text):
    spans = split_words(text)
    assert [c for s, e in spans for c in text[s:e]] == [c for c in text if not c.isspace()]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    for start, end in spans:
        if end - start > 1:
            assert all(
                c.isalnum() or unicodedata.category(c)[0] == "M" or c in ".-'’"
                for c in text[start:end]
            )


@pytest.mark.parametrize("token", ["。", ".", "'", "€", "中国", "を", "カナ", "ไทย", "ខ្មែរ", "ﾊ"])
def test_what_begins_a_word_without_a_space(token):
    assert begins_word(token)


@pytest.mark.parametrize("token", ["", "a", "é", "7", "'s", ".5", "한", "я", "न", "\u0301", "🙂a"])
def test_what_continues_a_word(token):
    assert not begins_word(token)


def first_token_of(preprocessor, text, start, end):
    """By looking at the text's tokens one by one: the number of the first that begins in a word."""
    _, starts, ends = preprocessor.tokenizer.tokenize_with_offsets([text])
    for number, (first, last) in enumerate(
        zip(starts[0].numpy().tolist(), ends[0].numpy().tolist(), strict=True)
    ):
        while first < last and text[first].isspace():
            first += 1
        if first < last and start <= first < end:
            return number
    return None


words = st.sampled_from(["the", "cat", "cats", "a", ",the", "é", "🙂", "\u200b", "xx", "the-cat"])
texts = st.lists(st.lists(words, max_size=30).map(" ".join), max_size=2)


@given(texts, st.sampled_from(sorted(KINDS)), st.sampled_from([0, 3, "auto"]))
@settings(max_examples=30, deadline=None)
def test_first_tokens(batch, kind, overlap):
    preprocessor = kb.Preprocessor(TOKENIZERS[kind], 12)
    rows = preprocessor.rows(batch, overlap=overlap, offsets=True)
    spans = [split_words(text) for text in batch]
    found = iter(first_tokens(rows, spans).tolist())
    for sample, text in enumerate(batch):
        # The tokens of the text, each where it has most context.
        of_text = np.repeat(rows.sample_ids, rows.lengths) == sample
        tokens = np.flatnonzero(rows.flat["is_max_context"] & of_text).tolist()
        for start, end in spans[sample]:
            number = first_token_of(preprocessor, text, start, end)
            assert next(found) == (-1 if number is None else tokens[number])


def test_first_tokens_of_no_texts():
    rows = kb.Preprocessor(TOKENIZERS["wordpiece"], 12).rows([], overlap=1, offsets=True)
    assert first_tokens(rows, []).tolist() == []


@pytest.mark.parametrize("name", ["bert-base-uncased", "roberta-base", "deberta-v3"])
def test_every_word_of_prose_has_a_token(name, shared_data):
    texts = [
        line["text"]
        for line in stress.stress_lines(shared_data)
        if line["src"].startswith(stress.ORDINARY)
    ][:300]
    preprocessor = kb.Preprocessor(stress.TOKENIZERS[name][0](shared_data / f"vocabs/{name}"), 32)
    rows = preprocessor.rows(texts, overlap=8, offsets=True)
    spans = [split_words(text) for text in texts]
    firsts = iter(first_tokens(rows, spans).tolist())
    without = 0
    for text, words_of_text in zip(texts, spans, strict=True):
        for start, end in words_of_text:
            token = next(firsts)
            if token < 0:
                without += 1
                continue
            covered = slice(rows.flat["starts"][token], rows.flat["ends"][token])
            begin = covered.start + len(text[covered]) - len(text[covered].lstrip())
            assert start <= begin < end
    assert without < 0.02 * sum(map(len, spans))
