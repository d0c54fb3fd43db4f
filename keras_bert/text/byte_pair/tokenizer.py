"""Byte-level byte-pair encoding in the graph: RoBERTa, DeBERTa v1, ModernBERT, EuroBERT.

Texts are split into words (`splitting.py`). Then pairs of a word's bytes are merged, one pair at a
time, always the pair that was learned first (Sennrich et al., 2016,
https://arxiv.org/abs/1508.07909; Radford et al., 2019). tf.text's SentencePiece operation does the
merging. Its model has a piece for each token, and the order of the merges as scores. Merging is the
slowest step, so each different word of a batch is merged only once, and not at all if it is one
token. The steps before merging run once for each different chunk between spaces.

In `vocab.json` and `merges.txt`, a printable character stands for each byte. These characters are
the alphabet of bytes. A byte that is printable in Latin-1 stands for itself. The other bytes
(control characters, white space, 0xAD) have the code points from 256 on, in order. So a space is
`Ġ` and a line feed `Ċ`.
"""

from __future__ import annotations

import functools
import json
import operator
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.atomic import replace_file
from keras_bert.errors import InputError
from keras_bert.text.added_tokens import AddedToken, Pieces
from keras_bert.text.byte_pair.splitting import (
    PATTERNS,
    cut_at_spaces,
    restore_spaces,
    split_words,
)
from keras_bert.text.character_map import write_character_map
from keras_bert.text.characters import (
    bytes_to_characters,
    character_spans,
    characters_before,
    row_ids,
    spans_through,
)
from keras_bert.text.files import read_lines
from keras_bert.text.sentencepiece.model import SentencePieceModel, SentencePieceOperation
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary, usual_special_tokens

TOKENS_NAME = "vocab.json"
MERGES_NAME = "merges.txt"
_FIRST_LINE = "#version: 0.2"

_PRINTED = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = sorted(set(range(256)) - _PRINTED)

BYTE_CODE_POINTS: tuple[int, ...] = tuple(
    byte if byte in _PRINTED else 256 + _OTHERS.index(byte) for byte in range(256)
)
"""Code point for each byte."""

BYTE_CHARACTERS: tuple[str, ...] = tuple(map(chr, BYTE_CODE_POINTS))
"""Character for each byte."""

SPACE = BYTE_CHARACTERS[0x20]
"""Character for a space: Ġ."""

_BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}

_NOT_IN_TEXT = "\x01"  # not in the alphabet of bytes
_LONGEST_WHOLE_WORD = 100  # bytes; longer words are always merged
_LONGEST_TOKEN = 256  # bytes, by `FastWordpieceTokenizer`


