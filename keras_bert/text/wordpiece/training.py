"""Learning a WordPiece vocabulary from text.

Words are counted in the graph, normalized and split exactly as `WordPiece` will do it. The merges
come from the byte-pair trainer of Hugging Face's `tokenizers` (extra `vocab`). Its own WordPiece
trainer numbers pieces in the order of a randomised hash table, so that two runs differ. Here each
character is written in two ways, one for the start of a word and one for inside it, and plain
byte-pair training, which is deterministic, finds the same kind of pieces.
"""

from __future__ import annotations

import functools
import itertools
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.errors import InputError
from keras_bert.extras import require
from keras_bert.text.files import iterate_lines
from keras_bert.text.vocabulary import CONTINUATION, Vocabulary
from keras_bert.text.wordpiece.tokenizer import load_normalizer, split_words

_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LINES_PER_BATCH = 4096
_REPETITIONS = 1000  # of a word in one string for the trainer, which is slow on long strings
_LONGEST_WORD = 100  # a longer word is unknown to WordPiece anyway
_FIRST, _INSIDE = 0xF0000, 0x100000  # private-use planes for the two ways to write a character

import_tokenizers = functools.partial(require, "tokenizers", "vocab", "Learning a vocabulary")
"""The package that trains."""

_logger = logging.getLogger(__name__)


def learn_vocabulary(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    size: int,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_cjk: bool = True,
    min_frequency: int = 2,
    max_alphabet: int = 1000,
) -> Vocabulary:
    """Learns the pieces of words that text files are made of; the same files, the same result.

    Args:
        files: names or globs of text files, plain or gzip.
        size: tokens to learn, special ones among them; fewer come of a small corpus.
        lowercase: as the `WordPiece` that will use the vocabulary.
        strip_accents: as that `WordPiece`.
        split_cjk: as that `WordPiece`.
        min_frequency: how often two pieces must stand together to be merged.
        max_alphabet: how many characters, the most frequent, are kept.

    Returns:
        `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]`, the characters, the pieces in the order in
        which they were merged.

    Raises:
        InputError: for files that cannot be used, a size too small for the alphabet, or if
            `tokenizers` is not installed.
    """
    import_tokenizers()
    strip_accents = lowercase if strip_accents is None else strip_accents
    normalizer = load_normalizer(lowercase=lowercase, strip_accents=strip_accents)
    counts = count_words(iterate_lines(files), normalizer, split_cjk=split_cjk)
    pieces = learn_pieces(
        counts,
        size - len(_SPECIAL_TOKENS),
        min_frequency=min_frequency,
        max_alphabet=max_alphabet,
    )
    vocabulary = Vocabulary([*_SPECIAL_TOKENS, *pieces])
    if len(vocabulary) < size:
        _logger.warning(
            "The text holds %d tokens that occur often enough, not %d.", len(vocabulary), size
        )
    return vocabulary


def count_words(
    lines: Iterable[str], normalizer: tf_text.FastBertNormalizer, *, split_cjk: bool = True
) -> Counter[str]:
    """How often each word occurs in lines of text.

    Args:
        lines: texts.
        normalizer: from `load_normalizer`.
        split_cjk: whether each CJK ideograph is a word.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def words_of(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        words, _, _ = split_words(normalizer.normalize(texts), split_cjk=split_cjk)
        return tf.unique_with_counts(words.values)[::2]

    total: Counter[bytes] = Counter()
    lines = iter(lines)
    while batch := list(itertools.islice(lines, _LINES_PER_BATCH)):
        words, counts = words_of(tf.constant(batch))
        for word, count in zip(words.numpy(), counts.numpy().tolist(), strict=True):
            total[word] += count
    return Counter({word.decode(): count for word, count in total.items()})


def learn_pieces(
    counts: Mapping[str, int], size: int, *, min_frequency: int = 2, max_alphabet: int = 1000
) -> list[str]:
    """Pieces, at most `size`, by byte-pair merges of counted words (`##` inside a word).

    Raises:
        InputError: if the characters alone are more than `size`.
    """
    words = {word: count for word, count in counts.items() if len(word) <= _LONGEST_WORD}
    alphabet = _alphabet(words, max_alphabet)
    words = {word: count for word, count in words.items() if alphabet.issuperset(word)}
    inside = {character for word in words for character in word[1:]}
    if len(alphabet) + len(inside) > size:
        smallest = len(alphabet) + len(inside) + len(_SPECIAL_TOKENS)
        raise InputError(
            f"A vocabulary of {size + len(_SPECIAL_TOKENS)} tokens cannot hold the characters of "
            f"the text: give it at least {smallest}, or lower max_alphabet."
        )
    characters = sorted(alphabet)
    as_first = {ord(c): _FIRST + index for index, c in enumerate(characters)}
    as_inside = {ord(c): _INSIDE + index for index, c in enumerate(characters)}

    def written(word: str) -> str:
        return word[0].translate(as_first) + word[1:].translate(as_inside)

    def read(piece: str) -> str:
        text = "".join(characters[ord(c) & 0xFFFF] for c in piece)
        return text if ord(piece[0]) < _INSIDE else CONTINUATION + text

    alphabet_written = [
        *(chr(code) for code in as_first.values()),
        *(chr(as_inside[ord(c)]) for c in inside),
    ]
    counts = {written(word): count for word, count in words.items()}
    tokens, _ = train_merges(counts, size, alphabet_written, min_frequency=min_frequency)
    return [read(piece) for piece in tokens]


def train_merges(
    counts: Mapping[str, int], size: int, alphabet: Sequence[str], *, min_frequency: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Byte-pair training on counted words without white space.

    Returns:
        The alphabet and what was merged of it, at most `size` tokens, and the merges in order.
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


def _alphabet(words: Mapping[str, int], most: int) -> set[str]:
    """The most frequent characters; of equally frequent ones, the first in Unicode."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    return set(sorted(counts, key=lambda character: (-counts[character], character))[:most])
