"""Tokens that are cut out of a text before the rest of it is tokenized.

Some were added to a vocabulary after it was learned (`<e1>`, `@USER`); others are special tokens
that a user writes into the text, such as the `[MASK]` of fill-mask. The rules are those of
`AddedVocabulary` in Hugging Face's `tokenizers`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.errors import InputError
from keras_bert.text.characters import WHITE_SPACE, bytes_to_characters, row_ids

Pieces: TypeAlias = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
"""Ids, starts and ends of tokens, each `[N, (tokens)]`."""

_WORD = (  # \w of Rust: letters, marks, decimal digits, connectors and what counts as a letter
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}"
    r"\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
    r"\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af}"  # ideographs newer than RE2
)
_BUCKETS = 2**62


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that is cut out of every text, with the options of Hugging Face's `AddedToken`.

    Args:
        content: the token.
        special: whether the token marks something, such as an entity's start, and is no text.
        normalized: whether the token is found in the normalized text, in its own normalized form.
        single_word: whether the token is found only where no word goes on before or after it.
        lstrip: whether the token takes the white space before it along.
        rstrip: whether the token takes the white space after it along.
        in_model: whether the vocabulary had the token before it was added, so that plain text may
            become this token as well.

    Raises:
        InputError: if the content is empty or not a string, or an option is not true or false.
    """

    content: str
    special: bool = False
    normalized: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    in_model: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.content, str) or not self.content:
            raise InputError(f"The added token is {self.content!r}, but must be text.")
        for name, value in dataclasses.asdict(self).items():
            if name != "content" and not isinstance(value, bool):
                raise InputError(
                    f"{name} of the added token {self.content!r} is {value!r}, "
                    "but must be true or false."
                )


class _Parts(NamedTuple):
    """Texts cut at tokens; all ragged `[N, (parts)]`."""

    plain: tf.RaggedTensor
    """Strings; empty for a token."""
    ids: tf.RaggedTensor
    """int32; -1 for plain text."""
    starts: tf.RaggedTensor
    """int32, the first character in the text."""
    ends: tf.RaggedTensor
    """int32, the character after the last."""


