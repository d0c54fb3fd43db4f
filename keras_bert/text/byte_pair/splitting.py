r"""Splitting of text into words as GPT-2 and Llama 3 do, without regular expressions.

`PATTERNS` has the regular expressions of `encoder.py` (Radford et al., 2019) and of Llama 3's
`tokenizer.json` (also in EuroBERT). The code looks up the kinds of all characters of a batch at
once. In GPT-2's pattern, the kinds of a character and its two neighbors decide whether a word
begins at the character, except around the apostrophe of a contraction. Llama 3's pattern also needs
the place of a character in a run of equal kinds. No byte is lost.

Regular expression engines have different versions of Unicode: `\p{L}` matches other characters in
TensorFlow's RE2 than in Hugging Face's `tokenizers`. The shipped table has the kinds of
`tokenizers`, which has Unicode 16.0. `python -m keras_bert.text.byte_pair.splitting` writes the
table.
"""

from __future__ import annotations

import enum
import functools
import gzip
import itertools
import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.text.characters import MOST_BYTES, WHITE_SPACE, begins_character, code_points

PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""Regular expression that splits texts into words, by name. It identifies a tokenizer's files."""

_TABLE = Path(__file__).parent / "tables/character-kinds.json.gz"
_SHORT_ENDINGS = [ord(letter) for letter in "stmd"]  # of contractions, after the apostrophe
_LONG_ENDINGS = [ord(first) * 256 + ord(second) for first, second in ("re", "ve", "ll")]
_BEGINS_TEXT = "\x01"
_INSIDE_WHITE = f"[{WHITE_SPACE}] ([{WHITE_SPACE}]|$)"  # a space that may not begin a word
_UNCUT = rf"\C*({_BEGINS_TEXT}|{_INSIDE_WHITE})\C*"  # \C is any byte


class Kind(enum.IntEnum):
    """Kind of a character for the patterns."""

    OTHER = 0
    LETTER = 1
    NUMBER = 2
    WHITE = 3  # white space except the next two
    SPACE = 4  # U+0020
    LINE_END = 5  # U+000A, U+000D
    NONE = 6  # no character: the end of a text


def split_words(texts: tf.Tensor, pattern: str = "gpt2") -> tf.RaggedTensor:
    """Splits texts `[N]` into words, as bytes: uint8 `[N, (words), (bytes)]`.

    A word includes the space before it, so the words of a text, joined, are the text. Bytes that
    are not UTF-8 are kept.

    Args:
        texts: the texts.
        pattern: key of `PATTERNS`.
    """
    data = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    text_splits = tf.pad(tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64)), [[1, 0]])
    return split_bytes(tf.RaggedTensor.from_row_splits(data, text_splits, validate=False), pattern)


def split_bytes(texts: tf.RaggedTensor, pattern: str) -> tf.RaggedTensor:
    """Splits texts, given as bytes `[N, (bytes)]`, into words as `split_words` does.

    With the pattern "gpt2", this uses only operators that TFLite has.
    """
    characters, starts, of_bytes = _characters(texts)
    text_begins = tf.gather(of_bytes, texts.row_splits)
    begins_word = _BEGINS_WORD[pattern](characters)
    word_splits = tf.gather(starts, tf.where(begins_word)[:, 0])
    text_splits = tf.gather(_index(begins_word), text_begins)
    return tf.RaggedTensor.from_nested_row_splits(
        texts.values, [text_splits, word_splits], validate=False
    )


def is_white(texts: tf.RaggedTensor) -> tf.Tensor:
    """Returns whether each byte of texts `[N, (bytes)]` belongs to white space, bool `[B]`."""
    characters, _, of_bytes = _characters(texts)
    return tf.gather(_is_white(characters.kinds), of_bytes[:-1])


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


class _Characters(NamedTuple):
    """C characters and one end, each tensor `[C + 1]`."""

    first_bytes: tf.Tensor
    """First byte, int32."""
    before: tf.Tensor
    """Kind of the previous character in the same text, int32."""
    kinds: tf.Tensor
    """Kind, int32."""
    after: tf.Tensor
    """Kind of the next character in the same text, int32."""


def _characters(texts: tf.RaggedTensor) -> tuple[_Characters, tf.Tensor, tf.Tensor]:
    """Returns the characters of texts that are bytes, `[N, (bytes)]`, with B bytes in all.

    Returns:
        The characters, the position of each one's first byte, int64 `[C + 1]`, and the index of
        each byte's character, int64 `[B + 1]`.
    """
    data = tf.cast(texts.values, tf.int32)
    is_first_byte = tf.concat([begins_character(data), [True]], axis=0)
    is_first_byte |= _is_at(texts.row_splits, is_first_byte)
    starts = tf.where(is_first_byte)[:, 0]
    of_bytes = _index(is_first_byte)
    text_begins = tf.gather(of_bytes, texts.row_splits)
    data = tf.pad(data, [[0, MOST_BYTES]])
    first_bytes = tf.gather(data, starts)
    kinds = _kinds(data, starts, first_bytes)
    begins_text = _is_at(text_begins, starts)
    before = tf.where(begins_text, int(Kind.NONE), tf.pad(kinds[:-1], [[1, 0]]))
    after = tf.where(begins_text, int(Kind.NONE), kinds)
    after = tf.pad(after[1:], [[0, 1]], constant_values=int(Kind.NONE))
    return _Characters(first_bytes, before, kinds, after), starts, of_bytes


