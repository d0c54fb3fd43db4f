"""Single stretches of a document ("DOC-SENTENCES", https://arxiv.org/abs/1907.11692)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keras_bert.pretraining.data.example_index.plan import EpochPlan, generator, shuffled_stretches
from keras_bert.text.rows import numbers_of

if TYPE_CHECKING:
    from keras_bert.pretraining.data.corpus import TokenizedCorpus


def plan_segments(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> EpochPlan:
    """Single stretches of `max_tokens` for masked language modelling alone.

    They do not cross documents and hold every token once. The first stretch of a long document is
    shorter at random, so that epochs cut differently.
    """
    rng = generator(seed, epoch)
    return shuffled_stretches(rng, *stretches_of_documents(corpus, max_tokens, rng))


def stretches_of_documents(
    corpus: TokenizedCorpus, max_tokens: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Where the stretches begin, and how many tokens they have, `[N]` int64, in order."""
    document_start = corpus.unit_splits[corpus.document_splits]
    length = np.diff(document_start)
    first = np.minimum(rng.integers(1, max_tokens + 1, len(length)), length)
    first = np.where(length <= max_tokens, length, first)
    count = 1 + -(-(length - first) // max_tokens)
    document = np.repeat(np.arange(len(length)), count)
    number = numbers_of(count)
    offset = np.where(number > 0, first[document] + (number - 1) * max_tokens, 0)
    size = np.where(number > 0, max_tokens, first[document])
    size = np.minimum(size, length[document] - offset)
    return document_start[document] + offset, size
