"""Index of the examples of an epoch: the spans of text in each example.

All random choices depend only on the seed, the epoch and the text, so every process makes the same
index. The module `sentence_pairs` makes pairs of texts.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from keras_bert.text.rows import numbers_of, splits_of

if TYPE_CHECKING:
    from keras_bert.pretraining.data.corpus import TokenizedCorpus

EARLIER = 0.1
"""Ratio of spans that end one sentence earlier than they could, so that epochs differ."""

SPECIAL = 2
"""Number of special tokens in a span: `[CLS]` and `[SEP]`."""


@dataclasses.dataclass(frozen=True, eq=False)
class ExampleIndex:
    """The examples of an epoch in the order of training. All columns are `[N]` int64.

    An example is `tokens[a_start : a_start + a_length]` and, in a pair, also `tokens[b_start :
    b_start + b_length]`. `label` is the pair's label: 0 if the second part follows the first in the
    text.
    """

    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.a_start)


@dataclasses.dataclass(frozen=True, eq=False)
class PackedExampleIndex:
    """The rows of an epoch in the order of training. All columns are int64.

    Row n has the spans from `row_splits[n]` to `row_splits[n + 1] - 1`; `row_splits` is `[N + 1]`.
    Span m is `tokens[start[m] : start[m] + length[m]]`. `cell[m]` is the position of span m's
    `[CLS]` after all rows were padded and joined. `start`, `length` and `cell` are `[M]`.
    """

    start: np.ndarray
    length: np.ndarray
    cell: np.ndarray
    row_splits: np.ndarray

    def __len__(self) -> int:
        return len(self.row_splits) - 1


AnyExampleIndex = ExampleIndex | PackedExampleIndex


def generator(seed: int, epoch: int, block: int = 0) -> np.random.Generator:
    """Returns the random generator of a block in an epoch."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, epoch, block))))


def follow(following: np.ndarray) -> np.ndarray:
    """Returns the sentences that begin spans: 0, `following[0]`, `following[following[0]]`, ...

    If a span begins at sentence s, the next span begins at sentence `following[s]`.
    """
    following = following.tolist()
    begins, sentence = [], 0
    while sentence < len(following):
        begins.append(sentence)
        sentence = following[sentence]
    return np.array(begins)


def shuffled_pairs(
    rng: np.random.Generator,
    a_start: np.ndarray,
    a_length: np.ndarray,
    b_start: np.ndarray,
    b_length: np.ndarray,
    label: np.ndarray,
) -> ExampleIndex:
    """Shuffles pairs of texts."""
    order = rng.permutation(len(a_start))
    columns = (a_start, a_length, b_start, b_length, label)
    return ExampleIndex(*(column[order].astype(np.int64) for column in columns))


def shuffled_spans(rng: np.random.Generator, start: np.ndarray, length: np.ndarray) -> ExampleIndex:
    """Shuffles examples of one text."""
    nothing = np.zeros_like(start)
    return shuffled_pairs(rng, start, length, nothing, nothing, nothing)


def segments_index(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0, block: int = 0
) -> ExampleIndex:
    """Returns examples of one span each, of up to `max_tokens` tokens, for objectives of one text.

    Spans do not cross documents. Every token is in exactly one span. The first span of a long
    document has a random length, so that each epoch cuts the text differently.
    """
    rng = generator(seed, epoch, block)
    return shuffled_spans(rng, *spans_of_documents(corpus, max_tokens, rng))