class TokenCutter:
    """Finds tokens in texts, from left to right and the longest first.

    Args:
        tokens: at least one.
        contents: the form of each token in the texts; the first of several equal ones counts.
        ids: the id of each token.
        no_words: characters that no word goes on with, inside the brackets of a regular expression.
        covers_space: whether the offsets of a token cover the white space that it takes along.
    """

    def __init__(
        self,
        tokens: Sequence[AddedToken],
        contents: Sequence[str],
        ids: Sequence[int],
        *,
        no_words: str = "",
        covers_space: bool = False,
    ) -> None:
        found: dict[str, tuple[AddedToken, int]] = {}
        for content, token, token_id in zip(contents, tokens, ids, strict=True):
            if content:
                found.setdefault(content, (token, token_id))
        longest_first = sorted(found, key=len, reverse=True)
        self._pattern = "|".join(map(re.escape, longest_first))
        self._hashes, order = _sorted_hashes(longest_first)
        self._contents = np.array([longest_first[index].encode() for index in order], object)
        ordered = [found[longest_first[index]] for index in order]
        self._ids = np.array([token_id for _, token_id in ordered], np.int32)
        # What follows has False at its end, for plain text.
        self._single_word = np.array([*(token.single_word for token, _ in ordered), False])
        self._lstrip = np.array([*(token.lstrip for token, _ in ordered), False])
        self._rstrip = np.array([*(token.rstrip for token, _ in ordered), False])
        self._no_words = no_words
        self._covers_space = covers_space

    def around(self, texts: tf.Tensor, tokenize: Callable[[tf.Tensor], Pieces]) -> Pieces:
        """Tokens of texts `[N]`; `tokenize` gets what stands between those found here."""
        parts = self._cut(texts)
        return _insert(parts, *tokenize(parts.plain.values))

    def _cut(self, texts: tf.Tensor) -> _Parts:
        without_nul = tf.strings.regex_replace(texts, r"\x00", "\x01")  # NUL ends regex_split
        parts, first, last = tf_text.regex_split_with_offsets(
            without_nul, self._pattern, self._pattern
        )
        parts = parts.with_row_splits_dtype(tf.int64)
        first, last, token = first.values, last.values, self._find(parts.values)
        if self._single_word.any():
            parts, first, last, token = self._join_rejected(parts, first, last, token)
        row = row_ids(parts)
        is_token = token < len(self._ids)
        plain = tf.strings.substr(tf.gather(texts, row), first, last - first)
        plain = tf.where(is_token, "", plain)
        if self._lstrip.any() or self._rstrip.any():
            plain, before, after = self._take_space(plain, token, row)
            first += tf.where(is_token, tf.zeros_like(after), after)
            if self._covers_space:
                first -= tf.where(is_token, _before(before, row, 0), 0)
                last += tf.where(is_token, _after(after, row, 0), 0)
        starts, ends = bytes_to_characters(texts, parts.with_values(first), parts.with_values(last))
        ids = tf.gather(np.append(self._ids, np.int32(-1)), token)
        return _Parts(parts.with_values(plain), parts.with_values(ids), starts, ends)

    def _find(self, parts: tf.Tensor) -> tf.Tensor:
        """The index of the token that each part is, the one after the last for plain text."""
        place = tf.searchsorted(self._hashes, tf.strings.to_hash_bucket_fast(parts, _BUCKETS))
        place = tf.minimum(place, len(self._ids) - 1)
        return tf.where(tf.gather(self._contents, place) == parts, place, len(self._ids))

    def _join_rejected(
        self, parts: tf.RaggedTensor, first: tf.Tensor, last: tf.Tensor, token: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Parts, starts, ends and tokens, once tokens inside of words are plain text again."""
        row = row_ids(parts)
        goes_on = _before(self._matches(parts.values, r"\C*[{}]"), row, False)
        goes_on |= _after(self._matches(parts.values, r"[{}]\C*"), row, False)
        token = tf.where(tf.gather(self._single_word, token) & goes_on, len(self._ids), token)
        is_token = token < len(self._ids)
        begins = is_token | _before(is_token, row, True)
        ends = tf.roll(begins, -1, axis=0)
        splits = tf.gather(tf.pad(tf.cumsum(tf.cast(begins, tf.int64)), [[1, 0]]), parts.row_splits)
        joined = tf.RaggedTensor.from_row_splits(parts.values[begins], splits, validate=False)
        return joined, first[begins], last[ends], token[begins]

    def _matches(self, parts: tf.Tensor, pattern: str) -> tf.Tensor:
        """Whether the pattern matches with a character of words in it: bool `[parts]`."""
        matches = tf.strings.regex_full_match(parts, pattern.format(_WORD))
        if not self._no_words:
            return matches
        return matches & ~tf.strings.regex_full_match(parts, pattern.format(self._no_words))

    def _take_space(
        self, plain: tf.Tensor, token: tf.Tensor, row: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Plain text without the white space that the tokens beside it take along.

        Returns:
            The strings, and the bytes taken at the end and at the beginning of each.
        """
        taken = _before(tf.gather(self._rstrip, token), row, False)
        rest = tf.where(taken, tf.strings.regex_replace(plain, f"^[{WHITE_SPACE}]+", ""), plain)
        after = tf.strings.length(plain) - tf.strings.length(rest)
        taken = _after(tf.gather(self._lstrip, token), row, False)
        left = tf.where(taken, tf.strings.regex_replace(rest, f"[{WHITE_SPACE}]+$", ""), rest)
        before = tf.strings.length(rest) - tf.strings.length(left)
        return left, tf.cast(before, tf.int64), tf.cast(after, tf.int64)


def _insert(
    parts: _Parts, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> Pieces:
    """Puts the tokens back among the pieces `[parts, (pieces)]` of all the plain parts.

    Returns:
        Ids, starts and ends in characters of the whole texts, int32 `[N, (tokens)]`.
    """
    is_token = parts.ids.values >= 0
    counts = tf.cast(is_token, tf.int64)
    first = tf.gather(parts.starts.values, row_ids(starts))

    def joined(pieces: tf.RaggedTensor, of_parts: tf.RaggedTensor) -> tf.RaggedTensor:
        alone = tf.RaggedTensor.from_row_lengths(of_parts.values[is_token], counts)
        return parts.plain.with_values(tf.concat([pieces, alone], axis=1)).merge_dims(1, 2)

    return (
        joined(ids, parts.ids),
        joined(starts.with_values(starts.values + first), parts.starts),
        joined(ends.with_values(ends.values + first), parts.ends),
    )


def _sorted_hashes(contents: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the contents in ascending order, int64 `[tokens]`, and the index of each."""
    with tf.init_scope():
        hashes = tf.strings.to_hash_bucket_fast(list(contents), _BUCKETS).numpy()
    order = np.argsort(hashes)
    return hashes[order], order


def _before(x: tf.Tensor, row: tf.Tensor, otherwise: Any) -> tf.Tensor:
    """The value of the part before each in its row, `[parts]`."""
    row_before = tf.pad(row, [[1, 0]], constant_values=-1)[:-1]
    return tf.where(row_before == row, tf.roll(x, 1, axis=0), otherwise)


def _after(x: tf.Tensor, row: tf.Tensor, otherwise: Any) -> tf.Tensor:
    """The value of the part after each in its row, `[parts]`."""
    row_after = tf.pad(row, [[0, 1]], constant_values=-1)[1:]
    return tf.where(row_after == row, tf.roll(x, -1, axis=0), otherwise)
