"""Which two stretches of text make an example: the plan of an epoch.

BERT's `create_instances_from_document` (google-research/bert, create_pretraining_data.py), for all
units of the corpus at once: what would happen if a chunk began at a unit is computed for every
unit, then the chain of chunks that do begin is followed. Every draw is a function of (seed, epoch,
unit).
"""

import dataclasses

import numpy as np

from keras_bert.errors import InputError
from keras_bert.pretraining.corpus import TokenizedCorpus

SHORTER = 0.1
"""Share of chunks filled to a random smaller length, so that such lengths are seen in training."""


@dataclasses.dataclass(frozen=True, eq=False)
class EpochPlan:
    """The examples of an epoch, in the order in which they are seen, all `[N]` int64.

    Example n is `tokens[a_start : a_start + a_length]` and, where there are pairs, `tokens[b_start
    : b_start + b_length]`; `is_random` is 1 if the second comes from another document.
    """

    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    is_random: np.ndarray

    def __len__(self) -> int:
        return len(self.a_start)


def plan_pairs(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> EpochPlan:
    """Pairs for the next sentence objective.

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
            "The text has one document, but the next sentence objective takes random text from "
            "another: end documents with a blank line, or choose the objective 'mlm'."
        )
    rng = _generator(seed, epoch)
    units = corpus.num_units
    starts = corpus.unit_splits
    unit = np.arange(units)
    document = corpus.document_of_unit
    document_end = corpus.document_splits[1:][document]

    shorter = rng.random(units) < SHORTER
    target = np.where(shorter, rng.integers(2, max_tokens + 1, units), max_tokens)
    end = np.searchsorted(starts, starts[:-1] + target)  # the first boundary that is far enough
    end = np.minimum(np.maximum(end, unit + 2), document_end)
    split = unit + 1 + (rng.random(units) * (end - unit - 1)).astype(np.int64)
    is_random = rng.random(units) < 0.5
    begins = _follow(np.where(is_random & (end - unit > 1), split, end))

    # From here on, one row per chunk.
    unit, end, target, is_random = (x[begins] for x in (unit, end, target, is_random))
    single = end - unit == 1
    a_start, chunk_end = starts[unit], starts[end]
    a_end = np.where(
        single, _word_start_inside(corpus, a_start, chunk_end, rng), starts[split[begins]]
    )
    is_random |= a_end == chunk_end  # one word cannot be split: only random text can follow

    b_start, b_end = a_end.copy(), chunk_end.copy()
    own = document[unit]
    other = (own + 1 + rng.integers(0, corpus.num_documents - 1, len(own))) % corpus.num_documents
    first, last = corpus.document_splits[other], corpus.document_splits[other + 1]
    picked = rng.integers(first, last)
    wanted = np.maximum(target - (a_end - a_start), 1)
    picked_end = np.minimum(np.searchsorted(starts, starts[picked] + wanted), last)
    b_start[is_random], b_end[is_random] = starts[picked][is_random], starts[picked_end][is_random]
    halves = np.flatnonzero(is_random & single & (a_end < chunk_end))
    if len(halves) > 1:
        halves = rng.permutation(halves)
        following = np.roll(halves, -1)
        b_start[halves], b_end[halves] = a_end[following], chunk_end[following]

    a_start, a_length, b_start, b_length = _truncate(
        a_start, a_end - a_start, b_start, b_end - b_start, max_tokens, rng
    )
    return _shuffled(rng, a_start, a_length, b_start, b_length, is_random)


def plan_segments(
    corpus: TokenizedCorpus, max_tokens: int, *, seed: int = 0, epoch: int = 0
) -> EpochPlan:
    """Single stretches of `max_tokens` for masked language modelling alone.

    As "DOC-SENTENCES" of RoBERTa (https://arxiv.org/abs/1907.11692), they do not cross documents.
    The first stretch of a long document is shorter at random, so that epochs cut differently.
    """
    rng = _generator(seed, epoch)
    document_start = corpus.unit_splits[corpus.document_splits]
    length = np.diff(document_start)
    first = np.minimum(rng.integers(1, max_tokens + 1, len(length)), length)
    first = np.where(length <= max_tokens, length, first)
    count = 1 + -(-(length - first) // max_tokens)
    document = np.repeat(np.arange(len(length)), count)
    number = np.arange(len(document)) - np.repeat(np.cumsum(count) - count, count)
    offset = np.where(number > 0, first[document] + (number - 1) * max_tokens, 0)
    size = np.where(number > 0, max_tokens, first[document])
    size = np.minimum(size, length[document] - offset)
    nothing = np.zeros_like(size)
    return _shuffled(rng, document_start[document] + offset, size, nothing, nothing, nothing)


PLANS = {"mlm+nsp": plan_pairs, "mlm": plan_segments}
"""The plan of each objective."""


def _generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, epoch))))


def _follow(following: np.ndarray) -> np.ndarray:
    """Units at which chunks begin: 0, the unit that follows its chunk, and so on to the end."""
    following = following.tolist()
    begins, unit = [], 0
    while unit < len(following):
        begins.append(unit)
        unit = following[unit]
    return np.array(begins)


def _word_start_inside(
    corpus: TokenizedCorpus, start: np.ndarray, end: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """A random word start between `start` and `end`, or `end` where there is one word only."""
    words = corpus.word_starts
    first = np.searchsorted(words, start, side="right")
    number = np.searchsorted(words, end) - first
    chosen = first + (rng.random(len(start)) * number).astype(np.int64)
    return np.where(number > 0, words[np.minimum(chosen, len(words) - 1)], end)


def _truncate(
    a_start: np.ndarray,
    a_length: np.ndarray,
    b_start: np.ndarray,
    b_length: np.ndarray,
    max_tokens: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Takes tokens from the longer part, from its front or its back at random, until both fit."""
    kept_a = np.minimum(a_length, np.maximum((max_tokens + 1) // 2, max_tokens - b_length))
    kept_b = np.minimum(b_length, max_tokens - kept_a)
    from_front_a = rng.binomial(a_length - kept_a, 0.5)
    from_front_b = rng.binomial(b_length - kept_b, 0.5)
    return a_start + from_front_a, kept_a, b_start + from_front_b, kept_b


def _shuffled(rng: np.random.Generator, *columns: np.ndarray) -> EpochPlan:
    order = rng.permutation(len(columns[0]))
    return EpochPlan(*(column[order].astype(np.int64) for column in columns))
