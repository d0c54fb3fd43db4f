import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier

from keras_bert.errors import InputError
from keras_bert.pretraining.data import sentence_pairs
from keras_bert.pretraining.data.example_index import (
    best_fit,
    full_sentences_index,
    packed_index,
    segments_index,
)
from keras_bert.pretraining.data.sentence_pairs import next_sentence_index, sentence_order_index

CORPUS = {  # of `make_corpus`
    "seed": st.integers(0, 1000),
    "documents": st.integers(1, 20),
    "most_sentences": st.integers(1, 20),
    "most_tokens": st.integers(1, 40),
}
COLUMNS = ("a_start", "a_length", "b_start", "b_length", "label")


def document_of_token(corpus):
    return np.repeat(corpus.document_of_sentence, np.diff(corpus.sentence_splits))


def check_invariants(corpus, index, max_tokens):
    document = document_of_token(corpus)
    a_last, b_last = (
        index.a_start + index.a_length - 1,
        index.b_start + index.b_length - 1,
    )
    assert (index.a_length >= 1).all()
    assert (index.b_length >= 1).all()
    assert (index.a_length + index.b_length <= max_tokens).all()
    assert (document[index.a_start] == document[a_last]).all()
    assert (document[index.b_start] == document[b_last]).all()
    same = document[index.a_start] == document[index.b_start]
    np.testing.assert_array_equal(same, index.label == 0)
    true = index.label == 0
    assert (index.b_start[true] > a_last[true]).all()


@settings(max_examples=30, deadline=None)
@given(**CORPUS | {"documents": st.integers(2, 30)}, max_tokens=st.integers(5, 60))
def test_invariants(make_corpus, seed, max_tokens, **options):
    corpus = make_corpus(seed, **options)
    check_invariants(corpus, next_sentence_index(corpus, max_tokens, seed=seed), max_tokens)


@pytest.mark.parametrize("most_sentences", [1, 3, 40])
def test_before_truncation_every_token_stands_in_one_example(
    make_corpus, monkeypatch, most_sentences
):
    monkeypatch.setattr(sentence_pairs, "truncate", lambda *parts: parts[:4])
    corpus = make_corpus(seed=3, documents=60, most_sentences=most_sentences)
    index = next_sentence_index(corpus, 60, seed=1)
    uses = np.zeros(len(corpus.tokens), int)
    for n in range(len(index)):
        uses[index.a_start[n] : index.a_start[n] + index.a_length[n]] += 1
        if index.label[n] == 0:
            uses[index.b_start[n] : index.b_start[n] + index.b_length[n]] += 1
            assert index.a_start[n] + index.a_length[n] == index.b_start[n]
    assert uses.max() == 1
    # What is left are second halves of the last units of documents: continuations of others.
    for n in np.flatnonzero(index.label):
        uses[index.b_start[n] : index.b_start[n] + index.b_length[n]] += 1
    assert uses.min() == 1


def test_half_of_the_pairs_are_random(make_corpus):
    corpus = make_corpus(documents=20000, most_sentences=12)
    index = next_sentence_index(corpus, 61)
    assert index.label.mean() == pytest.approx(0.5, abs=0.005)


def test_documents_of_one_sentence(make_corpus):
    corpus = make_corpus(documents=40000, most_sentences=1)
    index = next_sentence_index(corpus, 61)
    check_invariants(corpus, index, 61)
    # Units of one word cannot be split, so only random text can follow them.
    starts = np.flatnonzero(~corpus.is_continuation[corpus.tokens])
    words = np.diff(np.searchsorted(starts, corpus.sentence_splits))
    word = words[np.searchsorted(corpus.sentence_splits, index.a_start, side="right") - 1]
    assert index.label[word > 1].mean() == pytest.approx(0.5, abs=0.01)
    assert index.label[word == 1].all()


def test_fills_sequences_but_for_a_tenth_and_the_ends_of_documents(make_corpus):
    corpus = make_corpus(documents=20, most_sentences=2000, most_tokens=10)
    index = next_sentence_index(corpus, 61)
    size = index.a_length + index.b_length
    full = (size[index.label == 0] == 61).mean()
    assert full == pytest.approx(0.9, abs=0.02)
    assert size.min() < 20


def test_units_are_split_alike_whatever_is_in_memory_at_a_time(make_corpus, monkeypatch):
    corpus = make_corpus(documents=500, most_sentences=2)
    at_once = next_sentence_index(corpus, 61)
    monkeypatch.setattr(sentence_pairs, "BLOCK", 7)
    in_blocks = next_sentence_index(corpus, 61)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(at_once, name), getattr(in_blocks, name))


def test_splits_inside_a_unit_stand_before_words(make_corpus):
    corpus = make_corpus(documents=500, most_sentences=1)
    index = next_sentence_index(corpus, 61)
    true = index.label == 0
    assert not corpus.is_continuation[corpus.tokens[index.b_start[true]]].any()


