"""Pairs of texts: BERT's next sentence objective and ALBERT's sentence order objective."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from keras_bert.errors import InputError
from keras_bert.pretraining.data.example_index import (
    ExampleIndex,
    follow,
    generator,
    shuffled_pairs,
)
from keras_bert.text.rows import numbers_of, splits_of

if TYPE_CHECKING:
    from keras_bert.pretraining.data.corpus import TokenizedCorpus

BLOCK = 2**14
"""Number of one-sentence chunks to read into memory at a time."""

SHORTER = 0.1
"""Ratio of chunks that are filled to a random smaller length, so that training sees short texts."""


def next_sentence_index(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0, block: int = 0
) -> ExampleIndex:
    """Returns pairs of texts. In half of the pairs, the second text is random text (label 1).

    In the other pairs, the second text follows the first (label 0). A chunk is filled with
    sentences of one document until it has `max_tokens` tokens or, in 10 % of the cases, a random
    smaller number of tokens. It is split between sentences into two parts. In half of the cases,
    text of another document replaces the second part. Then the next chunk begins with the original
    second part.

    Only the end of a document can be a chunk of one sentence. Such a chunk is split inside the
    sentence. If random text replaces the second part, the text is the second part of another such
    sentence. So no text is lost, and the position of the split does not tell which pairs are
    consecutive.

    Args:
        corpus: tokenized text with at least two documents.
        max_tokens: length of both parts together: the sequence length minus three special tokens.
        seed: seed of the random choices.
        epoch: number of the epoch. Each epoch has other examples.
        block: number of the block in its epoch, if `corpus` is a block of a larger corpus.

    Raises:
        InputError: if the corpus has fewer than two documents.
    """
    if corpus.num_documents < 2:
        raise InputError(
            "There is only one document, but the next sentence objective takes random text from "
            "another document: end documents with a blank line, or choose the objective 'mlm'."
        )
    rng = generator(seed, epoch, block)
    chunks, target = chunks_at_every_sentence(corpus, max_tokens, rng)
    is_random = rng.random(corpus.num_sentences) < 0.5
    begins = follow(np.where(is_random & ~chunks.is_single, chunks.split, chunks.end))

    # From here on, arrays have one element for each chunk.
    chunks, target, is_random = chunks.take(begins), target[begins], is_random[begins]
    a_start, a_end, chunk_end = split_tokens(corpus, chunks, rng)
    is_random |= a_end == chunk_end  # a single word cannot be split, so random text must follow

    starts = corpus.sentence_splits
    b_start, b_end = a_end.copy(), chunk_end.copy()
    own = corpus.document_of_sentence[chunks.sentence]
    other = (own + 1 + rng.integers(0, corpus.num_documents - 1, len(own))) % corpus.num_documents
    first, last = corpus.document_splits[other], corpus.document_splits[other + 1]
    picked = rng.integers(first, last)
    wanted = np.maximum(target - (a_end - a_start), 1)
    picked_end = np.minimum(np.searchsorted(starts, starts[picked] + wanted), last)
    b_start[is_random], b_end[is_random] = starts[picked][is_random], starts[picked_end][is_random]
    halves = np.flatnonzero(is_random & chunks.is_single & (a_end < chunk_end))
    if len(halves) > 1:
        halves = rng.permutation(halves)
        following = np.roll(halves, -1)
        b_start[halves], b_end[halves] = a_end[following], chunk_end[following]

    parts = truncate(a_start, a_end - a_start, b_start, b_end - b_start, max_tokens, rng)
    return shuffled_pairs(rng, *parts, is_random)


def sentence_order_index(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0, block: int = 0
) -> ExampleIndex:
    """Returns pairs of consecutive texts. Half of the pairs are swapped (label 1, else 0).

    A span has as many sentences of one document as fit into `max_tokens` or, in 10 % of the cases,
    into a random smaller number of tokens. The span is split between two sentences into a pair. A
    span of one sentence is split before a word or, if it has only one word, inside the word. A span
    of one token is left out. The corpus may have only one document.

    A model must not be able to guess the order from lengths. In BERT's chunks, the last sentence
    exceeds the length, so second parts are longer, and lengths alone tell the order in 60 to 66 %
    of the cases. So spans here have only whole sentences. In one half of each document, spans are
    filled backwards, from the end of this half.

    Args:
        corpus: tokenized text.
        max_tokens: length of both parts together: the sequence length minus three special tokens.
        seed: seed of the random choices.
        epoch: number of the epoch. Each epoch has other examples.
        block: number of the block in its epoch, if `corpus` is a block of a larger corpus.
    """
    rng = generator(seed, epoch, block)
    first, end = _spans(corpus, max_tokens, rng)
    start, split, end = split_tokens(corpus, split_between_sentences(first, end, rng), rng)
    split = np.where(split == end, (start + end) // 2, split)
    has_order = split > start
    start, split, end = start[has_order], split[has_order], end[has_order]

    is_swapped = rng.permutation(len(start)) % 2 == 1  # exactly half
    parts = truncate(
        np.where(is_swapped, split, start),
        np.where(is_swapped, end - split, split - start),
        np.where(is_swapped, start, split),
        np.where(is_swapped, split - start, end - split),
        max_tokens,
        rng,
    )
    return shuffled_pairs(rng, *parts, is_swapped)


@dataclasses.dataclass(frozen=True, eq=False)
class Chunks:
    """N chunks of sentences from `sentence` to `end - 1`. The second part begins at `split`.

    If a chunk has one sentence, `split` is `end`. In BERT's data, only the end of a document can
    be such a chunk.
    """

    sentence: np.ndarray
    split: np.ndarray
    end: np.ndarray

    @property
    def is_single(self) -> np.ndarray:
        """Whether each chunk has only one sentence, bool `[N]`."""
        return self.split == self.end

    def take(self, chosen: np.ndarray) -> Chunks:
        """Returns the chosen chunks."""
        return Chunks(*(column[chosen] for column in dataclasses.astuple(self)))


def chunks_at_every_sentence(
    corpus: TokenizedCorpus, max_tokens: int, rng: np.random.Generator
) -> tuple[Chunks, np.ndarray]:
    """Returns the chunk that begins at each sentence, and its target number of tokens, `[S]`.

    A chunk is filled with sentences of one document until it has `max_tokens` tokens or, in 10 % of
    the cases, a random smaller number of tokens. It is split in two at random, between sentences.
    """
    sentences = corpus.num_sentences
    starts = corpus.sentence_splits
    sentence = np.arange(sentences)
    document_end = corpus.document_splits[1:][corpus.document_of_sentence]
    shorter = rng.random(sentences) < SHORTER
    target = np.where(shorter, rng.integers(2, max_tokens + 1, sentences), max_tokens)
    end = np.searchsorted(starts, starts[:-1] + target)  # first boundary at or after the target
    end = np.minimum(np.maximum(end, sentence + 2), document_end)
    return split_between_sentences(sentence, end, rng), target


def split_between_sentences(
    sentence: np.ndarray, end: np.ndarray, rng: np.random.Generator
) -> Chunks:
    """Makes chunks from `sentence` to `end`. Chunks of two or more sentences are split."""
    split = sentence + 1 + (rng.random(len(sentence)) * (end - sentence - 1)).astype(np.int64)
    return Chunks(sentence, split, end)


def split_tokens(
    corpus: TokenizedCorpus, chunks: Chunks, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the indices of the tokens at which chunks begin, are split, and end, `[N]` each.

    A chunk of one sentence is split before a word. A chunk of only one word is not split: its split
    is its end.
    """
    start, end = corpus.sentence_splits[chunks.sentence], corpus.sentence_splits[chunks.end]
    split, draws = corpus.sentence_splits[chunks.split], rng.random(len(start))
    single = np.flatnonzero(chunks.is_single)
    for first in range(0, len(single), BLOCK):
        some = single[first : first + BLOCK]
        split[some] = _word_start_inside(corpus, start[some], end[some], draws[some])
    return start, split, end


