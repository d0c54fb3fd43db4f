"""Splits raw text into words, which taggers label, and finds the first token of each word."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from keras_bert.text.rows import Rows

Words: TypeAlias = Sequence[tuple[int, int]]
"""Start and end of each word in a text, in order: a word is `text[start:end]`."""

IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
UNSPACED = (
    IDEOGRAPHS + "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u0e00-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese; Khmer
)
"""Scripts without spaces between words."""
JOINERS = ".'’-"
_PLANES_WITH_MARKS = range(0x20000), range(0xE0000, 0xE1000)


def split_words(text: str) -> list[tuple[int, int]]:
    """Returns the words of a text.

    A word is a run of letters, digits and their marks, with a period, an apostrophe or a hyphen
    inside it (`U.S`, `don't`, `twenty-one`), or any other single character except white space. An
    ideograph is a word by itself.

    Example:
        >>> text = "Mr. O'Neill's (3.5%)"
        >>> [text[start:end] for start, end in split_words(text)]
        ['Mr', '.', "O'Neill's", '(', '3.5', '%', ')']
    """
    return [match.span() for match in _word().finditer(text)]


@functools.cache
def _word() -> re.Pattern[str]:
    letter = rf"(?:[^\W_{IDEOGRAPHS}]|[{marks()}])"
    return re.compile(rf"{letter}+(?:[{JOINERS}]{letter}+)*|[{IDEOGRAPHS}][{marks()}]*|\S")


def spaced(words: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Joins words with spaces. Returns the text, and the start and end of each word in the text."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def begins_word(token: str) -> bool:
    """Returns whether a token without a space before it begins a word, for masking whole words.

    Punctuation begins a word, and so does each character of a script without spaces, as in ALBERT's
    code. In ALBERT's code, digits and letters of other alphabets also begin a word, but not here.
    """
    is_mark = len(token) == 1 and unicodedata.category(token)[0] in "PS"
    return is_mark or bool(_UNSPACED.match(token))


_UNSPACED = re.compile(f"[{UNSPACED}]")


@functools.cache
def marks() -> str:
    r"""Returns ranges of all combining marks, for `[...]` in a regex, because `\w` lacks them."""
    marks = [
        code
        for code in itertools.chain(*_PLANES_WITH_MARKS)
        if unicodedata.category(chr(code)).startswith("M")
    ]
    ranges = itertools.groupby(enumerate(marks), lambda pair: pair[1] - pair[0])
    ends = [[code for _, code in group] for _, group in ranges]
    return "".join(f"{chr(codes[0])}-{chr(codes[-1])}" for codes in ends)


def first_tokens(rows: Rows, words: Sequence[Words]) -> np.ndarray:
    """Finds the first token of each word, in the row where the token has the most context.

    A token belongs to the word that contains the token's first character, white space not counted.

    Args:
        rows: rows of N texts, with offsets.
        words: words of the N texts.

    Returns:
        Int64 `[W]`, for the words of all texts in order: index in `rows.flat`, or -1 for a word
        without a token.
    """
    counts = [len(spans) for spans in words]
    starts, ends = np.array([*itertools.chain(*words)], np.int64).reshape(-1, 2).T
    tokens = np.flatnonzero(rows.flat["is_max_context"])
    token_starts, token_ends = (rows.flat[name][tokens] for name in ("starts", "ends"))
    # Shifts the positions of each text, as if all texts were one long text.
    size = max(ends.max(initial=0), token_ends.max(initial=0)) + 1
    shift = size * np.repeat(np.arange(len(words)), counts)
    token_shift = size * np.repeat(rows.sample_ids.astype(np.int64), rows.lengths)[tokens]
    word = np.searchsorted(ends + shift, token_starts + token_shift, side="right")
    known = word < len(ends)
    tokens, word, token_ends = tokens[known], word[known], (token_ends + token_shift)[known]
    inside = (starts + shift)[word] < token_ends
    first = np.full(len(ends), np.iinfo(np.int64).max)
    np.minimum.at(first, word[inside], tokens[inside])
    return np.where(first == np.iinfo(np.int64).max, -1, first)
