"""BERT's tokenizer, in the graph.

Two operations of tf.text do the work: `FastBertNormalizer`, with a table that follows BERT's rules
(see `normalization.py`), and `FastWordpieceTokenizer`, which splits words and matches pieces in
one pass (Song et al., 2021, https://arxiv.org/abs/2012.15524). Both run in TFLite too.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.errors import InputError
from keras_bert.text.added_tokens import AddedToken, Pieces
from keras_bert.text.characters import character_spans, to_characters
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import CONTINUATION, Vocabulary, is_continuation
from keras_bert.text.wordpiece.normalization import CJK, load_normalizer, split_words

VOCABULARY_NAME = "vocab.txt"
_MOST_BYTES_PER_CHARACTER = 4
_MOST_BYTES_PER_TOKEN = 256  # of tf.text's operation


@keras.saving.register_keras_serializable(package="keras_bert")
class WordPiece(Tokenizer):
    """Splits texts into pieces of words, as `tokenization.py` of BERT does.

    Example:
        >>> tokenizer = WordPiece(Vocabulary.from_file("vocab.txt"))
        >>> tokenizer.tokenize(["unaffable"])
        <tf.RaggedTensor [[14477, 20961, 3468]]>

    Args:
        vocabulary: the pieces.
        lowercase: lower the case, as uncased models do.
        strip_accents: decompose (NFD) and drop non-spacing marks; by default as `lowercase`.
        split_cjk: make a word of each CJK ideograph.
        max_characters_per_word: a longer word becomes the unknown token. Hugging Face has 100,
            `tokenization.py` 200.
        added_tokens: as in `Tokenizer`.

    Attributes:
        normalizer: the operation that makes of texts `[N]` what `pieces` takes.

    Raises:
        InputError: if `max_characters_per_word` is not positive, or a token is too long.
    """

    kind = "wordpiece"

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        max_characters_per_word: int = 100,
        added_tokens: Sequence[AddedToken | Mapping[str, Any]] = (),
    ) -> None:
        if max_characters_per_word < 1:
            raise InputError(
                f"max_characters_per_word must be positive, not {max_characters_per_word}."
            )
        super().__init__(vocabulary, added_tokens=added_tokens)
        self.lowercase = lowercase
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self.split_cjk = split_cjk
        self.unlike_words = CJK if split_cjk else ""
        self.max_characters_per_word = max_characters_per_word
        with tf.init_scope():  # constants outlive a graph around this call
            self._build()

    def _build(self) -> None:
        self.normalizer = load_normalizer(
            lowercase=self.lowercase, strip_accents=self.strip_accents
        )
        self._wordpiece = tf_text.FastWordpieceTokenizer(
            [self._as_matched(token, index) for index, token in enumerate(self.vocabulary.tokens)],
            suffix_indicator=CONTINUATION,
            max_bytes_per_word=_MOST_BYTES_PER_CHARACTER * self.max_characters_per_word,
            token_out_type=tf.int32,
            unknown_token=self._as_matched(self.vocabulary.unknown, self.vocabulary.unknown_id),
            no_pretokenization=not self.split_cjk,
        )
        self._limit_words = _WordLimit(
            self.vocabulary.tokens,
            self.is_continuation,
            self.vocabulary.unknown_id,
            self.max_characters_per_word,
        )

    @functools.cached_property
    def is_continuation(self) -> np.ndarray:
        """Whether each token continues a word (`##ing`): bool `[V]`."""
        return np.array([is_continuation(token) for token in self.vocabulary.tokens])

    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self.pieces(self.normalizer.normalize(texts))[0]

    def _tokenize_with_offsets(self, texts: tf.Tensor) -> Pieces:
        normalized, byte_map = self.normalizer.normalize_with_offsets(texts)
        ids, starts, ends = self.pieces(normalized)
        return ids, *to_characters(texts, byte_map, starts, ends)

    def _normalize(
        self, texts: tf.Tensor
    ) -> tuple[tf.Tensor, tuple[tf.RaggedTensor, tf.RaggedTensor]]:
        normalized, byte_map = self.normalizer.normalize_with_offsets(texts)
        return normalized, to_characters(texts, byte_map, *character_spans(normalized))

    def _written(self) -> list[str]:
        return [
            token.removeprefix(CONTINUATION) if continues else f" {token}"
            for token, continues in zip(self.vocabulary.tokens, self.is_continuation, strict=True)
        ]

    def pieces(self, normalized: tf.Tensor) -> Pieces:
        """Ids int32, starts and ends int64 in bytes, `[N, (tokens)]`, of normalized texts `[N]`."""
        if self.split_cjk:
            pieces = self._wordpiece.tokenize_with_offsets(normalized)
        else:
            words, word_starts, _ = split_words(normalized, split_cjk=False)
            ids, starts, ends = self._wordpiece.tokenize_with_offsets(words)
            shift = word_starts[..., tf.newaxis]
            pieces = tuple(x.merge_dims(1, 2) for x in (ids, starts + shift, ends + shift))
        return self._limit_words(*pieces)

    def _as_matched(self, token: str, index: int) -> str:
        """Returns the token as the operation gets it, so that no text matches what it should not.

        Special and added tokens come from the caller or are cut out, so no text becomes them. The
        operation, unlike BERT, would find a token with white space in it, and refuses U+0011, a
        mark of its own. It also refuses long tokens, which only a longer word than the limit could
        have. No control character is left in normalized text.

        Raises:
            InputError: if a word within the limit could have a token that is too long.
        """
        is_beyond = token in self.tokens_beyond_text
        is_found = not (is_beyond or token == "\x11" or any(map(str.isspace, token)))
        piece = token.removeprefix(CONTINUATION)
        if len(piece.encode()) <= _MOST_BYTES_PER_TOKEN:
            return token if is_found else f"\x01{token}"
        if is_found and len(piece) <= self.max_characters_per_word:
            raise InputError(
                f"The vocabulary's token {index} has {len(piece.encode())} bytes, but tf.text "
                f"matches at most {_MOST_BYTES_PER_TOKEN}. Remove the token."
            )
        return f"\x01{index}"

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, ready for JSON; the vocabulary is in it."""
        return {
            "vocabulary": list(self.vocabulary.tokens),
            "special_tokens": self.vocabulary.special_tokens,
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split_cjk": self.split_cjk,
            "max_characters_per_word": self.max_characters_per_word,
            "added_tokens": self.added_tokens_config,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WordPiece:
        """The tokenizer that `get_config` describes."""
        config = dict(config)
        vocabulary = Vocabulary(config.pop("vocabulary"), **config.pop("special_tokens"))
        return cls(vocabulary, **config)

    def save(self, directory: str | os.PathLike) -> None:
        """Writes the vocabulary as `vocab.txt`."""
        self.vocabulary.save(Path(directory) / VOCABULARY_NAME)

    @classmethod
    def load(
        cls,
        directory: str | os.PathLike,
        *,
        special_tokens: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WordPiece:
        """The tokenizer of a directory's `vocab.txt`.

        Raises:
            InputError: if it is missing or damaged.
        """
        path = Path(directory) / VOCABULARY_NAME
        return cls(Vocabulary.from_file(path, **(special_tokens or {})), **options)


class _WordLimit:
    """BERT's limit on the length of a word: a word of more than `limit` characters is unknown.

    tf.text's operation limits bytes. If its limit is so large that it admits every word of few
    enough characters, it also admits some longer words; their pieces are found here by adding up
    their characters.

    Args:
        tokens: the vocabulary `[V]`.
        continues_word: bool `[V]`, which tokens are not the first of their word.
        unknown_id: what stands for a longer word.
        limit: the most characters of a word.
    """

    def __init__(
        self, tokens: Sequence[str], continues_word: np.ndarray, unknown_id: int, limit: int
    ) -> None:
        characters = [len(token.removeprefix(CONTINUATION)) for token in tokens]
        self._characters = tf.constant(characters, tf.int32)
        self._continues_word = tf.constant(continues_word)
        self._unknown_id = unknown_id
        self._limit = limit

    def __call__(
        self, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> Pieces:
        """The pieces, fewer where a word was too long."""
        continues = tf.gather(self._continues_word, ids.values)
        word = tf.cumsum(tf.cast(~continues, tf.int32)) - 1  # of each token
        lengths = tf.math.segment_sum(tf.gather(self._characters, ids.values), word)

        def unchanged() -> tuple[tf.Tensor, ...]:
            return ids.values, starts.values, ends.values, ids.row_splits

        def limited() -> tuple[tf.Tensor, ...]:
            too_long = tf.gather(lengths > self._limit, word)
            last_piece = tf.cumsum(tf.math.segment_sum(tf.ones_like(word), word)) - 1
            word_ends = tf.gather(ends.values, tf.gather(last_piece, word))
            kept = ~(continues & too_long)
            kept_before = tf.pad(tf.cumsum(tf.cast(kept, tf.int64)), [[1, 0]])
            return (
                tf.where(too_long, self._unknown_id, ids.values)[kept],
                starts.values[kept],
                tf.where(too_long, word_ends, ends.values)[kept],
                tf.gather(kept_before, ids.row_splits),
            )

        *flat, row_splits = tf.cond(tf.reduce_any(lengths > self._limit), limited, unchanged)
        ids, starts, ends = (
            tf.RaggedTensor.from_row_splits(values, row_splits, validate=False) for values in flat
        )
        return ids, starts, ends
