import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.pretraining.plans import next_sentence, plan_pairs, plan_segments

COLUMNS = ("a_start", "a_length", "b_start", "b_length", "label")


def document_of_token(corpus):
    return np.repeat(corpus.document_of_unit, np.diff(corpus.unit_splits))


def check_invariants(corpus, plan, max_tokens):
    document = document_of_token(corpus)
    a_last, b_last = plan.a_start + plan.a_length - 1, plan.b_start + plan.b_length - 1
    assert (plan.a_length >= 1).all()
    assert (plan.b_length >= 1).all()
    assert (plan.a_length + plan.b_length <= max_tokens).all()
    assert (document[plan.a_start] == document[a_last]).all()
    assert (document[plan.b_start] == document[b_last]).all()
    same = document[plan.a_start] == document[plan.b_start]
    np.testing.assert_array_equal(same, plan.label == 0)
    true = plan.label == 0
    assert (plan.b_start[true] > a_last[true]).all()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    documents=st.integers(2, 30),
    most_units=st.integers(1, 20),
    most_tokens=st.integers(1, 40),
    max_tokens=st.integers(5, 60),
)
def test_invariants(make_corpus, seed, documents, most_units, most_tokens, max_tokens):
    corpus = make_corpus(seed, documents, most_units, most_tokens)
    check_invariants(corpus, plan_pairs(corpus, max_tokens, seed=seed), max_tokens)


@pytest.mark.parametrize("most_units", [1, 3, 40])
def test_before_truncation_every_token_stands_in_one_example(make_corpus, monkeypatch, most_units):
    monkeypatch.setattr(next_sentence, "truncate", lambda *parts: parts[:4])
    corpus = make_corpus(seed=3, documents=60, most_units=most_units)
    plan = plan_pairs(corpus, 60, seed=1)
    uses = np.zeros(corpus.num_tokens, int)
    for n in range(len(plan)):
        uses[plan.a_start[n] : plan.a_start[n] + plan.a_length[n]] += 1
        if plan.label[n] == 0:
            uses[plan.b_start[n] : plan.b_start[n] + plan.b_length[n]] += 1
            assert plan.a_start[n] + plan.a_length[n] == plan.b_start[n]
    assert uses.max() == 1
    # What is left are second halves of the last units of documents: continuations of others.
    for n in np.flatnonzero(plan.label):
        uses[plan.b_start[n] : plan.b_start[n] + plan.b_length[n]] += 1
    assert uses.min() == 1


def test_half_of_the_pairs_are_random(make_corpus):
    corpus = make_corpus(documents=20000, most_units=12)
    plan = plan_pairs(corpus, 61)
    assert plan.label.mean() == pytest.approx(0.5, abs=0.005)


def test_documents_of_one_sentence(make_corpus):
    corpus = make_corpus(documents=40000, most_units=1)
    plan = plan_pairs(corpus, 61)
    check_invariants(corpus, plan, 61)
    # Units of one word cannot be split, so only random text can follow them.
    words = np.diff(np.searchsorted(corpus.word_starts, corpus.unit_splits))
    word = words[np.searchsorted(corpus.unit_splits, plan.a_start, side="right") - 1]
    assert plan.label[word > 1].mean() == pytest.approx(0.5, abs=0.01)
    assert plan.label[word == 1].all()


def test_fills_sequences_but_for_a_tenth_and_the_ends_of_documents(make_corpus):
    corpus = make_corpus(documents=20, most_units=2000, most_tokens=10)
    plan = plan_pairs(corpus, 61)
    size = plan.a_length + plan.b_length
    full = (size[plan.label == 0] == 61).mean()
    assert full == pytest.approx(0.9, abs=0.02)
    assert size.min() < 20


def test_splits_inside_a_unit_stand_before_words(make_corpus):
    corpus = make_corpus(documents=500, most_units=1)
    plan = plan_pairs(corpus, 61)
    true = plan.label == 0
    assert not corpus.is_continuation[corpus.tokens[plan.b_start[true]]].any()


def test_plans_are_functions_of_seed_and_epoch(make_corpus):
    corpus = make_corpus()
    for make in (plan_pairs, plan_segments):
        plans = [make(corpus, 40, seed=s, epoch=e) for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))]
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(plans[0], name), getattr(plans[1], name))
        assert len({plan.a_start[:20].tobytes() for plan in plans}) == 3


def test_one_document_is_too_few(make_corpus):
    with pytest.raises(InputError, match="one document.*blank line.*'mlm'"):
        plan_pairs(make_corpus(documents=1), 61)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 20), st.integers(1, 20), st.integers(3, 60))
def test_segments_hold_every_token_once(make_corpus, seed, documents, most_units, max_tokens):
    corpus = make_corpus(seed, documents, most_units)
    plan = plan_segments(corpus, max_tokens, seed=seed)
    document = document_of_token(corpus)
    uses = np.zeros(corpus.num_tokens, int)
    for start, length in zip(plan.a_start, plan.a_length, strict=True):
        uses[start : start + length] += 1
        assert document[start] == document[start + length - 1]
    assert (uses == 1).all()
    assert plan.a_length.max() <= max_tokens
    assert not plan.b_length.any()
