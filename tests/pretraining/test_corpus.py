import gzip
import itertools

import numpy as np
import pytest

from keras_bert.errors import InputError
from keras_bert.text.wordpiece.tokenizer import WordPiece
from tests.pretraining.text import open_corpus


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return WordPiece(vocabulary)


def units(corpus, vocabulary):
    """Documents of units of text."""
    texts = [
        " ".join(vocabulary.tokens[t] for t in corpus.tokens[a:b])
        for a, b in itertools.pairwise(corpus.sentence_splits)
    ]
    splits = corpus.document_splits
    return [texts[a:b] for a, b in itertools.pairwise(splits)]


@pytest.fixture
def read(tmp_path, tokenizer):
    """The corpus of a file with some text."""

    def read(text, **options):
        (tmp_path / "text.txt").write_text(text)
        return open_corpus([tmp_path / "text.txt"], tokenizer, **options)

    return read


def test_lines_and_blank_lines(tmp_path, tokenizer, vocabulary):
    (tmp_path / "a.txt").write_text("\n\nSun rises\nmoon\n\n \nsea\n")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("wind sings")
    corpus = open_corpus([f"{tmp_path}/*"], tokenizer)
    assert units(corpus, vocabulary) == [["sun rises", "moon"], ["sea"], ["wind sings"]]
    assert (len(corpus.tokens), corpus.num_sentences, corpus.num_documents) == (6, 4, 3)
    assert corpus.tokens.dtype == np.int32
    np.testing.assert_array_equal(corpus.document_of_sentence, [0, 0, 1, 2])


def test_lines_without_tokens_end_no_document(read, vocabulary):
    assert units(read("sea\n\u200b\ntree\n"), vocabulary) == [["sea", "tree"]]


def test_long_lines_are_cut_at_sentences_and_then_at_words(read, vocabulary):
    line = 'sun rises. "moon falls." sea. ' + "birds " * 10
    corpus = read(line, max_sentence_tokens=8)
    (document,) = units(corpus, vocabulary)
    assert document[:3] == ['sun rises . "', 'moon falls . "', "sea ."]
    assert document[3:] == [" ".join(["bird ##s"] * number) for number in (3, 3, 4)]
    assert units(read("sun. moon.", max_sentence_tokens=8), vocabulary) == [["sun . moon ."]]


def test_a_word_longer_than_a_unit_is_cut(read, vocabulary):
    assert units(read("bird" + "s" * 23, max_sentence_tokens=8), vocabulary) == [
        ["bird " + " ".join(["##s"] * 7), *[" ".join(["##s"] * 8)] * 2]
    ]


def test_nothing_is_lost_or_moved(read, tokenizer):
    rng = np.random.default_rng(0)
    words = ["sun", "moon.", '"birds', "sings!", "xyz", "trees)", "falls"]
    documents = [" ".join(rng.choice(words, rng.integers(1, 80))) for _ in range(3000)]
    corpus = read("\n\n".join(documents), max_sentence_tokens=16)
    expected = tokenizer.tokenize(documents)
    np.testing.assert_array_equal(corpus.tokens, expected.flat_values)
    starts = corpus.sentence_splits[corpus.document_splits]
    np.testing.assert_array_equal(starts, expected.row_splits)
    assert np.diff(corpus.sentence_splits).max() <= 16 + 2
    assert np.diff(corpus.sentence_splits).min() >= 1
    assert not corpus.is_continuation[corpus.tokens[corpus.sentence_splits[:-1]]].any()


@pytest.mark.parametrize(("documents", "units"), [(400, 3), (4, 100)])
def test_held_out_text(make_corpus, documents, units):
    corpus = make_corpus(documents=documents, most_sentences=units)
    training, held_out = corpus.split(0.1)
    assert len(training.tokens) + len(held_out.tokens) == len(corpus.tokens)
    assert held_out.num_sentences / corpus.num_sentences == pytest.approx(0.1, abs=0.04)
    assert held_out.num_documents >= 2
    assert training.num_documents + held_out.num_documents in (documents, 2 * documents)


@pytest.mark.parametrize("units", [1, 3, 40])
def test_held_out_text_of_many_short_documents(make_corpus, units):
    corpus = make_corpus(documents=1999, most_sentences=units)
    _, held_out = corpus.split(0.01)
    assert held_out.num_sentences == pytest.approx(corpus.num_sentences * 0.01, abs=1)


def test_checksum_tells_lines_and_documents(read):
    texts = ["sun\nmoon\n\nsea", "sun\n\nmoon\nsea", "sun moon\n\nsea", "sun\nmoon\n\ntree"]
    assert len({read(text).checksum for text in texts}) == len(texts)
    assert read(texts[0]).checksum == read("sun\n\u200b\nmoon\n\n\nsea\n").checksum


def test_document_separators(read, vocabulary):
    corpus = read("sun\nmoon\n\nsea\n\ntree\nwind")
    separator = vocabulary.tokens[3]
    separated = corpus.with_document_separators(3)
    assert units(separated, vocabulary) == [
        ["sun", f"moon {separator}"],
        [f"sea {separator}"],
        ["tree", f"wind {separator}"],
    ]
    assert separated.tokens.dtype == np.int32
    assert (separated.num_sentences, separated.num_documents) == (5, 3)
    assert len(corpus.tokens) == 5  # the other one is as it was


def test_errors(tmp_path, read, tokenizer, make_corpus):
    with pytest.raises(InputError, match="nowhere"):
        open_corpus([f"{tmp_path}/nowhere*.txt"], tokenizer)
    (tmp_path / "latin.txt").write_bytes("sun\ncaf\xe9\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.txt, line 2"):
        open_corpus([tmp_path / "latin.txt"], tokenizer)
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(InputError, match="empty"):
        open_corpus([tmp_path / "empty.txt"], tokenizer)
    with pytest.raises(InputError, match="no tokens"):
        read("\u200b")
    with pytest.raises(InputError, match="hold out"):
        make_corpus(documents=1, most_sentences=1).split(0.1)
