"""What every tokenizer is: texts to token ids, and back, in the graph."""

from __future__ import annotations

import abc
import functools
import importlib
import os
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.text.special_tokens import insert_special_tokens, split_at_special_tokens
from keras_bert.text.strings import Texts, to_strings
from keras_bert.text.vocabulary import Vocabulary

Pieces: TypeAlias = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
"""Ids, starts and ends of tokens, each `[N, (tokens)]`."""

TOKENIZERS = {"wordpiece": "WordPiece", "byte_pair": "BytePair", "sentencepiece": "SentencePiece"}
"""Kind to class; the module has the name of the kind."""


class Tokenizer(abc.ABC):
    """Splits texts into tokens of a vocabulary.

    A kind of tokenizer says how plain text becomes ids, and what a token looks like in text;
    special tokens that stand in the text are handled here.

    Args:
        vocabulary: the tokens.
        mask_takes_space: whether a mask token written in the text takes the white space before it
            along, where the tokens of the vocabulary begin with a space (RoBERTa).
    """

    kind: ClassVar[str]
    """Key of `TOKENIZERS`."""
    in_files: ClassVar[tuple[str, ...]] = ("vocabulary",)
    """Keys of the configuration that `save` writes to files of their own."""
    keeps_spaces: ClassVar[bool] = False
    """Whether white space at the ends of a text is in its tokens."""

    def __init__(self, vocabulary: Vocabulary, *, mask_takes_space: bool = False) -> None:
        self.vocabulary = vocabulary
        self.mask_takes_space = mask_takes_space

    @property
    @abc.abstractmethod
    def is_continuation(self) -> np.ndarray:
        """Which tokens do not begin a word: bool `[V]`; False for special tokens."""

    @abc.abstractmethod
    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids int32 `[N, (tokens)]` of texts `[N]` without special tokens; `""` has none."""

    @abc.abstractmethod
    def _tokenize_with_offsets(self, texts: tf.Tensor) -> Pieces:
        """As `_tokenize`, with starts and ends in characters of the texts, int32."""

    @abc.abstractmethod
    def _written(self) -> Sequence[str | bytes]:
        """What each token `[V]` is within a text, with the space before it if it has one."""

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
        if allow_special_tokens:
            return self._tokenize_around_special_tokens(texts)[0]
        return self._tokenize(texts)

    def tokenize_with_offsets(self, texts: Texts, *, allow_special_tokens: bool = False) -> Pieces:
        """As `tokenize`, with the characters of the texts that each token covers.

        Returns:
            Ids, starts and ends (exclusive), int32 `[N, (tokens)]`: `text[start:end]` is what the
            token was made of.
        """
        texts = to_strings(texts)
        if allow_special_tokens:
            return self._tokenize_around_special_tokens(texts)
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

    def _tokenize_around_special_tokens(self, texts: tf.Tensor) -> Pieces:
        vocabulary = self.vocabulary
        ids = {token: vocabulary.id_of(token) for token in vocabulary.special_tokens.values()}
        taking = [vocabulary.mask] if self.mask_takes_space else []
        parts = split_at_special_tokens(texts, ids, taking_space=taking)
        return insert_special_tokens(parts, *self._tokenize_with_offsets(parts.plain.values))


def tokenizer_class(kind: str) -> type[Tokenizer]:
    """The class of a kind of tokenizer.

    Raises:
        InputError: if there is no such kind.
    """
    if kind not in TOKENIZERS:
        raise InputError(
            f"There is no tokenizer {kind!r}; the tokenizers are {', '.join(TOKENIZERS)}."
        )
    return getattr(importlib.import_module(f"keras_bert.text.{kind}"), TOKENIZERS[kind])