def test_plans_are_functions_of_seed_and_epoch(make_corpus):
    corpus = make_corpus()
    for make in (next_sentence_index, sentence_order_index, segments_index, full_sentences_index):
        indices = [make(corpus, 40, seed=s, epoch=e) for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))]
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(indices[0], name), getattr(indices[1], name))
        assert len({index.a_start[:20].tobytes() for index in indices}) == 3


def test_one_document_is_too_few(make_corpus):
    with pytest.raises(InputError, match="one document.*blank line.*'mlm'"):
        next_sentence_index(make_corpus(documents=1), 61)


@settings(max_examples=30, deadline=None)
@given(**CORPUS, max_tokens=st.integers(3, 60))
def test_segments_hold_every_token_once(make_corpus, seed, max_tokens, **options):
    corpus = make_corpus(seed, **options)
    index = segments_index(corpus, max_tokens, seed=seed)
    document = document_of_token(corpus)
    uses = np.zeros(len(corpus.tokens), int)
    for start, length in zip(index.a_start, index.a_length, strict=True):
        uses[start : start + length] += 1
        assert document[start] == document[start + length - 1]
    assert (uses == 1).all()
    assert index.a_length.max() <= max_tokens
    assert not index.b_length.any()


@settings(max_examples=40, deadline=None)
@given(**CORPUS, max_tokens=st.integers(5, 60))
def test_ordered_pairs_are_parts_of_one_document(make_corpus, seed, max_tokens, **options):
    corpus = make_corpus(seed, **options)
    index = sentence_order_index(corpus, max_tokens, seed=seed)
    document = document_of_token(corpus)
    assert (index.a_length >= 1).all()
    assert (index.b_length >= 1).all()
    assert (index.a_length + index.b_length <= max_tokens).all()
    first, last = (f(index.a_start, index.b_start) for f in (np.minimum, np.maximum))
    end = (
        np.maximum(
            index.a_start + index.a_length,
            index.b_start + index.b_length,
        )
        - 1
    )
    assert (document[first] == document[end]).all()
    length = np.where(first == index.a_start, index.a_length, index.b_length)
    assert (first + length <= last).all()
    np.testing.assert_array_equal(index.label == 1, index.b_start < index.a_start)
    assert abs(2 * index.label.sum() - len(index)) <= 1


@pytest.mark.parametrize("most_sentences", [1, 3, 40])
def test_ordered_pairs_hold_every_token_once_before_truncation(
    make_corpus, monkeypatch, most_sentences
):
    monkeypatch.setattr(sentence_pairs, "truncate", lambda *parts: parts[:4])
    corpus = make_corpus(seed=3, documents=60, most_sentences=most_sentences)
    index = sentence_order_index(corpus, 60, seed=1)
    uses = np.zeros(len(corpus.tokens), int)
    for n in range(len(index)):
        uses[index.a_start[n] : index.a_start[n] + index.a_length[n]] += 1
        uses[index.b_start[n] : index.b_start[n] + index.b_length[n]] += 1
        first, second = sorted([(index.a_start[n], index.a_length[n]), (index.b_start[n], 0)])
        if index.label[n] == 0:
            assert first[0] + first[1] == second[0]
    assert uses.max() == 1
    # A unit of one token by itself has no order.
    left_out = np.flatnonzero(uses == 0)
    assert np.isin(left_out, corpus.sentence_splits).all()
    assert np.isin(left_out + 1, corpus.sentence_splits).all()


