"""SentencePiece in the graph: ALBERT, XLM-R, CamemBERT, DeBERTa v2 and v3.

tf.text has two operations. `FastSentencepieceTokenizer` is twice as fast, but returns only ids.
`SentencepieceTokenizer` supports every kind of model and also returns offsets. Both add the scores
of a whole text in single precision, so they choose wrong pieces in texts of megabytes. If no piece
of the model crosses a space, each different word of a batch is therefore tokenized once, by itself.

Kudo, 2018, https://arxiv.org/abs/1804.10959; Kudo and Richardson, 2018,
https://arxiv.org/abs/1808.06226.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.atomic import replace_file
from keras_bert.errors import InputError
from keras_bert.text.added_tokens import AddedToken, Pieces
from keras_bert.text.character_map import (
    compose_character_map,
    crosses_spaces,
    read_character_map,
)
from keras_bert.text.characters import bytes_to_characters, character_spans, row_ids
from keras_bert.text.sentencepiece.model import (
    SPACE,
    PieceType,
    SentencePieceModel,
    SentencePieceOperation,
)
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary, usual_special_tokens
from keras_bert.text.words import begins_word

MODEL_NAME = "spiece.model"

_BYTES = np.array([bytes([byte]) for byte in range(256)], object)
_FIRST_BYTE = 2  # index of the first byte's piece in the model of `_bytes`
DIGIT_COMMA = re.compile(r"\d,$")
"""Pieces that `split_digit_commas` makes unlikely."""
PENALTY = 100.0
"""Number that is subtracted from the scores of unwanted pieces, as in Hugging Face."""


@keras.saving.register_keras_serializable(package="keras_bert")
class SentencePiece(Tokenizer):
    """Splits texts into the pieces of a SentencePiece model.

    The vocabulary is `first_tokens`, then the model's pieces without the first `skipped_pieces`,
    then `last_tokens`. A skipped piece gets the id of the token with the same name.

    Args:
        model: the content of a model file (`spiece.model`, `spm.model`,
            `sentencepiece.bpe.model`).
        special_tokens: special tokens by role, as in `Vocabulary`. Plain text never becomes a
            special token.
        first_tokens: tokens before the pieces.
        skipped_pieces: number of pieces, from the first on, that the vocabulary leaves out.
        last_tokens: tokens after the pieces.
        normalization: names of `STEPS` in `character_map.py`. These steps are applied before the
            model's own normalization.
        byte_fallback: whether a character without a piece becomes its bytes, if the model has
            pieces for bytes. By default, such a character becomes the unknown token, as in Hugging
            Face's fast tokenizers.
        split_digit_commas: whether a comma after a digit is a separate piece, as in ALBERT.
        mask_takes_space: as in `Tokenizer`.
        added_tokens: as in `Tokenizer`.
        space_before_added: whether a space before a normalized added token becomes the token `▁`,
            as with Hugging Face's `Metaspace` without `WhitespaceSplit`.

    Attributes:
        fast_operation: `FastSentencepieceTokenizer`, which returns ids of pieces, or None if it
            would find other pieces than the slower operation.
        ids_of_pieces: token ids of the pieces, int32 `[pieces]`.

    Raises:
        InputError: if `model` is not a SentencePiece model, a special token is not in the
            vocabulary, or a step of normalization is unknown.

    Example:
        >>> model = Path("spiece.model").read_bytes()
        >>> tokenizer = SentencePiece(model, special_tokens={"pad": "<pad>", "unknown": "<unk>"})
        >>> xlm_roberta = SentencePiece(
        ...     Path("sentencepiece.bpe.model").read_bytes(),
        ...     first_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        ...     skipped_pieces=3,
        ...     last_tokens=["<mask>"],
        ...     special_tokens={
        ...         "pad": "<pad>", "unknown": "<unk>", "cls": "<s>", "separator": "</s>",
        ...         "mask": "<mask>",
        ...     },
        ... )
    """

    kind = "sentencepiece"
    file_name = MODEL_NAME
    in_files = ("model",)

    def __init__(
        self,
        model: bytes,
        *,
        special_tokens: Mapping[str, str] | None = None,
        first_tokens: Sequence[str] = (),
        skipped_pieces: int = 0,
        last_tokens: Sequence[str] = (),
        normalization: Sequence[str] = (),
        byte_fallback: bool = False,
        split_digit_commas: bool = False,
        mask_takes_space: bool = False,
        added_tokens: Sequence[AddedToken | Mapping[str, Any]] = (),
        space_before_added: bool = False,
    ) -> None:
        self.model = model
        self.first_tokens = tuple(first_tokens)
        self.skipped_pieces = skipped_pieces
        self.last_tokens = tuple(last_tokens)
        self.normalization = tuple(normalization)
        self.byte_fallback = byte_fallback
        self.split_digit_commas = split_digit_commas
        self.space_before_added = space_before_added
        self._read = SentencePieceModel.from_bytes(model)
        pieces = self._read.pieces[skipped_pieces:]
        tokens = [*self.first_tokens, *pieces, *self.last_tokens]
        vocabulary = Vocabulary(tokens, **(special_tokens or {}))
        super().__init__(vocabulary, mask_takes_space=mask_takes_space, added_tokens=added_tokens)
        with tf.init_scope():  # so that constants do not belong to the caller's graph
            self._build()

    def _build(self) -> None:
        model = self.model_of_operations()
        serialized = model.to_bytes()
        self._by_words = _separates_words(model)
        is_fast = self._by_words and _suits_fast_operation(model)
        self._complete = SentencePieceOperation(serialized)
        self.fast_operation = tf_text.FastSentencepieceTokenizer(serialized) if is_fast else None
        ids = {token: index for index, token in enumerate(self.vocabulary.tokens)}
        unknown = self.vocabulary.unknown_id
        self.ids_of_pieces = tf.constant(
            [ids.get(piece, unknown) for piece in model.pieces], tf.int32
        )
        self._space_id = ids.get(SPACE, unknown)

    def model_of_operations(self) -> SentencePieceModel:
        """Returns the model that tf.text's operations run: the given model with all options."""
        model = self._read
        special = set(self.vocabulary.special_tokens.values())
        types, scores = list(model.types), list(model.scores)
        for index, piece in enumerate(model.pieces):
            if types[index] == PieceType.UNKNOWN:
                continue
            if piece in special:
                types[index] = PieceType.CONTROL
            elif types[index] == PieceType.BYTE and not self.byte_fallback:
                types[index] = PieceType.NORMAL
            if self.split_digit_commas and DIGIT_COMMA.search(piece):
                scores[index] -= PENALTY
        return dataclasses.replace(
            model,
            scores=tuple(scores),
            types=tuple(types),
            byte_fallback=model.byte_fallback and self.byte_fallback,
            character_map=compose_character_map(self.normalization, model.character_map),
        )

    @functools.cached_property
    def is_continuation(self) -> np.ndarray:
        """Whether each token continues a word, bool `[V]`.

        A token continues a word unless it begins with `▁`, is a special token, or `begins_word`
        returns True for it. If no token begins with `▁`, no token continues a word.
        """
        tokens = self.vocabulary.tokens
        special = {*self.tokens_beyond_text, *self.first_tokens, *self.last_tokens}
        spaced = np.array([token.startswith(SPACE) for token in tokens])
        whole = np.array([token in special or begins_word(token) for token in tokens])
        return ~spaced & ~whole & spaced.any()

    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = self._words(texts)
        distinct, index = tf.unique(words.values, tf.int64)
        tokenizer = self.fast_operation or self._complete
        pieces = tokenizer.tokenize(distinct).with_row_splits_dtype(tf.int64)
        ids = tf.gather(pieces.with_values(tf.gather(self.ids_of_pieces, pieces.values)), index)
        return words.with_values(ids).merge_dims(1, 2)

    def _tokenize_with_offsets(self, texts: tf.Tensor) -> Pieces:
        words = self._words(texts)
        distinct, index = tf.unique(words.values, tf.int64)
        pieces, starts, ends = self._complete.tokenize_with_offsets(distinct)
        starts, ends = bytes_to_characters(distinct, starts, ends)
        ids = pieces.with_values(tf.gather(self.ids_of_pieces, pieces.values))
        ids, starts, ends = (tf.gather(x, index) for x in (ids, starts, ends))
        word_start, has_space = _places(words)
        word = row_ids(ids)
        is_first = tf.range(tf.size(word, tf.int64)) == tf.gather(ids.row_starts(), word)
        covers_space = is_first & tf.gather(has_space, word)
        only_space = covers_space & (ids.values == self._space_id)
        # If several pieces share a character, the operation assigns it to the last piece only.
        end = tf.maximum(ends.values, starts.values + tf.where(only_space, 0, 1))
        start = starts.values - tf.cast(covers_space, tf.int32)
        shift = tf.gather(word_start, word)
        ids, starts, ends = (
            words.with_values(ids.with_values(values)).merge_dims(1, 2)
            for values in (ids.values, start + shift, end + shift)
        )
        return ids, starts, ends

    def _normalize(
        self, texts: tf.Tensor
    ) -> tuple[tf.Tensor, tuple[tf.RaggedTensor, tf.RaggedTensor]]:
        """Normalizes as in `Tokenizer`, with a model whose pieces are single bytes."""
        pieces, starts, ends = self._bytes.tokenize_with_offsets(texts)
        data = pieces.with_values(tf.gather(_BYTES, pieces.values - _FIRST_BYTE))
        normalized = tf.strings.reduce_join(data, axis=1)
        if self.space_before_added:  # a space at the end of the text does not become `▁`
            normalized = tf.strings.regex_replace(normalized, " +$", "")
        first, after = character_spans(normalized)
        begin = tf.gather(starts.row_starts(), row_ids(first))
        starts = first.with_values(tf.gather(starts.values, begin + first.values))
        ends = after.with_values(tf.gather(ends.values, begin + after.values - 1))
        starts, ends = bytes_to_characters(texts, starts, ends)
        # If one character becomes several, the operation assigns it to the last of them only.
        return normalized, (starts, ends.with_values(tf.maximum(ends.values, starts.values + 1)))

    def _tokenize_between(self, texts: tf.Tensor) -> Pieces:
        pieces = self._tokenize_with_offsets(texts)
        if not self.space_before_added:
            return pieces
        has_space = tf.strings.regex_full_match(texts, "(?s:.*) ")
        end = tf.strings.length(tf.boolean_mask(texts, has_space), "UTF8_CHAR")
        counts = tf.cast(has_space, tf.int64)
        last = (tf.fill(tf.shape(end), self._space_id), end - 1, end)
        ids, starts, ends = (
            tf.concat([x, tf.RaggedTensor.from_row_lengths(values, counts)], axis=1)
            for x, values in zip(pieces, last, strict=True)
        )
        return ids, starts, ends

    @functools.cached_property
    def _bytes(self) -> SentencePieceOperation:
        pieces = ["<unk>", "\x01", *(f"<0x{byte:02X}>" for byte in range(256))]
        types = [PieceType.UNKNOWN, PieceType.NORMAL, *[PieceType.BYTE] * 256]
        model = SentencePieceModel(
            tuple(pieces),
            (0.0,) * len(pieces),
            tuple(types),
            character_map=self.model_of_operations().character_map,
            byte_fallback=True,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            escape_whitespaces=False,
        )
        return SentencePieceOperation(model.to_bytes())

    def _words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the parts of texts that are tokenized separately, `[N, (words)]`."""
        if self._by_words:
            return tf.strings.split(texts, " ")
        return tf.RaggedTensor.from_row_lengths(texts, tf.ones_like(texts, tf.int64))

    def _written(self) -> list[str | bytes]:
        typed = zip(self._read.pieces, self._read.types, strict=True)
        in_bytes = [p for p, kind in typed if kind == PieceType.BYTE and self.byte_fallback]
        bytes_of = {piece: bytes([int(piece[3:5], 16)]) for piece in in_bytes}  # <0x0A>
        own = {self.vocabulary.mask: f" {self.vocabulary.mask}", **bytes_of}
        return [own.get(token, token.replace(SPACE, " ")) for token in self.vocabulary.tokens]

    def readable(self, token_id: int) -> str:
        """Returns a token with a space in place of each `▁`."""
        return super().readable(token_id).replace(SPACE, " ")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as values for JSON. `model` is base64 text."""
        return {
            "model": base64.b64encode(self.model).decode(),
            "special_tokens": self.vocabulary.special_tokens,
            "first_tokens": list(self.first_tokens),
            "skipped_pieces": self.skipped_pieces,
            "last_tokens": list(self.last_tokens),
            "normalization": list(self.normalization),
            "byte_fallback": self.byte_fallback,
            "split_digit_commas": self.split_digit_commas,
            "mask_takes_space": self.mask_takes_space,
            "added_tokens": self.added_tokens_config,
            "space_before_added": self.space_before_added,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SentencePiece:
        """Makes the tokenizer from the dictionary of `get_config`."""
        return cls(**{**config, "model": base64.b64decode(config["model"])})

    def save(self, directory: str | os.PathLike) -> None:
        """Writes the model as `spiece.model`."""
        replace_file(Path(directory) / MODEL_NAME, self.model)

    @classmethod
    def from_file(
        cls,
        file: str | os.PathLike,
        *,
        special_tokens: Mapping[str, str] | None = None,
        **options: Any,
    ) -> SentencePiece:
        """Opens a model file; see `Tokenizer.from_file`.

        If neither the file nor `first_tokens` has the mask token and `last_tokens` is not given,
        the mask token becomes the last token of the vocabulary.
        """
        try:
            model = Path(file).read_bytes()
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}.") from None
        if special_tokens is None or "last_tokens" not in options:
            try:
                pieces = set(SentencePieceModel.from_bytes(model).pieces)
            except InputError as error:
                raise InputError(f"{file}: {error}") from None
            special_tokens = special_tokens or usual_special_tokens(pieces)
            mask = special_tokens.get("mask", "[MASK]")
            known = pieces | set(options.get("first_tokens", ()))
            options = {"last_tokens": [] if mask in known else [mask], **options}
        return cls(model, special_tokens=special_tokens, **options)


