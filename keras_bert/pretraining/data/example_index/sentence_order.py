"""Pairs for ALBERT's sentence order objective (https://arxiv.org/abs/1909.11942, section 3.1).

Nothing but the text may tell the order. BERT's chunks would: their last sentence is the one
that went beyond the length, so second parts are longer, and lengths alone tell 60 to 66 % of the
orders. So spans are whole sentences, and in one half of each document they are filled from its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keras_bert.pretraining.data.example_index.index import (
    ExampleIndex,
    follow,
    generator,
    shuffled_pairs,
)
from keras_bert.pretraining.data.example_index.next_sentence import (
    SHORTER,
    split_between_sentences,
    split_tokens,
    truncate,
)

if TYPE_CHECKING:
    from keras_bert.pretraining.data.corpus import TokenizedCorpus


def sentence_order_index(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> ExampleIndex:
    """Consecutive parts of a document, half in their order, labelled 0, and half swapped, 1.

    A span is as many sentences as fit, or in 10 % of the cases fit into a random smaller number of
    tokens, and is split between two of them; one document is enough. One sentence is split inside,
    before a word or, where there is one word only, inside the word; what has only one token has no
    order and is left out.

    Args:
        corpus: the text.
        max_tokens: of both parts together: the sequence length less three special tokens.
        seed: of the random choices.
        epoch: number of the epoch; each has its own examples.
    """
    rng = generator(seed, epoch)
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


def _spans(
    corpus: TokenizedCorpus, max_tokens: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sentences `[N]` at which spans begin and end.

    What does not fit begins the next span, so the first sentence of a span is a long one; where
    spans are filled backwards, the last.
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
    backwards_in = rng.integers(0, 2, len(middles))  # the first half of a document, or the second

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
    """Where spans begin and end, filled one after the other; none crosses one of the halves."""
    sentence = np.arange(len(target))
    limit = halves[np.searchsorted(halves, sentence, side="right")]
    end = np.searchsorted(splits, splits[:-1] + target, side="right") - 1
    end = np.minimum(np.maximum(end, sentence + 1), limit)
    first = follow(end)
    return first, end[first]
