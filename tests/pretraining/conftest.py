"""A language of a few words, small enough to train on in a second."""

import numpy as np
import pytest

from keras_bert.pretraining.data.corpus import TokenizedCorpus
from tests.pretraining.text import SPECIAL, VOCABULARY, write_text


@pytest.fixture(scope="session")
def vocabulary():
    return VOCABULARY


@pytest.fixture(scope="session")
def is_continuation(vocabulary):
    return np.array([token.startswith("##") for token in vocabulary.tokens])


@pytest.fixture(scope="session")
def make_corpus(is_continuation):
    """Random tokens in documents of random numbers of units of random lengths."""

    def make(seed=0, documents=50, most_sentences=40, most_tokens=30):
        rng = np.random.default_rng(seed)
        units = rng.integers(1, most_sentences + 1, documents)
        lengths = rng.integers(1, most_tokens + 1, units.sum())
        tokens = rng.integers(len(SPECIAL), len(is_continuation), lengths.sum()).astype(np.int32)
        starts = np.cumsum(lengths) - lengths
        tokens[starts] = len(SPECIAL)  # a line begins with a word
        return TokenizedCorpus(
            tokens=tokens,
            sentence_splits=np.append(0, np.cumsum(lengths)),
            document_splits=np.append(0, np.cumsum(units)),
            is_continuation=is_continuation,
        )

    return make


@pytest.fixture(scope="session")
def text_files(tmp_path_factory):
    """A corpus of 40 documents of sentences, and the vocabulary."""
    return write_text(tmp_path_factory.mktemp("text"))
