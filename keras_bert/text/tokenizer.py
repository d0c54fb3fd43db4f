"""Base class of all tokenizers: texts to token ids, and back, in the graph."""

from __future__ import annotations

import abc
import dataclasses
import functools
import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.surrogates import without_surrogates
from keras_bert.text.added_tokens import AddedToken, Pieces, TokenCutter, to_added_tokens
from keras_bert.text.characters import spans_through
from keras_bert.text.vocabulary import Vocabulary

TOKENIZERS = {"wordpiece": "WordPiece", "byte_pair": "BytePair", "sentencepiece": "SentencePiece"}
"""Kind to class; the module has the name of the kind."""

Texts: TypeAlias = "str | bytes | Sequence[str] | np.ndarray | tf.Tensor"
"""A text or a batch of them."""


class Tokenizer(abc.ABC):
    """Splits texts into tokens of a vocabulary.

    A kind of tokenizer says how plain text becomes ids, and what a token looks like in text;
    added tokens, and special tokens that stand in the text, are cut out here.

    Args:
        vocabulary: the tokens.
        mask_takes_space: whether a mask token written in the text takes the white space before it
            along, where the tokens of the vocabulary begin with a space (RoBERTa).
        added_tokens: tokens of the vocabulary that are cut out of every text, or their
            dictionaries. The five special tokens are not among them.

    Raises:
        InputError: if an added token is not in the vocabulary, or has an option out of range.
    """

    kind: ClassVar[str]
    """Key of `TOKENIZERS`."""
    in_files: ClassVar[tuple[str, ...]] = ("vocabulary",)
    """Keys of the configuration that `save` writes to files of their own."""
    keeps_spaces: ClassVar[bool] = False
    """Whether white space at the ends of a text is in its tokens."""
    trims_offsets: ClassVar[bool] = False
    """Whether the offsets of an added token leave out the white space that it takes along."""
    unlike_words: str = ""
    """Characters that stand alone in normalized text, for a regular expression."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        mask_takes_space: bool = False,
        added_tokens: Sequence[AddedToken | Mapping[str, Any]] = (),
    ) -> None:
        self.vocabulary = vocabulary
        self.mask_takes_space = mask_takes_space
        self.added_tokens = to_added_tokens(added_tokens)
        for token in self.added_tokens:
            vocabulary.id_of(token.content)

    @property
    @abc.abstractmethod
    def is_continuation(self) -> np.ndarray:
        """Whether each token does not begin a word: bool `[V]`; False for special tokens."""

    @abc.abstractmethod
    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids int32 `[N, (tokens)]` of texts `[N]` without special tokens; `""` has none."""

    @abc.abstractmethod
    def _tokenize_with_offsets(self, texts: tf.Tensor) -> Pieces:
        """Returns the ids of `_tokenize`, and starts and ends in characters, int32."""

    def _normalize(
        self, texts: tf.Tensor
    ) -> tuple[tf.Tensor, tuple[tf.RaggedTensor, tf.RaggedTensor] | None]:
        """Normalized texts `[N]`, which normalizing again does not change.

        With it the characters of the texts that each character of the normalized texts comes from:
        starts and ends, int32 `[N, (characters)]`; None if nothing is ever changed.
        """
        return texts, None

    @abc.abstractmethod
    def _written(self) -> Sequence[str | bytes]:
        """Text of each token `[V]` within a text, with the space before it if it has one."""

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, ready for JSON, complete."""

    @classmethod
    @abc.abstractmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The tokenizer that `get_config` describes."""

    @abc.abstractmethod
    def save(self, directory: str | os.PathLike) -> None:
        """Writes what `in_files` names, as files that others read too (`vocab.txt`)."""

    @classmethod
    @abc.abstractmethod
    def load(cls, directory: str | os.PathLike, **options: Any) -> Any:
        """The tokenizer of files that `save` wrote; `options` are the rest of the configuration.

        Raises:
            InputError: if a file is missing or damaged.
        """

    def tokenize(self, texts: Texts, *, allow_special_tokens: bool = False) -> tf.RaggedTensor:
        """Token ids int32 `[N, (tokens)]` of texts `[N]`, without `[CLS]` and `[SEP]`.

        Args:
            texts: strings, UTF-8.
            allow_special_tokens: read a special token written in the text (`[MASK]`) as that
                token, not as plain text.
        """
        texts = to_strings(texts)
        if self.added_tokens or allow_special_tokens:
            return self._tokenize_around_tokens(texts, allow_special_tokens)[0]
        return self._tokenize(texts)

    def tokenize_with_offsets(self, texts: Texts, *, allow_special_tokens: bool = False) -> Pieces:
        """Returns token ids as `tokenize` does, and the characters that each token covers.

        Returns:
            Ids, starts and ends (exclusive), int32 `[N, (tokens)]`: `text[start:end]` is the
            token's text.
        """
        texts = to_strings(texts)
        if self.added_tokens or allow_special_tokens:
            return self._tokenize_around_tokens(texts, allow_special_tokens)
        return self._tokenize_with_offsets(texts)

    def detokenize(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Texts `[N]` of token ids `[N, T]` or `[N, (tokens)]`.

        Padding, `[CLS]` and `[SEP]` are left out.
        """
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.RaggedTensor.from_tensor(tf.convert_to_tensor(ids))
        written = ids.with_values(tf.gather(self._text_of_tokens, ids.values))
        texts = tf.strings.reduce_join(written, axis=1)
        return texts if self.keeps_spaces else tf.strings.strip(texts)

    @functools.cached_property
    def _text_of_tokens(self) -> np.ndarray:
        vocabulary = self.vocabulary
        left_out = {vocabulary.pad, vocabulary.cls, vocabulary.separator}
        written = [
            b"" if token in left_out else text if isinstance(text, bytes) else text.encode()
            for token, text in zip(vocabulary.tokens, self._written(), strict=True)
        ]
        return np.array(written, object)

    def readable(self, token_id: int) -> str:
        """A token as a reader knows it (`##ing`, ` the`)."""
        return self.vocabulary.tokens[token_id]

    def _tokenize_around_tokens(self, texts: tf.Tensor, allow_special_tokens: bool) -> Pieces:
        """Tokens of texts `[N]` around those that are cut out as they stand, then normalized."""
        special = self._special_tokens if allow_special_tokens else []
        tokens = [*special, *(token for token in self.added_tokens if not token.normalized)]
        if not tokens:
            return self._tokenize_normalized(texts)
        cutter = self._cutter(tokens, [token.content for token in tokens])
        return cutter.around(texts, self._tokenize_normalized)

    def _tokenize_normalized(self, texts: tf.Tensor) -> Pieces:
        if self._normalized_cutter is None:
            return self._tokenize_with_offsets(texts)
        normalized, spans = self._normalize(texts)
        pieces = self._normalized_cutter.around(normalized, self._tokenize_between)
        return pieces if spans is None else spans_through(spans, *pieces)

    def _tokenize_between(self, texts: tf.Tensor) -> Pieces:
        """Tokenizes the texts between normalized added tokens, with offsets."""
        return self._tokenize_with_offsets(texts)

    @functools.cached_property
    def _normalized_cutter(self) -> TokenCutter | None:
        tokens = [token for token in self.added_tokens if token.normalized]
        tokens.sort(key=lambda token: not token.special)  # those come first where forms are equal
        if not tokens:
            return None
        with tf.init_scope():
            contents, _ = self._normalize(tf.constant([token.content for token in tokens]))
        contents = [content.decode() for content in contents.numpy()]
        return self._cutter(tokens, contents, no_words=self.unlike_words)

    def _cutter(
        self, tokens: Sequence[AddedToken], contents: Sequence[str], **options: Any
    ) -> TokenCutter:
        by_special = sorted(
            zip(tokens, contents, strict=True), key=lambda pair: not pair[0].special
        )
        ids = [self.vocabulary.id_of(token.content) for token, _ in by_special]
        found, forms = zip(*by_special, strict=True)
        return TokenCutter(found, forms, ids, covers_space=not self.trims_offsets, **options)

    @property
    def _special_tokens(self) -> list[AddedToken]:
        mask = self.vocabulary.mask
        return [
            AddedToken(token, special=True, lstrip=token == mask and self.mask_takes_space)
            for token in dict.fromkeys(self.vocabulary.special_tokens.values())
        ]

    def refuse_added_tokens(self, reader: str, way_out: str) -> None:
        """Raises an error if there are tokens that `reader` would not cut out of texts.

        Raises:
            InputError: naming one of them and `way_out`.
        """
        if self.added_tokens:
            others = len(self.added_tokens) - 1
            raise InputError(
                f"{reader} cannot cut the added token {self.added_tokens[0].content!r}"
                f"{f' and {others} more' if others else ''} out of texts. {way_out}."
            )

    @property
    def added_tokens_config(self) -> list[dict[str, Any]]:
        """The added tokens, ready for JSON."""
        return [dataclasses.asdict(token) for token in self.added_tokens]

    @functools.cached_property
    def tokens_beyond_text(self) -> set[str]:
        """Special tokens, and tokens that only cutting a text finds."""
        added = {token.content for token in self.added_tokens if not token.in_model}
        return added.union(self.vocabulary.special_tokens.values())


def tokenizer_class(kind: str) -> type[Tokenizer]:
    """The class of a kind of tokenizer.

    Raises:
        InputError: if there is no such kind.
    """
    if kind not in TOKENIZERS:
        raise InputError(
            f"There is no tokenizer {kind!r}; the tokenizers are {', '.join(TOKENIZERS)}."
        )
    return getattr(importlib.import_module(f"keras_bert.text.{kind}.tokenizer"), TOKENIZERS[kind])


def to_strings(texts: Texts) -> tf.Tensor:
    """Texts as strings `[N]`; a single text is a batch of one.

    A lone surrogate, which no encoding can express, becomes U+FFFD.

    Raises:
        InputError: if the texts are not strings, or are nested.
    """
    strings: Any = texts if tf.is_tensor(texts) else _from_python(texts)
    if strings.dtype != tf.string:
        raise InputError(f"Texts must be strings, not {strings.dtype.name}.")
    if strings.shape.rank == 0:
        return strings[tf.newaxis]
    if strings.shape.rank != 1:
        raise InputError(f"Texts must have the shape [N], not {strings.shape}: flatten them.")
    return strings


def _from_python(texts: Any) -> tf.Tensor:
    if isinstance(texts, np.ndarray):
        texts = texts.tolist()
    elif isinstance(texts, Iterable) and not isinstance(texts, (str, bytes)):
        texts = list(texts)
    if texts == []:
        return tf.zeros([0], tf.string)
    try:
        return tf.constant(texts)
    except (TypeError, ValueError):
        return tf.constant(
            [_valid(text) for text in texts] if isinstance(texts, list) else _valid(texts)
        )


def _valid(text: Any) -> str | bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise InputError(f"Texts must be strings: got {text!r} of type {type(text).__name__}.")
    return without_surrogates(text)