@keras.saving.register_keras_serializable(package="keras_bert")
class BytePair(Tokenizer):
    """Splits texts into tokens made of merged bytes, as GPT-2 and Llama 3 do.

    Args:
        vocabulary: tokens in the alphabet of bytes. A byte without a token becomes the unknown
            token.
        merges: pairs of tokens to join, in the order of learning; empty for a vocabulary of single
            bytes.
        add_prefix_space: whether to put a space before a text that does not begin with one, so that
            its first word has the same tokens as inside a text.
        normalization: "nfc" (composed characters, as in ModernBERT), or "" for none.
        pattern: how texts are split into words: "gpt2", or "llama3" (as in EuroBERT).
        ignore_merges: whether every word that is a token stays whole, even if the merges make
            other tokens of it (as in EuroBERT).
        mask_takes_space: as in `Tokenizer`.
        added_tokens: as in `Tokenizer`.

    Raises:
        InputError: if the normalization or the pattern is unknown, the pattern "llama3" comes with
            `add_prefix_space`, or a merge has or makes a token that is not in the vocabulary.

    Example:
        >>> tokenizer = BytePair(vocabulary, [("h", "e"), ("l", "l"), ("Ġ", "he")])
        >>> tokenizer.tokenize(["hell", " hell"])
        <tf.RaggedTensor [[262, 263], [264, 263]]>
    """

    kind = "byte_pair"
    file_name = TOKENS_NAME
    in_files = ("vocabulary", "merges")
    keeps_spaces = True
    trims_offsets = True

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: Iterable[Sequence[str]] = (),
        *,
        add_prefix_space: bool = False,
        normalization: str = "",
        pattern: str = "gpt2",
        ignore_merges: bool = False,
        mask_takes_space: bool = True,
        added_tokens: Sequence[AddedToken | Mapping[str, Any]] = (),
    ) -> None:
        if normalization not in ("", "nfc"):
            raise InputError(f"normalization is {normalization!r}, but must be 'nfc' or ''.")
        if pattern not in PATTERNS:
            raise InputError(f"pattern is {pattern!r}, but must be one of {', '.join(PATTERNS)}.")
        if add_prefix_space and pattern != "gpt2":
            raise InputError(f"add_prefix_space works only with the pattern gpt2, not {pattern}.")
        super().__init__(vocabulary, mask_takes_space=mask_takes_space, added_tokens=added_tokens)
        self.merges = tuple((first, second) for first, second in merges)
        self.add_prefix_space = add_prefix_space
        self.normalization = normalization
        self.pattern = pattern
        self.ignore_merges = ignore_merges
        for first, second in self.merges:
            for token in (first, second, first + second):
                if token not in vocabulary:
                    raise InputError(
                        f"The merge {first} {second} needs {token!r}, which is not in the "
                        "vocabulary: use the vocabulary and the merges of one and the same model."
                    )
        with tf.init_scope():  # so that constants do not belong to the caller's graph
            self._build()

    def _build(self) -> None:
        tokens, special = self.vocabulary.tokens, self.tokens_beyond_text
        ranks: dict[str, int] = {}
        for rank, (first, second) in enumerate(self.merges):
            ranks.setdefault(first + second, rank)
        ranks |= dict.fromkeys(BYTE_CHARACTERS, 0)
        pieces = [t if t in ranks and t not in special else _NOT_IN_TEXT + t for t in tokens]
        pieces += sorted(set(BYTE_CHARACTERS) - set(pieces))  # bytes without a token
        self.pieces = tuple(pieces)
        """Tokens, then bytes without a token. Tokens that no text has begin with `_NOT_IN_TEXT`."""
        model = SentencePieceModel.from_pieces(
            pieces,
            [-ranks.get(piece, 0) for piece in pieces],
            unknown_id=self.vocabulary.unknown_id,
            control=[piece for piece in pieces if piece.startswith(_NOT_IN_TEXT)],
            kind="bpe",
            character_map=write_character_map({_NOT_IN_TEXT: _NOT_IN_TEXT}),  # avoids a log message
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            escape_whitespaces=False,
        ).to_bytes()
        self._merger = SentencePieceOperation(model)
        unknown = [self.vocabulary.unknown_id] * (len(pieces) - len(tokens))
        self.ids_of_pieces = tf.constant([*range(len(tokens)), *unknown], tf.int32)
        written = [*tokens, *pieces[len(tokens) :]]
        self._lengths = tf.constant([len(token) for token in written])
        self._leading = tf.constant([len(token) - len(token.lstrip(SPACE)) for token in written])
        self._trailing = tf.constant([len(token) - len(token.rstrip(SPACE)) for token in written])
        self._build_whole_words(pieces)

    def _build_whole_words(self, pieces: Sequence[str]) -> None:
        """Makes a lookup of the words that are one token, with `FastWordpieceTokenizer`.

        With `ignore_merges`, these are all tokens. Otherwise they are the tokens of up to 100 bytes
        that the merges make.
        """
        if self.ignore_merges:
            words = [t for t in self.vocabulary.tokens if t not in self.tokens_beyond_text]
            ids = {word: self.vocabulary.id_of(word) for word in words}
            longest = max((len(word.encode()) for word in words), default=1)
            if longest > _LONGEST_TOKEN:
                raise InputError(
                    f"A token has {longest} bytes in the alphabet of bytes, but with ignore_merges "
                    f"a token has at most {_LONGEST_TOKEN}: remove it from the vocabulary."
                )
        else:
            longest = _LONGEST_WHOLE_WORD
            short = [piece for piece in pieces if len(piece.encode()) <= longest]
            counts = self._merger.tokenize(short).row_lengths().numpy()
            words = [piece for piece, count in zip(short, counts, strict=True) if count == 1]
            ids = {piece: index for index, piece in enumerate(pieces)}
        self._whole_word_ids = tf.constant([-1, *(ids[word] for word in words)], tf.int32)
        self._whole_words = tf_text.FastWordpieceTokenizer(
            [_NOT_IN_TEXT, *words],
            suffix_indicator=2 * _NOT_IN_TEXT,
            max_bytes_per_word=longest,
            token_out_type=tf.int32,
            unknown_token=_NOT_IN_TEXT,
            no_pretokenization=True,
        )

    @functools.cached_property
    def is_continuation(self) -> np.ndarray:
        """Whether each token continues a word, bool `[V]`.

        A token continues a word if it does not begin with a space. Special and added tokens do not
        continue a word. If no token begins with a space, no token continues a word.
        """
        tokens, special = self.vocabulary.tokens, self.tokens_beyond_text
        starts = np.array([token.startswith(SPACE) for token in tokens])
        return ~starts & ~np.isin(tokens, list(special)) & starts.any()

    def _normalize(
        self, texts: tf.Tensor
    ) -> tuple[tf.Tensor, tuple[tf.RaggedTensor, tf.RaggedTensor] | None]:
        """Normalizes as in `Tokenizer`; a composed character covers only its first character."""
        if not self.normalization:
            return texts, None
        normalized, offsets = tf_text.normalize_utf8_with_offsets_map(texts, "NFC")
        begins, _ = character_spans(normalized)
        places = tf_text.find_source_offsets(offsets, begins.to_tensor())
        places = tf.RaggedTensor.from_tensor(places, begins.row_lengths())
        starts, _ = bytes_to_characters(texts, places, places)
        # A token of spaces that is trimmed to nothing may stand after the last character.
        after = tf.strings.length(texts, "UTF8_CHAR")[:, tf.newaxis]
        starts, ends = (tf.concat([x, after], axis=1) for x in (starts, starts + 1))
        return normalized, (starts, ends)

    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self.normalization:
            texts = tf_text.normalize_utf8(texts, "NFC")
        chunks = cut_at_spaces(self._with_prefix(texts))
        distinct, index = tf.unique(chunks.values, tf.int64)
        pieces, _ = self._pieces(restore_spaces(distinct))
        ids = pieces.with_values(tf.gather(self.ids_of_pieces, pieces.values))
        return chunks.with_values(tf.gather(ids, index)).merge_dims(1, 2)

    def _tokenize_with_offsets(self, texts: tf.Tensor) -> Pieces:
        normalized, spans = self._normalize(texts)
        pieces = self._with_offsets(normalized)
        return pieces if spans is None else spans_through(spans, *pieces)

    def _with_offsets(self, texts: tf.Tensor) -> Pieces:
        """Returns the pieces of normalized texts."""
        prefixed = self._with_prefix(texts)
        chunks = cut_at_spaces(prefixed)
        distinct, index = tf.unique(chunks.values, tf.int64)
        distinct = restore_spaces(distinct)
        pieces, data = self._pieces(distinct)
        of_chunks, chunk_lengths = self._spans(distinct, pieces, data)
        spans = tf.gather(of_chunks, index)

        # Position of each chunk's first character in its text, without the prefix space.
        chunk_lengths = tf.gather(chunk_lengths, index)
        chunk_begins = tf.cumsum(chunk_lengths, exclusive=True)
        text_begins = tf.gather(tf.pad(chunk_begins, [[0, 1]]), chunks.row_starts())
        text_begins += tf.strings.length(prefixed) - tf.strings.length(texts)
        chunk_begins -= tf.gather(text_begins, row_ids(chunks))

        begins = tf.gather(chunk_begins, row_ids(spans))
        piece, start, end = tf.unstack(spans.values, axis=1)
        start, end = tf.maximum(start + begins, 0), end + begins
        start, end = self.trimmed(piece, start, end)
        ids, starts, ends = (
            chunks.with_values(spans.with_values(values)).merge_dims(1, 2)
            for values in (tf.gather(self.ids_of_pieces, piece), start, end)
        )
        return ids, starts, ends

    def trimmed(
        self, pieces: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns starts and ends in a text without the pieces' spaces, int32 `[P]` each.

        Hugging Face's offsets leave out a token's spaces (`trim_offsets`). With `add_prefix_space`,
        they do not leave out one space at the start of a text.
        """
        leading = tf.gather(self._leading, pieces)  # spaces
        trailing = tf.gather(self._trailing, pieces)
        if self.add_prefix_space:
            is_first = tf.equal(starts, 0) & tf.equal(leading, 1)
            leading = tf.where(is_first, 0, leading)
        starts = tf.minimum(starts + leading, ends)
        return starts, tf.where(ends >= trailing, tf.maximum(ends - trailing, starts), ends)

    def _spans(
        self, texts: tf.Tensor, pieces: tf.RaggedTensor, data: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the pieces' ids, starts and ends `[N, (tokens), 3]`, and texts' lengths `[N]`.

        All are int32. Starts, ends and lengths are in characters.
        """
        characters = characters_before(data)
        text_begins = tf.gather(characters, tf.cumsum(tf.strings.length(texts), exclusive=True))
        text_ends = tf.gather(characters, tf.cumsum(tf.strings.length(texts)))
        lengths = tf.gather(self._lengths, pieces.values)
        end_bytes = tf.cumsum(lengths)
        starts = tf.gather(characters, end_bytes - lengths + 1) - 1  # start of its character
        ends = tf.gather(characters, end_bytes)
        before_text = tf.gather(text_begins, row_ids(pieces))
        spans = tf.stack([pieces.values, starts - before_text, ends - before_text], axis=1)
        return pieces.with_values(spans), text_ends - text_begins

    def _with_prefix(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns texts `[N]` with the prefix space, if the tokenizer adds one."""
        if not self.add_prefix_space:
            return texts
        has_one = tf.strings.regex_full_match(texts, r"( \C*)?")
        return tf.where(has_one, texts, tf.strings.join([" ", texts]))

    def _pieces(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the pieces' ids `[N, (tokens)]`, and the bytes of all texts, uint8."""
        words = split_words(texts, self.pattern)
        distinct, index = tf.unique(in_alphabet(words.values))
        pieces = words.with_values(tf.gather(self._merge(distinct), index))
        return pieces.merge_dims(1, 2), words.flat_values

    def _merge(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the pieces' ids int32 `[W, (tokens)]` of words `[W]` in the alphabet of bytes."""
        whole = tf.gather(self._whole_word_ids, self._whole_words.tokenize(words).values)
        is_whole = whole >= 0
        merged = self._merger.tokenize(tf.where(is_whole, "", words))
        alone = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(whole, is_whole), tf.cast(is_whole, tf.int64), validate=False
        )
        return tf.concat([alone, merged], axis=1)

    def _written(self) -> list[bytes]:
        return [token_bytes(token) for token in self.vocabulary.tokens]

    def readable(self, token_id: int) -> str:
        """Returns a token as text. Bytes that are not a whole character become `\ufffd`."""
        return token_bytes(self.vocabulary.tokens[token_id]).decode(errors="replace")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with vocabulary and merges, as values for JSON."""
        return {
            "vocabulary": list(self.vocabulary.tokens),
            "special_tokens": self.vocabulary.special_tokens,
            "merges": [" ".join(merge) for merge in self.merges],
            "add_prefix_space": self.add_prefix_space,
            "normalization": self.normalization,
            "pattern": self.pattern,
            "ignore_merges": self.ignore_merges,
            "mask_takes_space": self.mask_takes_space,
            "added_tokens": self.added_tokens_config,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> BytePair:
        """Makes the tokenizer from the dictionary of `get_config`."""
        config = dict(config)
        vocabulary = Vocabulary(config.pop("vocabulary"), **config.pop("special_tokens"))
        merges = [merge.split(" ") for merge in config.pop("merges")]
        return cls(vocabulary, merges, **config)

    def save(self, directory: str | os.PathLike) -> None:
        """Writes `vocab.json` and `merges.txt`."""
        write_tokens(Path(directory) / TOKENS_NAME, self.vocabulary.tokens)
        write_merges(Path(directory) / MERGES_NAME, self.merges)

    @classmethod
    def from_file(
        cls,
        file: str | os.PathLike,
        *,
        special_tokens: Mapping[str, str] | None = None,
        **options: Any,
    ) -> BytePair:
        """Opens a `vocab.json` with `merges.txt` beside it; see `Tokenizer.from_file`.

        A vocabulary whose tokens are single bytes needs no `merges.txt`.

        Raises:
            InputError: if a file is missing or damaged, or a merge has no token in the vocabulary.
        """
        path = Path(file)
        if path.name != TOKENS_NAME:
            raise InputError(
                f"The file {path} must have the name {TOKENS_NAME}, with merges.txt beside it."
            )
        tokens = read_tokens(path)
        special = dict(special_tokens or usual_special_tokens(set(tokens)))
        merges = read_merges_beside(path, tokens, special.values())
        try:
            return cls(Vocabulary(tokens, **special), merges, **options)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def in_alphabet(words: tf.RaggedTensor) -> tf.Tensor:
    """Converts the bytes of words `[W, (bytes)]` to strings `[W]` in the alphabet of bytes."""
    code_points = tf.gather(BYTE_CODE_POINTS, tf.cast(words.values, tf.int32))
    return tf.strings.unicode_encode(words.with_values(code_points), "UTF-8")


def read_tokens(path: str | os.PathLike) -> list[str]:
    """Reads a JSON object with the id of each token. Returns the tokens in the order of their ids.

    Raises:
        InputError: if the file is not such an object, or an id is missing.
    """
    try:
        ids = json.loads("\n".join(read_lines(path)))
        tokens = {operator.index(index): token for token, index in ids.items()}
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} must be a JSON object of tokens and their ids.") from None
    missing = next((index for index in range(len(ids)) if index not in tokens), None)
    if missing is not None:
        raise InputError(f"{path} has {len(ids)} tokens, but none with the id {missing}.")
    return [tokens[index] for index in range(len(ids))]


def write_tokens(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Writes a JSON object with the id of each token."""
    ids = {token: index for index, token in enumerate(tokens)}
    replace_file(path, json.dumps(ids, ensure_ascii=False))


def read_merges_beside(
    path: Path, tokens: Iterable[str], special: Collection[str]
) -> list[tuple[str, str]]:
    """Reads `merges.txt` beside `vocab.json`; it may be missing if all tokens are single bytes."""
    merges = path.with_name(MERGES_NAME)
    needed = any(len(token) > 1 and token not in special for token in tokens)
    return read_merges(merges) if needed or merges.exists() else []


def read_merges(path: str | os.PathLike) -> list[tuple[str, str]]:
    """Reads pairs of tokens, one pair on each line, in the order of the merges.

    Raises:
        InputError: if a line does not have two tokens.
    """
    merges = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line or line.startswith("#version"):
            continue
        pair = line.split(" ")
        if len(pair) != 2:
            raise InputError(f"{path}, line {number}: expected two tokens, not {line!r}.")
        merges.append((pair[0], pair[1]))
    return merges


def write_merges(path: str | os.PathLike, merges: Iterable[tuple[str, str]]) -> None:
    """Writes pairs of tokens, one pair on each line."""
    lines = [_FIRST_LINE, *(" ".join(pair) for pair in merges)]
    replace_file(path, "".join(f"{line}\n" for line in lines))


def token_bytes(token: str) -> bytes:
    """Returns the bytes of a token. A token outside of the alphabet of bytes is plain text."""
    if all(character in _BYTES for character in token):
        return bytes(_BYTES[character] for character in token)
    return token.encode()
