r"""GPT-2's splitting of text into words, without a regular expression.

The pattern of `encoder.py` (Radford et al., 2019) is

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

Except around the apostrophe of a contraction, the kinds of a character and its two neighbors decide
whether a word begins at the character. So the code looks up the kinds of all characters in a batch
at once, and a small table maps three kinds in a row to the decision. No byte is lost.

Regular expression engines have different versions of Unicode: `\p{L}` matches other characters in
TensorFlow's RE2 than in Hugging Face's `tokenizers`. The shipped table has the kinds of
`tokenizers`. `python -m keras_bert.text.byte_pair.splitting` writes the table.
"""

from __future__ import annotations

import enum
import functools
import gzip
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert.text.characters import MOST_BYTES, WHITE_SPACE, code_points

UNICODE_VERSION = "16.0"
"""Unicode version of the shipped table."""

_TABLE = Path(__file__).parent / "tables/character-kinds.json.gz"
_SHORT_ENDINGS = [ord(letter) for letter in "stmd"]  # of contractions, after the apostrophe
_LONG_ENDINGS = [ord(first) * 256 + ord(second) for first, second in ("re", "ve", "ll")]
_BEGINS_TEXT = "\x01"
_INSIDE_WHITE = f"[{WHITE_SPACE}] ([{WHITE_SPACE}]|$)"  # a space that may not begin a word
_UNCUT = rf"\C*({_BEGINS_TEXT}|{_INSIDE_WHITE})\C*"  # \C is any byte


class Kind(enum.IntEnum):
    """Kind of a character for GPT-2's pattern."""

    OTHER = 0
    LETTER = 1
    NUMBER = 2
    WHITE = 3  # white space except U+0020
    SPACE = 4  # U+0020
    NONE = 5  # no character: the end of a text


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts `[N]` into words, as bytes: uint8 `[N, (words), (bytes)]`.

    A word includes the space before it, so the words of a text, joined, are the text. Bytes that
    are not UTF-8 are kept.
    """
    data = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    text_splits = tf.pad(tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64)), [[1, 0]])
    # The next tensors have an element for each of the C characters of all texts, and for the end.
    is_first_byte = _put(True, text_splits, tf.pad((data & 0xC0) != 0x80, [[0, 1]]))
    starts = tf.where(is_first_byte)[:, 0]
    text_begins = tf.gather(_index(is_first_byte), text_splits)
    begins_word = _begins_word(data, starts, text_begins)
    word_splits = tf.gather(starts, tf.where(begins_word)[:, 0])
    return tf.RaggedTensor.from_nested_row_splits(
        data, [tf.gather(_index(begins_word), text_begins), word_splits], validate=False
    )


def cut_at_spaces(texts: tf.Tensor) -> tf.RaggedTensor:
    """Cuts texts `[N]` at spaces into chunks `[N, (chunks)]`.

    A chunk does not include the space before it. A text's first chunk has no space before it, and
    begins with `_BEGINS_TEXT`. `split_words` begins a word at every space, except between two white
    characters and between white space and the end of the text. So chunks can be split one by one,
    and equal chunks of a batch only once. A text that cannot be cut at every space stays one chunk.
    """
    marked = tf.strings.join([_BEGINS_TEXT, texts])
    uncut = tf.strings.regex_full_match(texts, _UNCUT)
    chunks = tf.strings.split(tf.where(uncut, _BEGINS_TEXT, marked), " ")
    chunks = chunks.with_row_splits_dtype(tf.int64)
    whole = tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(marked, uncut), tf.cast(uncut, tf.int64), validate=False
    )
    return tf.concat([chunks, whole], axis=1)


def restore_spaces(chunks: tf.Tensor) -> tf.Tensor:
    """Returns chunks `[X]` with the spaces that `cut_at_spaces` removed."""
    begins_text = tf.strings.substr(chunks, 0, 1) == _BEGINS_TEXT
    with_space = tf.strings.join([" ", chunks])
    left_out = tf.where(begins_text, 2, 0)
    return tf.strings.substr(with_space, left_out, tf.strings.length(with_space) - left_out)


def _begins_word(data: tf.Tensor, starts: tf.Tensor, text_begins: tf.Tensor) -> tf.Tensor:
    """Returns whether each character begins a word, bool `[C + 1]`.

    Args:
        data: bytes of all texts, uint8.
        starts: int64 `[C + 1]`, position in `data` of each character's first byte.
        text_begins: int64 `[N + 1]`, index of each text's first character.
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
    """Returns the kinds of the characters, int32 `[C + 1]`."""
    beyond_ascii = tf.where(first_bytes >= 0x80)
    range_starts, range_kinds = kind_ranges()
    found = code_points(data, tf.gather_nd(starts, beyond_ascii))
    ranges = tf.searchsorted(range_starts, found, side="right") - 1
    kinds = tf.gather(_KINDS_OF_BYTES, first_bytes)
    return tf.tensor_scatter_nd_update(kinds, beyond_ascii, tf.gather(range_kinds, ranges))


