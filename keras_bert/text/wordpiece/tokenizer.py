"""BERT's tokenizer, in the graph.

Two operations of tf.text do the work. `FastBertNormalizer` has a table of BERT's rules
(`normalization.py`). `FastWordpieceTokenizer` splits words and matches pieces in one pass (Song et
al., 2021, https://arxiv.org/abs/2012.15524). Both run in TFLite, too.
"""

from __future__ import annotations

import functools
import gzip
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
from keras_bert.text.characters import WHITE_SPACE, character_spans, to_characters
from keras_bert.text.files import read_lines
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import (
    CONTINUATION,
    Vocabulary,
    is_continuation,
    usual_special_tokens,
)

VOCABULARY_NAME = "vocab.txt"
_MOST_BYTES_PER_CHARACTER = 4
_MOST_BYTES_PER_TOKEN = 256  # tf.text's limit
_TABLES = Path(__file__).parent / "tables"
_PUNCTUATION = r"\p{P}$+<=>^`|~"  # BERT counts all of ASCII's symbols as punctuation
CJK = (  # the CJK Unified Ideographs and compatibility blocks that tokenization.py lists
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
"""Ideographs that are words by themselves, as the inside of `[...]` in a regular expression."""


@keras.saving.register_keras_serializable(package="keras_bert")
class WordPiece(Tokenizer):
    """Splits texts into pieces of words, as `tokenization.py` of BERT does.

    Args:
        vocabulary: vocabulary of the pieces.
        lowercase: whether to lowercase texts, as uncased models do.
        strip_accents: whether to decompose characters (NFD) and drop non-spacing marks; by default
            the value of `lowercase`.
        split_cjk: whether each CJK ideograph is a word.
        max_characters_per_word: a longer word becomes the unknown token. Hugging Face's limit is
            100, the limit of `tokenization.py` is 200.
        added_tokens: as in `Tokenizer`.

    Attributes:
        normalizer: operation that normalizes texts `[N]` for `pieces`.

    Raises:
        InputError: if `max_characters_per_word` is not positive, or a token is too long.

    Example:
        >>> tokenizer = WordPiece(Vocabulary.from_file("vocab.txt"))
        >>> tokenizer.tokenize(["unaffable"])
        <tf.RaggedTensor [[14477, 20961, 3468]]>
    """

    kind = "wordpiece"
    file_name = VOCABULARY_NAME

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
        self.single_character_words = CJK if split_cjk else ""
        self.max_characters_per_word = max_characters_per_word
        with tf.init_scope():  # so that constants do not belong to the caller's graph
            self.normalizer = load_normalizer(lowercase=lowercase, strip_accents=self.strip_accents)
            self._wordpiece = tf_text.FastWordpieceTokenizer(
                [self._as_matched(token, index) for index, token in enumerate(vocabulary.tokens)],
                suffix_indicator=CONTINUATION,
                max_bytes_per_word=_MOST_BYTES_PER_CHARACTER * max_characters_per_word,
                token_out_type=tf.int32,
                unknown_token=self._as_matched(vocabulary.unknown, vocabulary.unknown_id),
                no_pretokenization=not split_cjk,
            )
            self._continues_word = tf.constant(self.is_continuation)
            self._lengths = tf.constant(
                [len(token.removeprefix(CONTINUATION)) for token in vocabulary.tokens]
            )

    @functools.cached_property
    def is_continuation(self) -> np.ndarray:
        """Whether each token continues a word (`##ing`), bool `[V]`."""
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
        """Tokenizes normalized texts `[N]`.

        Returns:
            Ids (int32), and starts and ends in bytes (int64), `[N, (tokens)]` each.
        """
        if self.split_cjk:
            pieces = self._wordpiece.tokenize_with_offsets(normalized)
        else:
            words, word_starts, _ = split_words(normalized, split_cjk=False)
            ids, starts, ends = self._wordpiece.tokenize_with_offsets(words)
            shift = word_starts[..., tf.newaxis]
            pieces = tuple(x.merge_dims(1, 2) for x in (ids, starts + shift, ends + shift))
        return self._limit_words(*pieces)

    def _limit_words(
        self, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> Pieces:
        """Returns the pieces, with one unknown token for each word that is too long.

        tf.text's operation limits the bytes of a word. A limit that allows all words of
        `max_characters_per_word` characters also allows some longer words. So this method counts
        the characters of each word's pieces.
        """
        continues = tf.gather(self._continues_word, ids.values)
        word = tf.cumsum(tf.cast(~continues, tf.int32)) - 1  # index of each token's word
        lengths = tf.math.segment_sum(tf.gather(self._lengths, ids.values), word)
        limit = self.max_characters_per_word

        def unchanged() -> tuple[tf.Tensor, ...]:
            return ids.values, starts.values, ends.values, ids.row_splits

        def limited() -> tuple[tf.Tensor, ...]:
            too_long = tf.gather(lengths > limit, word)
            last_piece = tf.cumsum(tf.math.segment_sum(tf.ones_like(word), word)) - 1
            word_ends = tf.gather(ends.values, tf.gather(last_piece, word))
            kept = ~(continues & too_long)
            kept_before = tf.pad(tf.cumsum(tf.cast(kept, tf.int64)), [[1, 0]])
            return (
                tf.where(too_long, self.vocabulary.unknown_id, ids.values)[kept],
                starts.values[kept],
                tf.where(too_long, word_ends, ends.values)[kept],
                tf.gather(kept_before, ids.row_splits),
            )

        *flat, row_splits = tf.cond(tf.reduce_any(lengths > limit), limited, unchanged)
        ids, starts, ends = (
            tf.RaggedTensor.from_row_splits(values, row_splits, validate=False) for values in flat
        )
        return ids, starts, ends

    def _as_matched(self, token: str, index: int) -> str:
        """Returns a token for tf.text's operation, changed if plain text must not match it.

        A changed token begins with U+0001, which no normalized text contains. These tokens are
        changed:

        - Special and added tokens, because plain text must not become them.
        - Tokens with white space, which BERT's code would not find.
        - U+0011 and tokens that are too long for the operation, because it refuses them.

        Raises:
            InputError: if a word within the limit could match a token that is too long.
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
        """Returns the constructor's arguments, with the vocabulary, as values for JSON."""
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
        """Makes the tokenizer from the dictionary of `get_config`."""
        config = dict(config)
        vocabulary = Vocabulary(config.pop("vocabulary"), **config.pop("special_tokens"))
        return cls(vocabulary, **config)

    def save(self, directory: str | os.PathLike) -> None:
        """Writes the vocabulary as `vocab.txt`."""
        self.vocabulary.save(Path(directory) / VOCABULARY_NAME)

    @classmethod
    def from_file(
        cls,
        file: str | os.PathLike,
        *,
        special_tokens: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WordPiece:
        """Opens a `vocab.txt`; see `Tokenizer.from_file`."""
        special = special_tokens or usual_special_tokens(set(read_lines(file)))
        return cls(Vocabulary.from_file(file, **special), **options)


@functools.cache
def load_table(*, lowercase: bool, strip_accents: bool) -> bytes:
    """Returns the bytes of a shipped table of normalization; see `normalization.py`."""
    return gzip.decompress(table_path(lowercase, strip_accents).read_bytes())


def load_normalizer(*, lowercase: bool, strip_accents: bool) -> tf_text.FastBertNormalizer:
    """Returns the operation that normalizes strings with a shipped table."""
    table = load_table(lowercase=lowercase, strip_accents=strip_accents)
    return tf_text.FastBertNormalizer(model_buffer=tf.constant(np.frombuffer(table, np.uint8)))


def split_words(
    texts: tf.Tensor, *, split_cjk: bool = True
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits normalized texts `[N]` into words.

    Returns:
        Words (string), and their starts and ends in bytes (int64), `[N, (words)]` each.
    """
    single = f"[{_PUNCTUATION}{CJK if split_cjk else ''}]"
    return tf_text.regex_split_with_offsets(
        texts, delim_regex_pattern=f"[{WHITE_SPACE}]+|{single}", keep_delim_regex_pattern=single
    )


def table_path(lowercase: bool, strip_accents: bool) -> Path:
    """Returns the path of a shipped table."""
    case = "lowercase" if lowercase else "cased"
    accents = "no-accents" if strip_accents else "accents"
    return _TABLES / f"{case}-{accents}.bin.gz"