def test_half_of_the_ordered_pairs_are_swapped(make_corpus):
    """In a corpus of some 100,000 tokens, of many documents or of one."""
    for documents in (1, 500):
        corpus = make_corpus(documents=documents, most_sentences=12000 // documents)
        assert len(corpus.tokens) > 30000
        index = sentence_order_index(corpus, 125)
        assert index.label.mean() == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("max_tokens", [29, 61, 125])
def test_lengths_do_not_tell_the_order(make_corpus, max_tokens):
    corpus = make_corpus(documents=60, most_sentences=400)
    indices = [sentence_order_index(corpus, max_tokens, epoch=epoch) for epoch in range(8)]
    a, b, label = (
        np.concatenate([getattr(index, name) for index in indices])
        for name in ("a_length", "b_length", "label")
    )
    lengths, half = np.stack([a, b, a - b], axis=1), len(a) // 2
    guesser = GradientBoostingClassifier(n_estimators=30).fit(lengths[:half], label[:half])
    assert guesser.score(lengths[half:], label[half:]) < 0.53


def full_sentences(corpus, max_tokens, separator):
    """RoBERTa's packing, a loop: sentences as they come, as many as fit, separators between."""
    sequences, current, ends = [], [], set(corpus.document_splits[1:].tolist())
    for unit in range(corpus.num_sentences):
        tokens = corpus.tokens[
            corpus.sentence_splits[unit] : corpus.sentence_splits[unit + 1]
        ].tolist()
        for first in range(0, len(tokens), max_tokens):
            piece = tokens[first : first + max_tokens]
            if len(current) + len(piece) > max_tokens:
                sequences.append(current)
                current = []
            current = current + piece
        if unit + 1 in ends:
            current = [*current, separator]
    sequences.append(current)
    return [s[:-1] if s[-1] == separator else s for s in sequences]


@settings(max_examples=40, deadline=None)
@given(**CORPUS, max_tokens=st.integers(3, 60))
def test_full_sentences_are_those_of_a_loop(make_corpus, seed, max_tokens, **options):
    plain = make_corpus(seed, **options)
    separator = 3
    corpus = plain.with_document_separators(separator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_bert.pretraining.data.example_index.EARLIER", 0)
        index = full_sentences_index(corpus, max_tokens, seed=seed)
    order = np.argsort(index.a_start)
    spans = zip(index.a_start[order], index.a_length[order], strict=True)
    sequences = [corpus.tokens[start : start + length].tolist() for start, length in spans]
    assert sequences == full_sentences(plain, max_tokens, separator)


@settings(max_examples=40, deadline=None)
@given(**CORPUS, max_tokens=st.integers(3, 60), separated=st.booleans())
def test_full_sentences_hold_every_token_of_text_once(
    make_corpus, seed, max_tokens, separated, **options
):
    corpus = make_corpus(seed, **options)
    if separated:
        corpus = corpus.with_document_separators(3)
    index = full_sentences_index(corpus, max_tokens, seed=seed, epoch=1)
    uses = np.zeros(len(corpus.tokens), int)
    for start, length in zip(index.a_start, index.a_length, strict=True):
        uses[start : start + length] += 1
        assert corpus.tokens[start] != 3
        assert corpus.tokens[start + length - 1] != 3
    assert (uses[corpus.tokens != 3] == 1).all()
    assert uses.max() == 1
    assert 1 <= index.a_length.min() <= index.a_length.max() <= max_tokens


def test_full_sentences_of_epochs_are_cut_differently(make_corpus):
    corpus = make_corpus(documents=30, most_tokens=20)
    indices = [full_sentences_index(corpus, 126, epoch=epoch) for epoch in (0, 1)]
    starts = [set(index.a_start.tolist()) for index in indices]
    assert len(starts[0] & starts[1]) < 0.9 * len(starts[0])
    # One sequence in ten lacks its last unit, so the text fills nearly as much as it could.
    assert indices[0].a_length.mean() > 126 - 10.5 - 0.1 * 10.5 - 3


@settings(max_examples=40, deadline=None)
@given(**CORPUS, max_tokens=st.integers(3, 60))
def test_packed_rows_hold_every_token_once(make_corpus, seed, max_tokens, **options):
    corpus = make_corpus(seed, **options)
    index = packed_index(corpus, max_tokens, seed=seed)
    document, length = document_of_token(corpus), max_tokens + 2
    uses = np.zeros(len(corpus.tokens), int)
    cells = np.zeros(len(index) * length, int)
    for start, size, cell in zip(index.start, index.length, index.cell, strict=True):
        uses[start : start + size] += 1
        cells[cell : cell + size + 2] += 1
        assert document[start] == document[start + size - 1]
        assert cell // length == (cell + size + 1) // length  # in one row
    assert (uses == 1).all()
    assert cells.max() == 1
    row = np.repeat(np.arange(len(index)), np.diff(index.row_splits))
    np.testing.assert_array_equal(row, index.cell // length)
    assert (np.diff(index.row_splits) > 0).all()


def test_packed_rows_are_dense(make_corpus):
    """Padding of short documents nearly disappears; one row more than the least would be dear."""
    corpus = make_corpus(documents=4000, most_sentences=4, most_tokens=30)
    alone, packed = segments_index(corpus, 126), packed_index(corpus, 126)
    tokens = len(corpus.tokens) + 2 * len(alone)
    assert tokens / (128 * len(alone)) < 0.4
    assert tokens / (128 * len(packed)) > 0.99


@pytest.mark.parametrize(("sizes", "rows"), [([5, 5, 5, 5], 2), ([7, 6, 3, 4], 2), ([10, 1], 2)])
def test_best_fit_by_hand(sizes, rows):
    row = best_fit(np.array(sizes), 10)
    assert sorted(set(row)) == list(range(rows))
    assert np.bincount(row, sizes).max() <= 10


def test_who_meets_whom_changes_with_the_epoch(make_corpus):
    corpus = make_corpus(documents=2000, most_sentences=3, most_tokens=10)
    together = []
    for epoch in (0, 1):
        index = packed_index(corpus, 62, epoch=epoch)
        pairs = np.flatnonzero(np.diff(index.cell // 64) == 0)
        together.append(set(zip(index.start[pairs], index.start[pairs + 1], strict=True)))
    assert len(together[0] & together[1]) < 0.02 * len(together[0])