def _places(words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns where the words `[N, (words)]` of texts that were split at spaces begin.

    Some words may be empty.

    Returns:
        Position in its text of each word's first character, int32 `[W]`, and whether the word's
        first piece includes the space before the word, bool `[W]`. There is no space before a
        text's first word.
    """
    lengths = tf.strings.length(words.values, "UTF8_CHAR") + 1
    first_word = tf.gather(words.row_starts(), row_ids(words))
    start = tf.cumsum(lengths, exclusive=True)
    start -= tf.gather(start, first_word)
    # Each empty word before a word takes up one character, its space.
    words_before = tf.range(tf.size(first_word)) - tf.cast(first_word, tf.int32)
    return start, start > words_before


def _separates_words(model: SentencePieceModel) -> bool:
    """Returns whether tokenizing words one by one gives the same pieces as the whole text."""
    return (
        model.add_dummy_prefix
        and model.remove_extra_whitespaces
        and model.escape_whitespaces
        and not model.treat_whitespace_as_suffix
        and SPACE in model.pieces
        and not any(SPACE in piece[1:] or " " in piece for piece in model.pieces)
        and not crosses_spaces(model.character_map)
    )


def _suits_fast_operation(model: SentencePieceModel) -> bool:
    """Returns whether the fast operation returns the same ids as the slower one.

    The fast operation supports only unigram models without byte fallback and without user-defined
    pieces. It treats all white space of ASCII as spaces, so the map must convert it to spaces.
    """
    changed = read_character_map(model.character_map, 1)
    return (
        model.kind == "unigram"
        and not model.byte_fallback
        and PieceType.USER_DEFINED not in model.types
        and all(space in changed for space in "\t\n\v\f\r")
    )