def _contractions(
    first_bytes: tf.Tensor, before: tf.Tensor, after: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds contractions that are words by themselves, such as `'re`.

    Args:
        first_bytes: first byte of each character, int32 `[C + 1]`.
        before: kind of the previous character in the same text, int32 `[C + 1]`.
        after: kind of the next character in the same text, int32 `[C + 1]`.

    Returns:
        Indices of the apostrophes and of the characters after the contractions, int64 `[X]`.
    """
    apostrophes = tf.where(first_bytes == ord("'"))[:, 0]
    first = tf.gather(first_bytes, apostrophes + 1)
    second = tf.gather(tf.pad(first_bytes, [[0, 1]]), apostrophes + 2)
    # In `after`, a letter of the next text has the kind NONE.
    first_is_here = tf.gather(after, apostrophes) == int(Kind.LETTER)
    second_is_here = tf.gather(after, apostrophes + 1) == int(Kind.LETTER)
    is_short = _is_one_of(first, _SHORT_ENDINGS)
    is_long = _is_one_of(first * 256 + second, _LONG_ENDINGS) & second_is_here
    # After these kinds, the apostrophe belongs to a word that begins before it.
    is_inside = _is_one_of(tf.gather(before, apostrophes), [int(Kind.OTHER), int(Kind.SPACE)])
    found = tf.where(first_is_here & ~is_inside & (is_short | is_long))[:, 0]
    apostrophes = tf.gather(apostrophes, found)
    return apostrophes, apostrophes + 2 + tf.cast(tf.gather(is_long, found), tf.int64)


def _put(value: bool, places: tf.Tensor, into: tf.Tensor) -> tf.Tensor:
    """Returns bool `into` `[X]`, with `value` at the indices `places`, int64 `[Y]`."""
    values = tf.fill(tf.shape(places), value)
    return tf.tensor_scatter_nd_update(into, places[:, tf.newaxis], values)


def _index(is_first: tf.Tensor) -> tf.Tensor:
    """Returns the number of True elements up to each element, minus 1, int64 `[X]`."""
    return tf.cumsum(tf.cast(is_first, tf.int64)) - 1


def _is_one_of(values: tf.Tensor, wanted: list[int]) -> tf.Tensor:
    return tf.reduce_any(values[:, tf.newaxis] == wanted, axis=1)


def _rule(before: Kind, this: Kind, after: Kind) -> bool:
    """Returns whether a character of the kind `this` begins a word, by its neighbors' kinds."""
    white = (Kind.SPACE, Kind.WHITE)
    if before == Kind.NONE:
        return True
    if this in white:  # of several white characters, the last one begins the next word
        return before not in white or after not in (*white, Kind.NONE)
    return before not in (Kind.SPACE, this)


@functools.cache
def kind_ranges() -> tuple[np.ndarray, np.ndarray]:
    """Returns R ranges of code points. All code points of a range have the same kind.

    Returns:
        First code point of each range, sorted, and kind of each range, int32 `[R]` each. The first
        range begins at 0. A range ends where the next one begins.
    """
    ranges = json.loads(gzip.decompress(_TABLE.read_bytes()))
    first, kinds = np.array(ranges, np.int32).T
    return first, kinds


def kinds_of(code_points: np.ndarray) -> np.ndarray:
    """Returns the kinds of code points, int32 of the same shape."""
    first, kinds = kind_ranges()
    return kinds[np.searchsorted(first, code_points, side="right") - 1]


_BEGINS_WORD = np.array([_rule(*three) for three in itertools.product(Kind, repeat=3)])
_KINDS_OF_BYTES = np.pad(kinds_of(np.arange(0x80)), (0, 0x80))  # `_kinds` replaces the zeros


def _write_table() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    words = ByteLevel(add_prefix_space=False)

    def kind(code_point: int) -> Kind:
        if 0xD800 <= code_point <= 0xDFFF:
            return Kind.OTHER
        if code_point == 0x20:
            return Kind.SPACE
        examples = {Kind.LETTER: "a", Kind.NUMBER: "1", Kind.OTHER: "."}
        joined = (
            kind
            for kind, example in examples.items()
            if len(words.pre_tokenize_str(example + chr(code_point))) == 1
        )
        return next(joined, Kind.WHITE)

    groups = itertools.groupby(range(sys.maxunicode + 1), kind)
    ranges = [[next(code_points), int(kind)] for kind, code_points in groups]
    _TABLE.write_bytes(gzip.compress(json.dumps(ranges).encode(), mtime=0))


if __name__ == "__main__":
    _write_table()
