"""Pairs for ALBERT's sentence order objective (https://arxiv.org/abs/1909.11942, section 3.1)."""

import numpy as np

from keras_bert.pretraining.corpus import TokenizedCorpus
from keras_bert.pretraining.plans.chunks import chunks_at_every_unit, split_tokens, truncate
from keras_bert.pretraining.plans.plan import EpochPlan, follow, generator, shuffled_pairs


def plan_ordered_pairs(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> EpochPlan:
    """Consecutive parts of a document, half in their order, labelled 0, and half swapped, 1.

    The chunks are those of BERT, one after the other; one document is enough. A chunk of one unit
    is split inside, before a word or, where there is one word only, inside the word; what has
    only one token has no order and is left out.

    Args:
        corpus: the text.
        max_tokens: of both parts together: the sequence length less three special tokens.
        seed: of the random choices.
        epoch: number of the epoch; each has its own plan.
    """
    rng = generator(seed, epoch)
    chunks = chunks_at_every_unit(corpus, max_tokens, rng)
    start, split, end = split_tokens(corpus, chunks.take(follow(chunks.end)), rng)
    split = np.where(split == end, (start + end) // 2, split)
    has_order = split > start
    start, split, end = start[has_order], split[has_order], end[has_order]

    a_start, a_length, b_start, b_length = truncate(
        start, split - start, split, end - split, max_tokens, rng
    )
    is_swapped = rng.permutation(len(start)) % 2 == 1  # exactly half
    return shuffled_pairs(
        rng,
        np.where(is_swapped, b_start, a_start),
        np.where(is_swapped, b_length, a_length),
        np.where(is_swapped, a_start, b_start),
        np.where(is_swapped, a_length, b_length),
        is_swapped,
    )
