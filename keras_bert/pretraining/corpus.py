"""Text to train on, tokenized once and held in memory."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.text.files import iterate_lines
from keras_bert.text.vocabulary import Vocabulary

LINES_PER_BATCH = 1024
SENTENCE_END = (".", "!", "?", "…", "。", "！", "？", "۔", "।")
CLOSING = ('"', "'", ")", "]", "}", "”", "’", "»", "」", "』", "）")

Patterns = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Tokenizer(Protocol):
    """What a corpus needs of a tokenizer; `keras_bert.WordPiece` has it."""

    vocabulary: Vocabulary

    @property
    def is_continuation(self) -> np.ndarray:
        """bool `[V]`: tokens that continue a word."""

    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """Strings `[N]` to int32 `[N, (tokens)]`."""


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedCorpus:
    """Documents of units (sentences, or lines) of tokens.

    Args:
        tokens: `[N]` int32, all text one after the other.
        unit_splits: `[U + 1]` int64: unit u is `tokens[unit_splits[u] : unit_splits[u + 1]]`.
        document_splits: `[D + 1]` int64: document d has the units from `document_splits[d]` to
            `document_splits[d + 1]`.
        is_continuation: bool `[V]`: tokens that continue a word.
        separator_id: a token that may stand at the end of documents and is not text.
    """

    tokens: np.ndarray
    unit_splits: np.ndarray
    document_splits: np.ndarray
    is_continuation: np.ndarray
    separator_id: int | None = None

    @classmethod
    def from_files(
        cls, patterns: Patterns, tokenizer: Tokenizer, *, max_unit_tokens: int = 64
    ) -> "TokenizedCorpus":
        """Reads text files, plain or gzip.

        Args:
            patterns: globs. A line is a sentence or a paragraph; a blank line, or the end of a
                file, ends a document.
            tokenizer: strings to ids.
            max_unit_tokens: a longer line is cut into units of about this length at most: at the
                ends of its sentences and, where those are too far apart, between words.

        Raises:
            InputError: if a file is missing, empty, binary or not UTF-8, or has no tokens.
        """
        tokens, lengths, blank = _tokenize(iterate_lines(patterns), tokenizer.tokenize)
        if not len(tokens):
            raise InputError("The corpus has no tokens; give it lines of text.")
        line_starts = np.cumsum(lengths) - lengths
        document_starts = np.unique(np.append(0, line_starts[blank]))
        unit_starts = _unit_starts(tokens, line_starts[lengths > 0], tokenizer, max_unit_tokens)
        document_starts = document_starts[document_starts < len(tokens)]
        return cls(
            tokens=tokens,
            unit_splits=np.append(unit_starts, len(tokens)),
            document_splits=np.append(
                np.searchsorted(unit_starts, document_starts), len(unit_starts)
            ),
            is_continuation=tokenizer.is_continuation,
        )

    @property
    def num_units(self) -> int:
        """Number of sentences or lines."""
        return len(self.unit_splits) - 1

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.document_splits) - 1

    @functools.cached_property
    def document_of_unit(self) -> np.ndarray:
        """`[U]` int64."""
        return np.repeat(np.arange(self.num_documents), np.diff(self.document_splits))

    @functools.cached_property
    def word_starts(self) -> np.ndarray:
        """Indices of the tokens that begin a word, ascending."""
        return np.flatnonzero(~self.is_continuation[self.tokens])

    def with_document_separators(self, separator_id: int) -> "TokenizedCorpus":
        """The same text with a separator at the end of each document, for sequences across them."""
        ends = self.unit_splits[self.document_splits[1:]]
        return dataclasses.replace(
            self,
            tokens=np.insert(self.tokens, ends, separator_id),
            unit_splits=self.unit_splits + np.append(self.document_of_unit, self.num_documents),
            separator_id=separator_id,
        )

    def split(self, share: float) -> "tuple[TokenizedCorpus, TokenizedCorpus]":
        """Training text and held-out text, about `share` of the whole.

        Holds out every n-th document, or where there are few documents the end of each.

        Raises:
            InputError: if there is too little text.
        """
        enough = self.num_documents * share >= 20
        unit = np.arange(self.num_units)
        if enough:
            every = round(1 / share)
            held_out = self.document_of_unit % every == every - 1
        else:
            sizes = np.diff(self.document_splits)
            kept = sizes - np.round(sizes * share).astype(np.int64)
            held_out = (
                unit - self.document_splits[:-1][self.document_of_unit]
                >= (kept[self.document_of_unit])
            )
        if not held_out.any() or held_out.all():
            raise InputError(
                f"Cannot hold out a share of {share} of {self.num_units} lines; give more text or "
                "name validation files."
            )
        return self._select(~held_out), self._select(held_out)

    def _select(self, units: np.ndarray) -> "TokenizedCorpus":
        """The units `[U]` bool that are true; documents without any disappear."""
        lengths = np.diff(self.unit_splits)
        _, document_sizes = np.unique(self.document_of_unit[units], return_counts=True)
        return TokenizedCorpus(
            tokens=self.tokens[np.repeat(units, lengths)],
            unit_splits=_splits(lengths[units]),
            document_splits=_splits(document_sizes),
            is_continuation=self.is_continuation,
            separator_id=self.separator_id,
        )


def _tokenize(
    lines: Iterable[str], tokenize: Callable[[Any], tf.RaggedTensor]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All tokens `[N]` int32, tokens per line `[L]` int64, and which lines are blank `[L]`."""

    def batches() -> Iterator[list[bytes]]:
        iterator = iter(lines)
        while batch := list(islice(iterator, LINES_PER_BATCH)):
            yield [line.encode("utf-8", "replace") for line in batch]

    def tokenize_batch(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        ids = tokenize(batch)
        return ids.flat_values, ids.row_lengths(), tf.equal(batch, "")

    # An error raised in a generator would reach the caller wrapped by TensorFlow.
    failures: list[Exception] = []

    def guarded() -> Iterator[list[bytes]]:
        try:
            yield from batches()
        except InputError as error:
            failures.append(error)

    dataset = tf.data.Dataset.from_generator(
        guarded, output_signature=tf.TensorSpec([None], tf.string)
    )
    dataset = dataset.map(tokenize_batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    parts = list(dataset.as_numpy_iterator())
    if failures:
        raise failures[0]
    if not parts:
        return np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, bool)
    tokens, lengths, blank = (np.concatenate(column) for column in zip(*parts, strict=True))
    return tokens, lengths, blank


def _unit_starts(
    tokens: np.ndarray, line_starts: np.ndarray, tokenizer: Tokenizer, max_tokens: int
) -> np.ndarray:
    """Indices `[U]` at which units begin: at lines, inside long lines also at sentences."""
    word_start = ~tokenizer.is_continuation[tokens]
    length = np.diff(line_starts, append=len(tokens))
    is_long = np.repeat(length > max_tokens, length)
    starts = is_long & word_start & _after_sentence(tokens, tokenizer.vocabulary)
    starts[line_starts] = True
    positions = np.flatnonzero(starts)

    length = np.diff(positions, append=len(tokens))
    pieces = -(-length // max_tokens)
    number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cuts = np.repeat(positions, pieces) + np.repeat(length, pieces) * number // np.repeat(
        pieces, pieces
    )
    words = np.flatnonzero(word_start | starts)
    return np.unique(words[np.searchsorted(words, cuts, side="right") - 1])


def _after_sentence(tokens: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """`[N]` bool: tokens that follow final punctuation and the quotes and brackets it closes."""
    final = _is_one_of(tokens, SENTENCE_END, vocabulary)
    closing = _is_one_of(tokens, CLOSING, vocabulary)
    ended = final.copy()
    ended[1:] |= closing[1:] & final[:-1]
    result = np.zeros(len(tokens), bool)
    result[1:] = ended[:-1] & ~(final | closing)[1:]
    return result


def _is_one_of(tokens: np.ndarray, marks: Sequence[str], vocabulary: Vocabulary) -> np.ndarray:
    table = np.zeros(len(vocabulary), bool)
    table[[vocabulary.id_of(mark) for mark in marks if mark in vocabulary]] = True
    return table[tokens]


def _splits(lengths: np.ndarray) -> np.ndarray:
    return np.append(0, np.cumsum(lengths)).astype(np.int64)