def _gpt2(characters: _Characters) -> tf.Tensor:
    """Returns whether each character begins a word in GPT-2's pattern, bool `[C + 1]`."""
    begins_word = _look_up(_GPT2_TABLE, characters.before, characters.kinds, characters.after)
    return _around_contractions(begins_word, characters, characters.first_bytes)


def _llama3(characters: _Characters) -> tf.Tensor:
    """Returns whether each character begins a word in Llama 3's pattern, bool `[C + 1]`."""
    first_bytes, before, kinds, _ = characters
    before_that = tf.roll(before, 1, axis=0)
    begins_word = _look_up(_LLAMA3_TABLE, before_that, before, kinds)
    # Runs of equal kinds: numbers are words of at most three digits.
    begins_run = kinds != before
    run_starts = tf.gather(tf.where(begins_run)[:, 0], _index(begins_run))
    place = tf.range(tf.size(kinds, tf.int64)) - run_starts
    is_number = kinds == int(Kind.NUMBER)
    begins_word &= ~is_number | (place % 3 == 0)
    white = _begins_white(characters, tf.gather(before, run_starts))
    begins_word = tf.where(_is_white(kinds), white, begins_word)
    is_letter = kinds == int(Kind.LETTER)
    return _around_contractions(
        begins_word, characters, tf.where(is_letter, first_bytes | 0x20, first_bytes)
    )


def _begins_white(characters: _Characters, before_run: tf.Tensor) -> tf.Tensor:
    """Returns whether each white character begins a word in Llama 3's pattern, bool `[C + 1]`.

    Line ends right after characters of the kind OTHER belong to their word. The other white space
    up to its last line end is one word. The white space after this line end is another word. If
    text follows, the last character of this white space begins a word. Values at characters that
    are not white have no meaning.

    Args:
        characters: all characters.
        before_run: kind before the run of equal kinds, int32 `[C + 1]`.
    """
    _, before, kinds, after = characters
    is_line_end = kinds == int(Kind.LINE_END)
    is_first = ~_is_white(before)
    index, run = tf.range(tf.size(kinds)), tf.cumsum(tf.cast(is_first, tf.int32))
    last_line_end = tf.math.segment_max(tf.where(is_line_end, index, -1), run)
    is_after_last = tf.gather(last_line_end, run) < index
    is_taken = is_line_end & (before_run == int(Kind.OTHER))
    is_last = ~_is_white(after) & (after != int(Kind.NONE))
    begins_rest = is_after_last & ((before == int(Kind.LINE_END)) | is_last)
    return (is_first | tf.roll(is_taken, 1, axis=0) | begins_rest) & ~is_taken


