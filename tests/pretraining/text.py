"""A corpus in a language of a few words, as files."""

import numpy as np

from keras_bert.pretraining.data.sources import BEGIN, open_source
from keras_bert.text.vocabulary import Vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("sun", "moon", "sea", "wind", "tree", "bird", "rises", "sings", "falls", "sleeps")
PIECES = ("##s", "##ing", "##ed")
VOCABULARY = Vocabulary([*SPECIAL, ".", '"', *WORDS, *PIECES])


def write_text(folder):
    """40 documents of sentences and the vocabulary; returns the folder."""
    rng = np.random.default_rng(0)
    documents = []
    for _ in range(40):
        lines = [" ".join(rng.choice(WORDS, rng.integers(2, 12))) + "." for _ in range(8)]
        documents.append("\n".join(lines))
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    VOCABULARY.save(folder / "vocab.txt")
    return folder


def open_corpus(names, tokenizer, **options):
    """The first block of a corpus, by default the whole corpus."""
    return next(open_source(names, tokenizer, **options).blocks(0, BEGIN)).corpus
