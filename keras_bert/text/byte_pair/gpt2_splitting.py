r"""GPT-2's splitting of text into words, without a regular expression.

The pattern of `encoder.py` (Radford et al., 2019) is

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

Whether a word begins at a character depends on the kinds of that character and of the two beside
it alone, except around the apostrophe of a contraction. So the kinds of all characters of a batch
are looked up at once, and what three kinds in a row mean in a small table. Every byte passes
through, and the version of Unicode is that of `character_kinds.py`.
"""

from __future__ import annotations

import itertools

import numpy as np
import tensorflow as tf

from keras_bert.text.byte_pair.character_kinds import Kind, kind_ranges, kinds_of
from keras_bert.text.characters import MOST_BYTES, code_points

_SHORT_ENDINGS = [ord(letter) for letter in "stmd"]  # of contractions, after the apostrophe
_LONG_ENDINGS = [ord(first) * 256 + ord(second) for first, second in ("re", "ve", "ll")]


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Bytes uint8 `[N, (words), (bytes)]` of the words of texts `[N]`.

    A word keeps the space before it, so the words of a text, joined, are the text. Bytes that are
    not UTF-8 pass through too.
    """
    data = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    text_splits = tf.pad(tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64)), [[1, 0]])
    # What follows is about the C characters of all texts, and the end, which counts as one.
    is_first_byte = _put(True, text_splits, tf.pad((data & 0xC0) != 0x80, [[0, 1]]))
    starts = tf.where(is_first_byte)[:, 0]
    text_begins = tf.gather(_index(is_first_byte), text_splits)
    begins_word = _begins_word(data, starts, text_begins)
    word_splits = tf.gather(starts, tf.where(begins_word)[:, 0])
    return tf.RaggedTensor.from_nested_row_splits(
        data, [tf.gather(_index(begins_word), text_begins), word_splits], validate=False
    )


def _begins_word(data: tf.Tensor, starts: tf.Tensor, text_begins: tf.Tensor) -> tf.Tensor:
    """Which characters are the first of a word: bool `[C + 1]`.

    Args:
        data: the bytes of all texts, uint8.
        starts: int64 `[C + 1]`, where each character starts in `data`.
        text_begins: int64 `[N + 1]`, which characters are the first of a text.
    """
    data = tf.pad(tf.cast(data, tf.int32), [[0, MOST_BYTES]])
    first_bytes = tf.gather(data, starts)
    kinds = _kinds(data, starts, first_bytes)
    begins_text = _put(True, text_begins, tf.zeros_like(starts, tf.bool))
    before = tf.where(begins_text, int(Kind.NONE), tf.roll(kinds, 1, axis=0))
    after = tf.roll(tf.where(begins_text, int(Kind.NONE), kinds), -1, axis=0)
    begins_word = tf.gather(_BEGINS_WORD, (before * len(Kind) + kinds) * len(Kind) + after)
    apostrophes, ends = _contractions(first_bytes, before, after)
    return _put(True, ends, _put(False, apostrophes + 1, begins_word))


def _kinds(data: tf.Tensor, starts: tf.Tensor, first_bytes: tf.Tensor) -> tf.Tensor:
    """Kinds of the characters: int32 `[C + 1]`."""
    beyond_ascii = tf.where(first_bytes >= 0x80)
    range_starts, range_kinds = kind_ranges()
    found = code_points(data, tf.gather_nd(starts, beyond_ascii))
    ranges = tf.searchsorted(range_starts, found, side="right") - 1
    kinds = tf.gather(_KINDS_OF_BYTES, first_bytes)
    return tf.tensor_scatter_nd_update(kinds, beyond_ascii, tf.gather(range_kinds, ranges))


def _contractions(
    first_bytes: tf.Tensor, before: tf.Tensor, after: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Contractions that are words by themselves, such as `'re`.

    Args:
        first_bytes: int32 `[C + 1]` of the characters.
        before: kinds int32 `[C + 1]` of the characters before them, in the same text.
        after: kinds int32 `[C + 1]` of those after them.

    Returns:
        Apostrophes and what comes after the contractions, as indices of characters int64 `[X]`.
    """
    apostrophes = tf.where(first_bytes == ord("'"))[:, 0]
    first = tf.gather(first_bytes, apostrophes + 1)
    second = tf.gather(tf.pad(first_bytes, [[0, 1]]), apostrophes + 2)
    # A letter in the next text has the kind NONE, seen from this one.
    first_is_here = tf.gather(after, apostrophes) == int(Kind.LETTER)
    second_is_here = tf.gather(after, apostrophes + 1) == int(Kind.LETTER)
    is_short = _is_one_of(first, _SHORT_ENDINGS)
    is_long = _is_one_of(first * 256 + second, _LONG_ENDINGS) & second_is_here
    # After these, the apostrophe belongs to a word that has begun before it.
    is_inside = _is_one_of(tf.gather(before, apostrophes), [int(Kind.OTHER), int(Kind.SPACE)])
    found = tf.where(first_is_here & ~is_inside & (is_short | is_long))[:, 0]
    apostrophes = tf.gather(apostrophes, found)
    return apostrophes, apostrophes + 2 + tf.cast(tf.gather(is_long, found), tf.int64)


def _put(value: bool, places: tf.Tensor, into: tf.Tensor) -> tf.Tensor:
    """`into` `[X]` bool with the value at some places int64 `[Y]`."""
    values = tf.fill(tf.shape(places), value)
    return tf.tensor_scatter_nd_update(into, places[:, tf.newaxis], values)


def _index(is_first: tf.Tensor) -> tf.Tensor:
    """How many `True` come before each element, but one: int64 `[X]` of bool `[X]`."""
    return tf.cumsum(tf.cast(is_first, tf.int64)) - 1


def _is_one_of(values: tf.Tensor, wanted: list[int]) -> tf.Tensor:
    return tf.reduce_any(values[:, tf.newaxis] == wanted, axis=1)


def _rule(before: Kind, this: Kind, after: Kind) -> bool:
    """Whether a character of a kind between two others is the first of a word."""
    white = (Kind.SPACE, Kind.WHITE)
    if before == Kind.NONE:
        return True
    if this in white:  # the last one of several leaves the others, for the word that follows
        return before not in white or after not in (*white, Kind.NONE)
    return before not in (Kind.SPACE, this)


_BEGINS_WORD = np.array([_rule(*three) for three in itertools.product(Kind, repeat=3)])
_KINDS_OF_BYTES = np.pad(kinds_of(np.arange(0x80)), (0, 0x80))  # the others are found later
