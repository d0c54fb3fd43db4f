"""Pairs for BERT's next sentence objective (https://arxiv.org/abs/1810.04805, section 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keras_bert.errors import InputError
from keras_bert.pretraining.data.example_index.chunks import (
    chunks_at_every_unit,
    split_tokens,
    truncate,
)
from keras_bert.pretraining.data.example_index.plan import (
    EpochPlan,
    follow,
    generator,
    shuffled_pairs,
)

if TYPE_CHECKING:
    from keras_bert.pretraining.data.corpus import TokenizedCorpus


def plan_pairs(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> EpochPlan:
    """Pairs of which half are true, labelled 0, and half random, labelled 1.

    A chunk is filled with units of one document up to `max_tokens`, or in 10 % of the cases up to
    a random smaller number, and split in two between units. In half of the cases the second part
    is replaced by text of another document, and the chunk's own second part begins the next chunk.

    A chunk of one unit, which only the end of a document can be, is split inside. Where it gets a
    random continuation, that is the second half of another such unit: so no text is lost, and the
    place of the split does not tell which pairs are true.

    Args:
        corpus: at least two documents.
        max_tokens: of both parts together: the sequence length less three special tokens.
        seed: of the random choices.
        epoch: number of the epoch; each has its own plan.

    Raises:
        InputError: if the corpus has fewer than two documents.
    """
    if corpus.num_documents < 2:
        raise InputError(
            "One document is too few for the next sentence objective, which takes random text from "
            "another: end documents with a blank line, or choose the objective 'mlm'."
        )
    rng = generator(seed, epoch)
    chunks, target = chunks_at_every_unit(corpus, max_tokens, rng)
    is_random = rng.random(corpus.num_units) < 0.5
    begins = follow(np.where(is_random & ~chunks.is_single, chunks.split, chunks.end))

    # From here on, one row per chunk.
    chunks, target, is_random = chunks.take(begins), target[begins], is_random[begins]
    a_start, a_end, chunk_end = split_tokens(corpus, chunks, rng)
    is_random |= a_end == chunk_end  # one word cannot be split: only random text can follow

    starts = corpus.unit_splits
    b_start, b_end = a_end.copy(), chunk_end.copy()
    own = corpus.document_of_unit[chunks.unit]
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