def _kinds(data: tf.Tensor, starts: tf.Tensor, first_bytes: tf.Tensor) -> tf.Tensor:
    """Returns the kinds of the characters, int32 `[C + 1]`."""
    beyond_ascii = tf.where(first_bytes >= 0x80)
    # Bytes that are not UTF-8 can give more than the last code point.
    found = tf.minimum(code_points(data, tf.gather_nd(starts, beyond_ascii)), sys.maxunicode)
    page = tf.gather(_PAGES, found // _PAGE_SIZE)
    beyond = tf.gather_nd(_KINDS, tf.stack([page, found % _PAGE_SIZE], axis=1))
    kinds = tf.gather(_KINDS_OF_BYTES, first_bytes)
    return kinds + tf.scatter_nd(beyond_ascii, beyond, tf.shape(kinds, tf.int64))


def _around_contractions(
    begins_word: tf.Tensor, characters: _Characters, first_bytes: tf.Tensor
) -> tf.Tensor:
    """Returns `begins_word` with contractions, such as `'re`, as words by themselves.

    Args:
        begins_word: whether each character begins a word without contractions, bool `[C + 1]`.
        characters: all characters.
        first_bytes: first byte of each character, of small letters if case does not matter, int32
            `[C + 1]`.
    """
    apostrophes = tf.where(first_bytes == ord("'"))[:, 0]
    first = tf.gather(first_bytes, apostrophes + 1)
    second = tf.gather(tf.pad(first_bytes, [[0, 1]]), apostrophes + 2)
    # In `after`, a letter of the next text has the kind NONE.
    first_is_here = tf.gather(characters.after, apostrophes) == int(Kind.LETTER)
    second_is_here = tf.gather(characters.after, apostrophes + 1) == int(Kind.LETTER)
    is_short = _is_one_of(first, _SHORT_ENDINGS)
    is_long = _is_one_of(first * 256 + second, _LONG_ENDINGS) & second_is_here
    # After these kinds, the apostrophe belongs to a word that begins before it.
    before = tf.gather(characters.before, apostrophes)
    is_inside = _is_one_of(before, [int(kind) for kind in _JOINED])
    found = tf.where(first_is_here & ~is_inside & (is_short | is_long))[:, 0]
    apostrophes = tf.gather(apostrophes, found)
    ends = apostrophes + 2 + tf.cast(tf.gather(is_long, found), tf.int64)
    begins_word &= ~_is_at(apostrophes + 1, begins_word)
    return begins_word | _is_at(ends, begins_word)


def _look_up(table: np.ndarray, first: tf.Tensor, second: tf.Tensor, third: tf.Tensor) -> tf.Tensor:
    """Returns the values of a table of three kinds in a row."""
    return tf.gather(table, (first * len(Kind) + second) * len(Kind) + third)


def _is_white(kinds: tf.Tensor) -> tf.Tensor:
    return tf.gather(_WHITE_TABLE, kinds)


def _is_at(places: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Returns whether each index of `like` `[X]` is one of `places`, int64 `[Y]`: bool `[X]`."""
    ones = tf.ones_like(places, tf.int32)
    return tf.scatter_nd(places[:, tf.newaxis], ones, tf.shape(like, tf.int64)) > 0


def _index(is_first: tf.Tensor) -> tf.Tensor:
    """Returns the number of True elements up to each element, minus 1, int64 `[X]`."""
    return tf.cumsum(tf.cast(is_first, tf.int64)) - 1


def _is_one_of(values: tf.Tensor, wanted: list[int]) -> tf.Tensor:
    return tf.reduce_any(values[:, tf.newaxis] == wanted, axis=1)


_WHITE = (Kind.WHITE, Kind.SPACE, Kind.LINE_END)
_JOINED = (Kind.OTHER, Kind.SPACE)  # before other characters, they belong to the same word


def _gpt2_rule(before: Kind, this: Kind, after: Kind) -> bool:
    """Returns whether a character of the kind `this` begins a word in GPT-2's pattern."""
    if before == Kind.NONE:
        return True
    if this in _WHITE:  # of several white characters, the last one begins the next word
        return before not in _WHITE or after not in (*_WHITE, Kind.NONE)
    return before not in (Kind.SPACE, this)


def _llama3_rule(before_that: Kind, before: Kind, this: Kind) -> bool:
    """Returns whether `this` begins a word in Llama 3's pattern, if it is no white character.

    A digit begins a word only at every third place of its run; `_llama3` checks this.
    """
    if this == Kind.LETTER:  # a single character before it may belong to its word
        single = before == Kind.OTHER and before_that not in _JOINED
        return not single and before not in (Kind.LETTER, Kind.SPACE, Kind.WHITE)
    return this == Kind.NUMBER or before not in _JOINED


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


_BEGINS_WORD = {"gpt2": _gpt2, "llama3": _llama3}
_GPT2_TABLE, _LLAMA3_TABLE = (
    np.array([rule(*three) for three in itertools.product(Kind, repeat=3)])
    for rule in (_gpt2_rule, _llama3_rule)
)
_WHITE_TABLE = np.array([kind in _WHITE for kind in Kind])
_KINDS_OF_BYTES = np.pad(kinds_of(np.arange(0x80)), (0, 0x80))  # `_kinds` adds to the zeros


def _pages() -> tuple[np.ndarray, np.ndarray]:
    """Returns a table of two levels: `kinds[pages[code_point // 128], code_point % 128]`, int32."""
    first, kinds = kind_ranges()
    kinds = np.repeat(kinds, np.diff(first, append=sys.maxunicode + 1)).astype(np.uint8)
    pages = kinds.view(f"V{_PAGE_SIZE}")  # one value for each page, which is sorted faster
    distinct, index = np.unique(pages, return_inverse=True)
    return distinct.view(np.uint8).reshape(-1, _PAGE_SIZE).astype(np.int32), index.astype(np.int32)


_PAGE_SIZE = 128
_KINDS, _PAGES = _pages()


def _write_table() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    words = ByteLevel(add_prefix_space=False)

    def kind(code_point: int) -> Kind:
        if 0xD800 <= code_point <= 0xDFFF:
            return Kind.OTHER
        if code_point == 0x20:
            return Kind.SPACE
        if code_point in (0x0A, 0x0D):
            return Kind.LINE_END
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