def spans_of_documents(
    corpus: TokenizedCorpus, max_tokens: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the start and the length of each span, `[N]` int64, in the order of the text."""
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
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0, block: int = 0
) -> ExampleIndex:
    """Returns examples of one span each. A span has whole sentences and may cross documents.

    As in RoBERTa's "FULL-SENTENCES" (https://arxiv.org/abs/1907.11692), a span has as many
    sentences as fit, but about 10 % of the spans have one sentence less. Every token of text is in
    exactly one span. A sentence longer than `max_tokens` is cut. A separator at the end of a
    document (`corpus.with_document_separators`) stays if text of the next document follows in the
    span. At the end of a span, the separator is left out, because `[SEP]` follows.

    Args:
        corpus: tokenized text, with or without separators after its documents.
        max_tokens: sequence length minus two special tokens.
        seed: seed of the random choices.
        epoch: number of the epoch. Each epoch has other examples.
        block: number of the block in its epoch, if `corpus` is a block of a larger corpus.
    """
    rng = generator(seed, epoch, block)
    starts, stops = _pieces(corpus, max_tokens)
    piece = np.arange(len(starts))
    end = np.searchsorted(stops, starts + max_tokens, side="right")  # first piece that does not fit
    end -= (rng.random(len(piece)) < EARLIER) & (end - piece > 1)
    first = follow(end)
    return shuffled_spans(rng, starts[first], stops[end[first] - 1] - starts[first])


def _pieces(corpus: TokenizedCorpus, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns starts and ends `[P]` of sentences. Long sentences are cut to `max_tokens`."""
    starts, stops = corpus.sentence_splits[:-1], corpus.sentence_splits[1:].copy()
    last = corpus.document_splits[1:] - 1
    if corpus.separator_id is not None:
        stops[last] -= corpus.tokens[stops[last] - 1] == corpus.separator_id
    count = -(-(stops - starts) // max_tokens)
    starts = np.repeat(starts, count) + numbers_of(count) * max_tokens
    return starts, np.minimum(starts + max_tokens, np.repeat(stops, count))


def packed_index(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0, block: int = 0
) -> PackedExampleIndex:
    """Returns rows that are filled with several spans. Each token of text is in exactly one row.

    Packs the spans of `segments_index`, which are documents or pieces of long documents. As in
    Krell et al. 2021 (https://arxiv.org/abs/2107.02027), each span keeps its own `[CLS]` and
    `[SEP]`, and its tokens attend only to each other.

    Args:
        corpus: tokenized text.
        max_tokens: length of a row minus the two special tokens of its first span.
        seed: seed of the random choices.
        epoch: number of the epoch. Each epoch has other examples.
        block: number of the block in its epoch, if `corpus` is a block of a larger corpus.
    """
    rng = generator(seed, epoch, block)
    start, length = spans_of_documents(corpus, max_tokens, rng)
    order = rng.permutation(len(start))  # decides which spans share a row
    start, length = start[order], length[order]
    row = best_fit(length + SPECIAL, max_tokens + SPECIAL)
    row = rng.permutation(row.max() + 1)[row]
    order = np.argsort(row, kind="stable")
    start, length, row = start[order], length[order], row[order]
    row_splits = splits_of(np.bincount(row))
    before = splits_of(length + SPECIAL)[:-1]
    column = before - before[row_splits[:-1]][row]
    return PackedExampleIndex(start, length, row * (max_tokens + SPECIAL) + column, row_splits)


def best_fit(sizes: np.ndarray, capacity: int) -> np.ndarray:
    """Packs items of these `sizes` `[M]` into rows; returns each item's row `[M]`, from 0 on.

    Places the largest items first, each into the row with the least room that is enough. Items of
    the same size are placed together, so that the time hardly depends on the number of items.
    """
    result = np.empty(len(sizes), np.int64)
    rows_with_room = [np.zeros(0, np.int64)] * (
        capacity + 1
    )  # rows by the room that is left in them
    rows = 0
    by_size = np.argsort(-sizes, kind="stable")
    for group in np.split(by_size, np.flatnonzero(np.diff(sizes[by_size])) + 1):
        size = sizes[group[0]]
        while len(group):
            room = next((r for r in range(size, capacity) if len(rows_with_room[r])), capacity)
            if room == capacity:
                new = -(-len(group) // (capacity // size))
                rows_with_room[room] = np.arange(rows, rows + new)
                rows += new
            taken, left = np.split(rows_with_room[room], [len(group)])
            result[group[: len(taken)]] = taken
            rows_with_room[room] = left
            rows_with_room[room - size] = np.append(rows_with_room[room - size], taken)
            group = group[len(taken) :]
    return result
