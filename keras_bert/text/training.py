"""Training that WordPiece and byte-pair encoding share: counts words and merges pairs of tokens."""

import functools
import itertools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import tensorflow as tf

from keras_bert.extras import require

LONGEST_WORD = 100
"""Length of the longest word to train on; the trainer is slow on longer words."""

_LINES_PER_BATCH = 4096
_REPETITIONS = 1000  # most repetitions of a word in a string; the trainer is slow on long strings

import_tokenizers = functools.partial(require, "tokenizers", "vocab", "Learning a vocabulary")
"""Imports Hugging Face's `tokenizers`, which does the training."""

_logger = logging.getLogger(__name__)


def count_words(lines: Iterable[str], split: Callable[[tf.Tensor], tf.Tensor]) -> Counter[str]:
    """Counts the words in lines of text.

    Args:
        lines: lines of text.
        split: function that returns the words `[W]` of lines `[N]`, for use in a `tf.function`.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def words_of(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.unique_with_counts(split(texts))[::2]

    total: Counter[bytes] = Counter()
    lines = iter(lines)
    while batch := list(itertools.islice(lines, _LINES_PER_BATCH)):
        words, counts = words_of(tf.constant(batch))
        for word, count in zip(words.numpy(), counts.numpy().tolist(), strict=True):
            total[word] += count
    return Counter({word.decode(): count for word, count in total.items()})


def train_merges(
    counts: Mapping[str, int], size: int, alphabet: Sequence[str], *, min_frequency: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Trains byte-pair encoding on counted words.

    Args:
        counts: how often each word occurs. Words have no white space.
        size: largest number of tokens.
        alphabet: tokens to start with.
        min_frequency: smallest count of a pair that is merged.

    Returns:
        The tokens, which are the alphabet and the merged tokens, and the merges in order.
    """
    tokenizers = import_tokenizers()

    def repeated() -> Iterator[str]:
        for word, count in sorted(counts.items()):
            for done in range(0, count, _REPETITIONS):
                yield f"{word} " * min(_REPETITIONS, count - done)

    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        initial_alphabet=list(alphabet),
        show_progress=False,
    )
    model.train_from_iterator(repeated(), trainer)
    ids = model.get_vocab()
    merges = json.loads(model.to_str())["model"]["merges"]
    return sorted(ids, key=ids.__getitem__), [(first, second) for first, second in merges]


def warn_if_smaller(found: int, size: int) -> None:
    """Logs a warning if the text gave fewer tokens than requested."""
    if found < size:
        _logger.warning(
            "The vocabulary has only %d tokens, not %d: no others occur often enough in the text.",
            found,
            size,
        )
