"""Index of the examples of an epoch: the spans of text in each example."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class ExampleIndex:
    """The examples of an epoch, in the order in which they are seen, all `[N]` int64.

    Example n is `tokens[a_start : a_start + a_length]` and, where there are pairs, `tokens[b_start
    : b_start + b_length]`; `label` is what the pair's objective asks, 0 where the second part
    follows the first.
    """

    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.a_start)


def generator(seed: int, epoch: int) -> np.random.Generator:
    """Random numbers of an epoch."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, epoch))))


def follow(following: np.ndarray) -> np.ndarray:
    """Sentences at which spans begin: 0, then the sentence `following` `[U]` it, and so on."""
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
    """Pairs in random order."""
    order = rng.permutation(len(a_start))
    columns = (a_start, a_length, b_start, b_length, label)
    return ExampleIndex(*(column[order].astype(np.int64) for column in columns))


def shuffled_spans(rng: np.random.Generator, start: np.ndarray, length: np.ndarray) -> ExampleIndex:
    """Examples of one span, in random order."""
    nothing = np.zeros_like(start)
    return shuffled_pairs(rng, start, length, nothing, nothing, nothing)