def truncate(
    a_start: np.ndarray,
    a_length: np.ndarray,
    b_start: np.ndarray,
    b_length: np.ndarray,
    max_tokens: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Removes tokens from the longer part, at its start or end at random, until both parts fit."""
    kept_a = np.minimum(a_length, np.maximum((max_tokens + 1) // 2, max_tokens - b_length))
    kept_b = np.minimum(b_length, max_tokens - kept_a)
    from_front_a = rng.binomial(a_length - kept_a, 0.5)
    from_front_b = rng.binomial(b_length - kept_b, 0.5)
    return a_start + from_front_a, kept_a, b_start + from_front_b, kept_b


def _word_start_inside(
    corpus: TokenizedCorpus, start: np.ndarray, end: np.ndarray, draws: np.ndarray
) -> np.ndarray:
    """Draws the start of a word between `start` and `end`. If there is only one word: `end`."""
    lengths = end - start
    bounds = splits_of(lengths)
    tokens = np.repeat(start, lengths) + numbers_of(lengths)
    begins = ~corpus.is_continuation[corpus.tokens[tokens]]
    begins[bounds[:-1]] = False
    before = splits_of(begins)
    number = np.diff(before[bounds])
    chosen = before[bounds[:-1]] + (draws * number).astype(np.int64)
    words = np.append(tokens[begins], 0)  # if no word begins, `chosen` is one beyond the end
    return np.where(number > 0, words[chosen], end)


def _spans(
    corpus: TokenizedCorpus, max_tokens: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sentences at which spans begin and end, `[N]` each.

    A sentence that does not fit begins the next span. So the first sentence of a span tends to be
    long. If spans are filled backwards, the last sentence tends to be long.
    """
    sentences, splits = corpus.num_sentences, corpus.sentence_splits
    target = rng.integers(2, max_tokens + 1, sentences)
    target = np.where(rng.random(sentences) < SHORTER, target, max_tokens)
    middles = (corpus.document_splits[:-1] + corpus.document_splits[1:]) // 2
    halves = np.sort(np.concatenate([corpus.document_splits, middles]))
    first, end = _filled(splits, halves, target)
    last_first, last_end = _filled(
        splits[-1] - splits[::-1], sentences - halves[::-1], target[::-1]
    )
    backwards_in = rng.integers(0, 2, len(middles))  # index of the half to fill backwards

    def is_backwards(sentence: np.ndarray) -> np.ndarray:
        document = corpus.document_of_sentence[sentence]
        return (sentence >= middles[document]) == backwards_in[document]

    backward = (sentences - last_end)[::-1], (sentences - last_first)[::-1]
    kept, kept_backward = ~is_backwards(first), is_backwards(backward[0])
    return tuple(  # type: ignore[return-value]
        np.concatenate([a[kept], b[kept_backward]])
        for a, b in zip((first, end), backward, strict=True)
    )


def _filled(
    splits: np.ndarray, halves: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fills spans one after the other; returns their starts and ends. No span is in two halves."""
    sentence = np.arange(len(target))
    limit = halves[np.searchsorted(halves, sentence, side="right")]
    end = np.searchsorted(splits, splits[:-1] + target, side="right") - 1
    end = np.minimum(np.maximum(end, sentence + 1), limit)
    first = follow(end)
    return first, end[first]
