"""Learning a WordPiece vocabulary from text.

The graph normalizes texts and splits them into words, as `WordPiece` does, and counts the words.
The pieces come from the byte-pair trainer of Hugging Face's `tokenizers` (extra `vocab`), which is
deterministic. The WordPiece trainer of `tokenizers` is not used, because it numbers pieces in the
order of a randomized hash table, so two runs differ. For the byte-pair trainer, each character is
written in two forms: one for the start of a word, and one for inside a word.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.errors import InputError
from keras_bert.text.files import iterate_lines
from keras_bert.text.training import (
    LONGEST_WORD,
    count_words,
    import_tokenizers,
    train_merges,
    warn_if_smaller,
)
from keras_bert.text.vocabulary import CONTINUATION, Vocabulary
from keras_bert.text.wordpiece.tokenizer import load_normalizer, split_words

_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_FIRST, _INSIDE = 0xF0000, 0x100000  # private-use planes for the two ways to write a character


def learn_vocabulary(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    size: int,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_cjk: bool = True,
    min_frequency: int = 2,
    max_alphabet: int = 1000,
    text_field: str = "text",
) -> Vocabulary:
    """Learns a WordPiece vocabulary from text files. The same files give the same result.

    Args:
        files: names, globs or addresses of text files; see `iterate_lines`.
        size: number of tokens, special tokens included. A small corpus gives fewer tokens.
        lowercase: option of the `WordPiece` that will use the vocabulary.
        strip_accents: option of the `WordPiece`.
        split_cjk: option of the `WordPiece`.
        min_frequency: smallest number of occurrences of a pair that is merged.
        max_alphabet: largest number of characters; the most frequent characters are kept.
        text_field: field with the text in records, as in JSON lines.

    Returns:
        `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]`, then the characters, then the pieces in the
        order of the merges.

    Raises:
        InputError: if a file cannot be used, the size is too small for the alphabet, or
            `tokenizers` is not installed.

    Example:
        >>> vocabulary = learn_vocabulary("corpus/*.txt", 30000)
        >>> vocabulary.save("vocab.txt")
    """
    import_tokenizers()
    strip_accents = lowercase if strip_accents is None else strip_accents
    normalizer = load_normalizer(lowercase=lowercase, strip_accents=strip_accents)
    lines = iterate_lines(files, text_field)
    counts = count_words(lines, split_normalized(normalizer, split_cjk=split_cjk))
    pieces = learn_pieces(
        counts,
        size - len(_SPECIAL_TOKENS),
        min_frequency=min_frequency,
        max_alphabet=max_alphabet,
    )
    vocabulary = Vocabulary([*_SPECIAL_TOKENS, *pieces])
    warn_if_smaller(len(vocabulary), size)
    return vocabulary


def split_normalized(
    normalizer: tf_text.FastBertNormalizer, *, split_cjk: bool = True
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the function that normalizes lines of text and splits them into words.

    Args:
        normalizer: the normalizer that `load_normalizer` returned.
        split_cjk: whether each CJK ideograph is a word.
    """
    return lambda lines: split_words(normalizer.normalize(lines), split_cjk=split_cjk)[0].values


def learn_pieces(
    counts: Mapping[str, int], size: int, *, min_frequency: int = 2, max_alphabet: int = 1000
) -> list[str]:
    """Learns pieces from counted words by byte-pair merges. Pieces inside a word begin with `##`.

    Args:
        counts: how often each word occurs.
        size: largest number of pieces.
        min_frequency: smallest number of occurrences of a pair that is merged.
        max_alphabet: largest number of characters; the most frequent characters are kept.

    Raises:
        InputError: if the characters alone are more than `size` pieces.
    """
    words = {word: count for word, count in counts.items() if len(word) <= LONGEST_WORD}
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


def _alphabet(words: Mapping[str, int], most: int) -> set[str]:
    """Returns the most frequent characters. If frequencies are equal, the lower code point wins."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    return set(sorted(counts, key=lambda character: (-counts[character], character))[:most])
