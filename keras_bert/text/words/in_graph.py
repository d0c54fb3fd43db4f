"""`words.split_words` in a graph, without a regular expression.

Python's `re` determines the kind of every character in advance, so both functions follow the same
version of Unicode. Whether a word begins at a character depends on its kind and on its neighbors'
kinds.
"""

from __future__ import annotations

import enum
import functools
import re
import sys

import numpy as np
import tensorflow as tf

from keras_bert.text.characters import Characters
from keras_bert.text.words import IDEOGRAPHS, JOINERS, marks


class Kind(enum.IntEnum):
    """Kind of a character in the rules for words."""

    OTHER = 0
    SPACE = 1
    LETTER = 2
    MARK = 3
    IDEOGRAPH = 4
    JOINER = 5


@functools.cache
def kind_ranges() -> tuple[np.ndarray, np.ndarray]:
    """Returns ranges of code points and their kinds, like `byte_pair.splitting.kind_ranges`."""
    classes = {
        Kind.SPACE: r"\s",
        Kind.LETTER: rf"[^\W_{IDEOGRAPHS}]",
        Kind.IDEOGRAPH: f"[{IDEOGRAPHS}]",
        Kind.MARK: f"[{marks()}]",
        Kind.JOINER: f"[{JOINERS}]",
    }
    characters = "".join(map(chr, range(sys.maxunicode + 1)))
    kinds = np.full(len(characters), Kind.OTHER, np.int32)
    for kind, pattern in classes.items():
        for match in re.finditer(f"{pattern}+", characters):
            kinds[match.start() : match.end()] = kind
    first = np.flatnonzero(np.diff(kinds, prepend=-1))
    return first.astype(np.int32), kinds[first]


def kinds_of(characters: Characters) -> tf.Tensor:
    """Returns the kinds of the characters, int32 `[C]`."""
    first, kinds = kind_ranges()
    return tf.gather(kinds, tf.searchsorted(first, characters.code_points, side="right") - 1)


def split_words(characters: Characters) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Splits N texts into words.

    Returns:
        Three int32 tensors. Starts and ends of the W words, `[W]` each, are indices in
        `characters`. The third, `[N + 1]`, has the index of each text's first word, and W.
    """
    kinds = kinds_of(characters)
    is_space, is_mark = kinds == Kind.SPACE, kinds == Kind.MARK
    # Marks after an ideograph belong to the ideograph. Other marks are letters.
    others = tf.concat([[int(Kind.SPACE)], kinds[~is_mark]], axis=0)
    before_marks = tf.gather(others, tf.cumsum(tf.cast(~is_mark, tf.int32)))
    goes_with_ideograph = is_mark & (before_marks == Kind.IDEOGRAPH)
    is_letter = ((kinds == Kind.LETTER) | is_mark) & ~goes_with_ideograph
    joins = (kinds == Kind.JOINER) & _before(is_letter) & _after(is_letter)
    goes_on = is_letter & (_before(is_letter) | _before(joins)) | joins | goes_with_ideograph
    begins = ~is_space & ~goes_on
    ends = ~is_space & _after(begins | is_space)  # every text has a space after it
    count = tf.pad(tf.cumsum(tf.cast(begins, tf.int32)), [[1, 0]])
    first, last = (tf.cast(tf.where(x)[:, 0], tf.int32) for x in (begins, ends))
    return first, last + 1, tf.gather(count, characters.begins)


def strip(
    characters: Characters, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Strips white space from spans of characters, int32 `[X]`, like `str.strip`."""
    kept = tf.cast(tf.where(kinds_of(characters) != Kind.SPACE)[:, 0], tf.int32)
    bounded = tf.pad(kept, [[0, 1]], constant_values=tf.int32.max)
    first = tf.gather(bounded, tf.searchsorted(kept, starts, side="left"))
    starts = tf.minimum(first, ends)
    bounded = tf.pad(kept + 1, [[1, 0]])
    last = tf.gather(bounded, tf.searchsorted(kept, ends, side="left"))
    return starts, tf.maximum(last, starts)


def _before(x: tf.Tensor) -> tf.Tensor:
    return tf.pad(x[:-1], [[1, 0]])


def _after(x: tf.Tensor) -> tf.Tensor:
    return tf.pad(x[1:], [[0, 1]])
