"""Added tokens, which are found in a text before the tokenizer splits the text between them.

An added token was added to a learned vocabulary (`<e1>`, `@USER`). Special tokens in the text, such
as the `[MASK]` of fill-mask, are found in the same way. The rules are those of `AddedVocabulary` in
Hugging Face's `tokenizers`.
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

_WORD = (  # \w of Rust: letters, marks, decimal digits, connectors and a few symbols
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}"
    r"\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
    r"\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af}"  # ideographs newer than RE2
)
_BUCKETS = 2**62


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """Token that is found in every text before the text is split.

    The options are those of Hugging Face's `AddedToken`.

    Args:
        content: the token.
        special: whether the token is a mark, such as an entity's start, and not text.
        normalized: whether the token's normalized form is searched in the normalized text.
            Otherwise `content` is searched in the original text.
        single_word: whether the token must not be part of a longer word.
        lstrip: whether the token includes the white space before it.
        rstrip: whether the token includes the white space after it.
        in_model: whether the learned vocabulary already had the token. Then the tokenizer may also
            make this token from plain text.

    Raises:
        InputError: if the content is empty or not a string, or an option is not true or false.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "<e1>"])
        >>> tokenizer = WordPiece(vocabulary, added_tokens=[AddedToken("<e1>", special=True)])
        >>> tokenizer.tokenize(["cat<e1>cat"])
        <tf.RaggedTensor [[5, 6, 5]]>
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
    """Texts divided into tokens and the plain text between them, ragged `[N, (parts)]` each."""

    plain: tf.RaggedTensor
    """Plain text; "" for a token."""
    ids: tf.RaggedTensor
    """Token id, int32; -1 for plain text."""
    starts: tf.RaggedTensor
    """Position in the text of the first character, int32."""
    ends: tf.RaggedTensor
    """Position in the text after the last character, int32."""


class TokenCutter:
    """Finds tokens in texts, from left to right. If several tokens match, the longest one wins.

    Args:
        tokens: one or more tokens.
        contents: form of each token in the texts. If forms are equal, the first token wins.
        ids: id of each token.
        single_character_words: characters that are words by themselves, as the inside of `[...]`
            in a regular expression.
        covers_space: whether a token's offsets include the white space that the token includes.
    """

    def __init__(
        self,
        tokens: Sequence[AddedToken],
        contents: Sequence[str],
        ids: Sequence[int],
        *,
        single_character_words: str = "",
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
        # The last element of the next arrays, False, is for plain text.
        self._single_word = np.array([*(token.single_word for token, _ in ordered), False])
        self._lstrip = np.array([*(token.lstrip for token, _ in ordered), False])
        self._rstrip = np.array([*(token.rstrip for token, _ in ordered), False])
        self._single_character_words = single_character_words
        self._covers_space = covers_space

    def around(self, texts: tf.Tensor, tokenize: Callable[[tf.Tensor], Pieces]) -> Pieces:
        """Finds tokens in texts `[N]`, and calls `tokenize` for the text between them."""
        parts = self._cut(texts)
        return _insert(parts, *tokenize(parts.plain.values))

    def _cut(self, texts: tf.Tensor) -> _Parts:
        without_nul = tf.strings.regex_replace(texts, r"\x00", "\x01")  # regex_split stops at NUL
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
        """Returns the index of each part's token. Plain text has the number of tokens as index."""
        place = tf.searchsorted(self._hashes, tf.strings.to_hash_bucket_fast(parts, _BUCKETS))
        place = tf.minimum(place, len(self._ids) - 1)
        return tf.where(tf.gather(self._contents, place) == parts, place, len(self._ids))

    def _join_rejected(
        self, parts: tf.RaggedTensor, first: tf.Tensor, last: tf.Tensor, token: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Turns `single_word` tokens inside of words into plain text.

        Such a token and the plain text around it become one part.

        Returns:
            Parts, their starts and ends, and the indices of their tokens.
        """
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
        """Returns which parts match the pattern, with the characters of words in place of {}."""
        matches = tf.strings.regex_full_match(parts, pattern.format(_WORD))
        if not self._single_character_words:
            return matches
        return matches & ~tf.strings.regex_full_match(
            parts, pattern.format(self._single_character_words)
        )

    def _take_space(
        self, plain: tf.Tensor, token: tf.Tensor, row: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Removes from plain text the white space that belongs to neighboring tokens.

        Returns:
            The strings, the number of bytes removed at each string's end, and the number removed at
            its start.
        """
        taken = _before(tf.gather(self._rstrip, token), row, False)
        begun = tf.where(taken, tf.strings.regex_replace(plain, f"^[{WHITE_SPACE}]+", ""), plain)
        after = tf.strings.length(plain) - tf.strings.length(begun)
        taken = _after(tf.gather(self._lstrip, token), row, False)
        stripped = tf.where(taken, tf.strings.regex_replace(begun, f"[{WHITE_SPACE}]+$", ""), begun)
        before = tf.strings.length(begun) - tf.strings.length(stripped)
        return stripped, tf.cast(before, tf.int64), tf.cast(after, tf.int64)


def _insert(
    parts: _Parts, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> Pieces:
    """Joins the found tokens and the pieces `[parts, (pieces)]` of the plain text between them.

    Returns:
        Ids, starts and ends, in characters of the whole texts, int32 `[N, (tokens)]` each.
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
    """Returns the contents' hashes in ascending order, int64 `[tokens]`, and their indices."""
    with tf.init_scope():
        hashes = tf.strings.to_hash_bucket_fast(list(contents), _BUCKETS).numpy()
    order = np.argsort(hashes)
    return hashes[order], order


def _before(x: tf.Tensor, row: tf.Tensor, otherwise: Any) -> tf.Tensor:
    """Returns `x` of the previous part in the same row, `[parts]`; `otherwise` for a first part."""
    row_before = tf.pad(row, [[1, 0]], constant_values=-1)[:-1]
    return tf.where(row_before == row, tf.roll(x, 1, axis=0), otherwise)


def _after(x: tf.Tensor, row: tf.Tensor, otherwise: Any) -> tf.Tensor:
    """Returns `x` of the next part in the same row, `[parts]`; `otherwise` for a last part."""
    row_after = tf.pad(row, [[0, 1]], constant_values=-1)[1:]
    return tf.where(row_after == row, tf.roll(x, -1, axis=0), otherwise)
