"""Base class of all tokenizers, which convert texts to token ids and back, in the graph."""

from __future__ import annotations

import abc
import dataclasses
import functools
import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import tensorflow as tf

from keras_bert.columns import not_a_text
from keras_bert.errors import InputError
from keras_bert.surrogates import without_surrogates
from keras_bert.text.added_tokens import AddedToken, Pieces, TokenCutter
from keras_bert.text.characters import spans_through
from keras_bert.text.vocabulary import Vocabulary

TOKENIZERS = {"wordpiece": "WordPiece", "byte_pair": "BytePair", "sentencepiece": "SentencePiece"}
"""Class of each kind of tokenizer, in the module `KIND.tokenizer`."""

Texts: TypeAlias = "str | bytes | Sequence[str] | np.ndarray | tf.Tensor"
"""A text or a batch of texts."""


class Tokenizer(abc.ABC):
    """Splits texts into tokens of a vocabulary.

    This class finds added tokens and special tokens in the text. A subclass splits the plain text
    between them, and converts ids to text.

    Args:
        vocabulary: the vocabulary.
        mask_takes_space: whether a mask token in the text includes the white space before it, as in
            RoBERTa, whose tokens begin with a space.
        added_tokens: tokens of the vocabulary that are found in every text before it is split. Each
            is an `AddedToken` or a dictionary of its arguments. The five special tokens need not be
            added.

    Raises:
        InputError: if an added token is not in the vocabulary, or one of its options is not valid.
    """

    kind: ClassVar[str]
    """Key of `TOKENIZERS`."""
    in_files: ClassVar[tuple[str, ...]] = ("vocabulary",)
    """Keys of `get_config` whose values `save` writes to separate files."""
    file_name: ClassVar[str]
    """Name of the file that `load` opens."""
    keeps_spaces: ClassVar[bool] = False
    """Whether tokens include the white space at the ends of a text."""
    trims_offsets: ClassVar[bool] = False
    """Whether an added token's offsets leave out the white space that the token includes."""
    single_character_words: str = ""
    """Characters that are words by themselves, as the inside of `[...]` in a regex."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        mask_takes_space: bool = False,
        added_tokens: Sequence[AddedToken | Mapping[str, Any]] = (),
    ) -> None:
        self.vocabulary = vocabulary
        self.mask_takes_space = mask_takes_space
        self.added_tokens = tuple(
            token if isinstance(token, AddedToken) else AddedToken(**token)
            for token in added_tokens
        )
        for token in self.added_tokens:
            vocabulary.id_of(token.content)

    @property
    @abc.abstractmethod
    def is_continuation(self) -> np.ndarray:
        """Whether each token continues a word, bool `[V]`; False for special tokens."""

    @abc.abstractmethod
    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids int32 `[N, (tokens)]` of plain texts `[N]`; `""` has no token."""

    @abc.abstractmethod
    def _tokenize_with_offsets(self, texts: tf.Tensor) -> Pieces:
        """Returns the ids of `_tokenize`, and the tokens' starts and ends in characters, int32."""

    def _normalize(
        self, texts: tf.Tensor
    ) -> tuple[tf.Tensor, tuple[tf.RaggedTensor, tf.RaggedTensor] | None]:
        """Returns normalized texts `[N]`, and where their characters come from.

        Normalizing twice gives the same result as once. The second value is two tensors, int32
        `[N, (characters)]`: the start and the end in the original text of each normalized
        character. A tokenizer without normalization returns None as the second value.
        """
        return texts, None

    @abc.abstractmethod
    def _written(self) -> Sequence[str | bytes]:
        """Returns the text of each token, `[V]`, with the space before it if the token has one."""

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Returns all arguments of the constructor, as values for JSON."""

    @classmethod
    @abc.abstractmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Makes the tokenizer from the dictionary of `get_config`."""

    @abc.abstractmethod
    def save(self, directory: str | os.PathLike) -> None:
        """Writes the values that `in_files` names to files. Other libraries can read the files."""

    @classmethod
    @abc.abstractmethod
    def from_file(
        cls,
        file: str | os.PathLike,
        *,
        special_tokens: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """Opens a tokenizer's file.

        Args:
            file: the file.
            special_tokens: special tokens by role, as in `Vocabulary`. By default, the special
                tokens of BERT, RoBERTa or ALBERT: the first of these sets that the file has.
            **options: other arguments of the constructor.

        Raises:
            InputError: if a file is missing or damaged.
        """

    @classmethod
    def load(cls, directory: str | os.PathLike, **options: Any) -> Any:
        """Opens the files that `save` wrote; `options` as in `from_file`."""
        return cls.from_file(Path(directory) / cls.file_name, **options)

    def tokenize(self, texts: Texts, *, allow_special_tokens: bool = False) -> tf.RaggedTensor:
        """Returns token ids int32 `[N, (tokens)]` of texts `[N]`, without `[CLS]` and `[SEP]`.

        Args:
            texts: strings, UTF-8.
            allow_special_tokens: whether `[MASK]` and other special tokens may be written in the
                texts. Otherwise, special tokens in the texts are split like any other text.
        """
        texts = to_strings(texts)
        if self.added_tokens or allow_special_tokens:
            return self._tokenize_around_tokens(texts, allow_special_tokens)[0]
        return self._tokenize(texts)

    def tokenize_with_offsets(self, texts: Texts, *, allow_special_tokens: bool = False) -> Pieces:
        """Returns the ids of `tokenize`, and the characters that each token covers.

        Returns:
            Ids, starts and ends, int32 `[N, (tokens)]` each. The token's text is `text[start:end]`.
        """
        texts = to_strings(texts)
        if self.added_tokens or allow_special_tokens:
            return self._tokenize_around_tokens(texts, allow_special_tokens)
        return self._tokenize_with_offsets(texts)

    def detokenize(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Returns the texts `[N]` of token ids `[N, T]` or `[N, (tokens)]`.

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
        """Returns a token in a form that people can read (`##ing`, ` the`)."""
        return self.vocabulary.tokens[token_id]

    def _tokenize_around_tokens(self, texts: tf.Tensor, allow_special_tokens: bool) -> Pieces:
        """Tokenizes texts `[N]` around added and special tokens.

        Tokens that are not `normalized` are found first, in the original texts.
        """
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
        """Tokenizes the normalized text between added tokens, with offsets."""
        return self._tokenize_with_offsets(texts)

    @functools.cached_property
    def _normalized_cutter(self) -> TokenCutter | None:
        tokens = [token for token in self.added_tokens if token.normalized]
        if not tokens:
            return None
        with tf.init_scope():
            contents, _ = self._normalize(tf.constant([token.content for token in tokens]))
        contents = [content.decode() for content in contents.numpy()]
        return self._cutter(tokens, contents, single_character_words=self.single_character_words)

    def _cutter(
        self, tokens: Sequence[AddedToken], contents: Sequence[str], **options: Any
    ) -> TokenCutter:
        by_special = sorted(  # if forms are equal, the first token wins
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
        """Checks that there are no added tokens, because `reader` does not support them.

        Args:
            reader: name of the library or file, for the message.
            way_out: advice to the user, a sentence without the period.

        Raises:
            InputError: if there are added tokens.
        """
        if self.added_tokens:
            others = len(self.added_tokens) - 1
            raise InputError(
                f"{reader} cannot find the added token {self.added_tokens[0].content!r}"
                f"{f' and {others} more' if others else ''} in texts. {way_out}."
            )

    @property
    def added_tokens_config(self) -> list[dict[str, Any]]:
        """Added tokens as values for JSON."""
        return [dataclasses.asdict(token) for token in self.added_tokens]

    @functools.cached_property
    def tokens_beyond_text(self) -> set[str]:
        """Special tokens, and added tokens that only `TokenCutter` finds."""
        added = {token.content for token in self.added_tokens if not token.in_model}
        return added.union(self.vocabulary.special_tokens.values())


def tokenizer_class(kind: str) -> type[Tokenizer]:
    """Returns the class of a kind of tokenizer.

    Raises:
        InputError: if there is no such kind.
    """
    if kind not in TOKENIZERS:
        raise InputError(
            f"There is no tokenizer {kind!r}; the tokenizers are {', '.join(TOKENIZERS)}."
        )
    return getattr(importlib.import_module(f"keras_bert.text.{kind}.tokenizer"), TOKENIZERS[kind])


def load_tokenizer(
    path: str | os.PathLike, *, special_tokens: Mapping[str, str] | None = None, **options: Any
) -> Tokenizer:
    """Opens a tokenizer of any kind.

    Args:
        path: one of these:
            `vocab.txt` (WordPiece);
            `vocab.json` with `merges.txt` beside it (byte-pair encoding);
            a file `*.model` (SentencePiece);
            a directory with one of these files;
            the directory of a saved preprocessor or model.
        special_tokens: special tokens by role, as in `Vocabulary`. By default, the special tokens
            of BERT, RoBERTa or ALBERT: the first of these sets that the file has.
        **options: other arguments of the tokenizer, such as `lowercase` of `WordPiece`.

    Raises:
        InputError: if the file is missing or damaged or lacks a special token, or the tokenizer has
            no such option.

    Example:
        >>> tokenizer = load_tokenizer("vocab.txt", lowercase=False)
    """
    from keras_bert.text.preprocessor import CONFIG_NAME, Preprocessor

    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist: expected a tokenizer's file or directory.")
    if (path / CONFIG_NAME).is_file():
        if special_tokens or options:
            raise InputError(
                f"{path} already defines all options of its tokenizer: leave out "
                f"{', '.join([*options, *['special_tokens'] * bool(special_tokens)])}."
            )
        return Preprocessor.load(path).tokenizer
    file = _file_of(path) if path.is_dir() else path
    kind = {".json": "byte_pair", ".model": "sentencepiece"}.get(file.suffix, "wordpiece")
    tokenizer = tokenizer_class(kind)
    try:
        return tokenizer.from_file(file, special_tokens=special_tokens, **options)
    except TypeError as error:
        raise InputError(f"{file}: {str(error).replace('.__init__()', '')}.") from None


def _file_of(directory: Path) -> Path:
    models = sorted(directory.glob("*.model"))
    for file in (directory / "vocab.txt", directory / "vocab.json", *models):
        if file.is_file():
            return file
    raise InputError(
        f"{directory} holds no tokenizer: expected vocab.txt, vocab.json with merges.txt, or "
        "a SentencePiece *.model."
    )


def to_strings(texts: Texts) -> tf.Tensor:
    """Returns texts as strings `[N]`. A single text becomes a batch of one.

    A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.

    Raises:
        InputError: if the texts are not strings, or are nested.
    """
    strings: Any = texts if tf.is_tensor(texts) else _from_python(texts)
    if strings.dtype != tf.string:
        raise InputError(f"Texts must be strings, not {strings.dtype.name}.")
    if strings.shape.rank == 0:
        return strings[tf.newaxis]
    if strings.shape.rank != 1:
        shape = ", ".join(["N", *map(str, strings.shape.as_list()[1:])])
        raise InputError(
            f"Texts must have the shape [N], not [{shape}]; for pairs, give a tuple of two "
            "columns: (firsts, seconds)."
        )
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
        if isinstance(texts, str):
            return tf.constant(without_surrogates(texts))
        if not isinstance(texts, list):
            raise InputError(f"Texts must be strings, but {texts!r} is not.") from None
        return tf.constant([_valid(*item) for item in enumerate(texts)])


def _valid(number: int, text: Any) -> str | bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise not_a_text(number, text)
    return without_surrogates(text)
