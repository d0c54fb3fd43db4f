"""Sequences packed across documents ("FULL-SENTENCES", https://arxiv.org/abs/1907.11692)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keras_bert.pretraining.data.example_index.index import (
    ExampleIndex,
    follow,
    generator,
    shuffled_spans,
)
from keras_bert.text.rows import numbers_of

if TYPE_CHECKING:
    from keras_bert.pretraining.data.corpus import TokenizedCorpus

EARLIER = 0.1
"""Share of sequences that leave their last sentence to the next, so that epochs cut differently."""


def segments_index(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> ExampleIndex:
    """Single spans of `max_tokens` for masked language modelling alone.

    They do not cross documents and hold every token once. The first span of a long document is
    shorter at random, so that epochs cut differently.
    """
    rng = generator(seed, epoch)
    return shuffled_spans(rng, *spans_of_documents(corpus, max_tokens, rng))


def spans_of_documents(
    corpus: TokenizedCorpus, max_tokens: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Where the spans begin, and how many tokens they have, `[N]` int64, in order."""
    document_start = corpus.sentence_splits[corpus.document_splits]
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


def full_sentences_index(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> ExampleIndex:
    """Spans of whole sentences, as many as fit, that go on into the next document.

    Every token of text stands in exactly one of them. A sentence longer than `max_tokens` is
    cut. Where documents end with a separator (`corpus.with_document_separators`), it stands
    between their texts; at the end of a span it is left out, for `[SEP]` follows there anyway.

    Args:
        corpus: the text, with separators after its documents or without.
        max_tokens: the sequence length less two special tokens.
        seed: of the random choices.
        epoch: number of the epoch; each has its own examples.
    """
    rng = generator(seed, epoch)
    starts, stops = _pieces(corpus, max_tokens)
    piece = np.arange(len(starts))
    end = np.searchsorted(stops, starts + max_tokens, side="right")  # the first that is too far
    end -= (rng.random(len(piece)) < EARLIER) & (end - piece > 1)
    first = follow(end)
    return shuffled_spans(rng, starts[first], stops[end[first] - 1] - starts[first])


def _pieces(corpus: TokenizedCorpus, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends `[P]` of the sentences' texts, long sentences cut to `max_tokens`."""
    starts, stops = corpus.sentence_splits[:-1], corpus.sentence_splits[1:].copy()
    last = corpus.document_splits[1:] - 1
    if corpus.separator_id is not None:
        stops[last] -= corpus.tokens[stops[last] - 1] == corpus.separator_id
    count = -(-(stops - starts) // max_tokens)
    starts = np.repeat(starts, count) + numbers_of(count) * max_tokens
    return starts, np.minimum(starts + max_tokens, np.repeat(stops, count))
