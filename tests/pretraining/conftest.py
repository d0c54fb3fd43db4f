"""A language of a few words, small enough to train on in a second."""

import numpy as np
import pytest

from keras_bert.pretraining.corpus import TokenizedCorpus
from keras_bert.text.vocabulary import Vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("sun", "moon", "sea", "wind", "tree", "bird", "rises", "sings", "falls", "sleeps")
PIECES = ("##s", "##ing", "##ed")


@pytest.fixture(scope="session")
def vocabulary():
    return Vocabulary([*SPECIAL, ".", '"', *WORDS, *PIECES])


@pytest.fixture(scope="session")
def is_continuation(vocabulary):
    return np.array([token.startswith("##") for token in vocabulary.tokens])


@pytest.fixture(scope="session")
def make_corpus(is_continuation):
    """Random tokens in documents of random numbers of units of random lengths."""

    def make(seed=0, documents=50, most_units=40, most_tokens=30):
        rng = np.random.default_rng(seed)
        units = rng.integers(1, most_units + 1, documents)
        lengths = rng.integers(1, most_tokens + 1, units.sum())
        tokens = rng.integers(len(SPECIAL), len(is_continuation), lengths.sum()).astype(np.int32)
        starts = np.cumsum(lengths) - lengths
        tokens[starts] = len(SPECIAL)  # a line begins with a word
        return TokenizedCorpus(
            tokens=tokens,
            unit_splits=np.append(0, np.cumsum(lengths)),
            document_splits=np.append(0, np.cumsum(units)),
            is_continuation=is_continuation,
        )

    return make


@pytest.fixture(scope="session")
def text_files(tmp_path_factory, vocabulary):
    """A corpus of 40 documents of sentences, and the vocabulary."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("text")
    documents = []
    for _ in range(40):
        lines = [" ".join(rng.choice(WORDS, rng.integers(2, 12))) + "." for _ in range(8)]
        documents.append("\n".join(lines))
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    vocabulary.save(folder / "vocab.txt")
    return folder
