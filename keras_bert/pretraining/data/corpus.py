"""Tokenized text to train on."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.pretraining.data.mapped_tokens import MappedTokens
from keras_bert.text.rows import numbers_of, splits_of
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary

LINES_PER_BATCH = 1024
HASHED_TOKENS = 16
"""Number of a document's first tokens that decide whether the document is held out."""

SENTENCE_END = (".", "!", "?", "…", "。", "！", "？", "۔", "।")
CLOSING = ('"', "'", ")", "]", "}", "”", "’", "»", "」", "』", "）")


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedCorpus:
    """Documents of sentences of tokens. A line of the text becomes one or more sentences.

    Args:
        tokens: `[N]` int32, tokens of the whole text, in memory or in files.
        sentence_splits: `[S + 1]` int64. Sentence s is
            `tokens[sentence_splits[s] : sentence_splits[s + 1]]`.
        document_splits: `[D + 1]` int64. Document d has the sentences from `document_splits[d]` to
            `document_splits[d + 1] - 1`.
        is_continuation: bool `[V]`, whether a token continues a word.
        separator_id: id of the separators that `with_document_separators` added, or None.
    """

    tokens: np.ndarray | MappedTokens
    sentence_splits: np.ndarray
    document_splits: np.ndarray
    is_continuation: np.ndarray
    separator_id: int | None = None

    @classmethod
    def from_lines(
        cls,
        parts: Sequence[Lines],
        tokens: np.ndarray | MappedTokens,
        tokenizer: Tokenizer,
        *,
        max_sentence_tokens: int,
    ) -> TokenizedCorpus:
        """Makes a corpus from tokenized lines.

        Args:
            parts: parts of the text. A part may begin and end at any line.
            tokens: tokens of all parts, one after the other.
            tokenizer: tokenizer of the lines.
            max_sentence_tokens: approximate largest number of tokens in a sentence. A longer line
                is cut after final punctuation marks. A sentence that is still too long is cut
                between words.

        Raises:
            InputError: if there are no tokens.
        """
        if not len(tokens):
            raise InputError("The corpus has no tokens; give it lines of text.")
        sentences, documents, before = [], [np.zeros(1, np.int64)], 0
        for part in parts:
            ends = splits_of(part.lengths)
            sentences.append(
                before + sentence_starts(part, ends[:-1], tokenizer, max_sentence_tokens)
            )
            documents.append(before + ends[part.breaks])
            before += len(part.tokens)
        starts, document_starts = np.concatenate(sentences), np.unique(np.concatenate(documents))
        document_starts = document_starts[document_starts < len(tokens)]
        return cls(
            tokens=tokens,
            sentence_splits=np.append(starts, len(tokens)),
            document_splits=np.append(np.searchsorted(starts, document_starts), len(starts)),
            is_continuation=tokenizer.is_continuation,
        )

    @property
    def checksum(self) -> int:
        """Checksum of tokens, sentences and documents.

        For tokens in files, this uses the checksums that are stored in the files.
        """
        if isinstance(self.tokens, MappedTokens):
            checksum = self.tokens.checksum
        else:
            checksum = zlib.crc32(self.tokens.data)
        for splits in (self.sentence_splits, self.document_splits):
            checksum = zlib.crc32(np.ascontiguousarray(splits, np.int64).data, checksum)
        return checksum

    @property
    def num_sentences(self) -> int:
        """Number of sentences. A sentence is a line or a part of a line."""
        return len(self.sentence_splits) - 1

    @property
    def num_documents(self) -> int:
        """Number of documents with text."""
        return len(self.document_splits) - 1

    @functools.cached_property
    def document_of_sentence(self) -> np.ndarray:
        """Index of each sentence's document, `[S]` int64."""
        return np.repeat(np.arange(self.num_documents), np.diff(self.document_splits))

    def with_document_separators(self, separator_id: int) -> TokenizedCorpus:
        """Adds a separator at the end of each document, for sequences across documents."""
        ends = self.sentence_splits[self.document_splits[1:]]
        return dataclasses.replace(
            self,
            tokens=np.insert(np.asarray(self.tokens), ends, separator_id),
            sentence_splits=self.sentence_splits
            + np.append(self.document_of_sentence, self.num_documents),
            separator_id=separator_id,
        )

    def split(self, ratio: float) -> tuple[TokenizedCorpus, TokenizedCorpus]:
        """Returns training text and held-out text. `ratio` is the held-out part, approximately.

        Holds out every n-th document or, if there are few documents, the end of each document.

        Raises:
            InputError: if there is too little text.
        """
        enough = self.num_documents * ratio >= 20
        sentence = np.arange(self.num_sentences)
        if enough:
            every = round(1 / ratio)
            held_out = self.document_of_sentence % every == every - 1
        else:
            sizes = np.diff(self.document_splits)
            # Round running sums, because the part of each short document would round to 0.
            training = sizes - np.diff(np.round(self.document_splits * ratio)).astype(np.int64)
            held_out = (
                sentence - self.document_splits[:-1][self.document_of_sentence]
                >= (training[self.document_of_sentence])
            )
        if not held_out.any() or held_out.all():
            raise InputError(
                f"Cannot hold out a ratio of {ratio} of {self.num_sentences} lines; give more text "
                "or name validation files."
            )
        return self._select(~held_out), self._select(held_out)

    def split_by_content(self, ratio: float) -> tuple[TokenizedCorpus, TokenizedCorpus]:
        """Returns training text and held-out text: about `ratio` of the documents.

        Whether a document is held out depends only on its first tokens, so it does not depend on
        the other documents in the corpus. Either part may be empty.
        """
        starts = self.sentence_splits[self.document_splits]
        position = np.arange(HASHED_TOKENS)
        index = np.minimum(starts[:-1, np.newaxis] + position, starts[1:, np.newaxis] - 1)
        hashed = np.zeros(self.num_documents, np.uint64)
        for column in self.tokens[index].T:  # FNV-1a of whole numbers in place of bytes
            hashed = (hashed ^ column.astype(np.uint64)) * np.uint64(0x100000001B3)
            hashed ^= hashed >> np.uint64(29)
        held_out = (hashed >> np.uint64(11)) * 2.0**-53 < ratio
        held_out = held_out[self.document_of_sentence]
        return self._select(~held_out), self._select(held_out)

    @classmethod
    def joined(cls, parts: Sequence[TokenizedCorpus]) -> TokenizedCorpus:
        """Joins corpora of the same tokenizer in memory."""
        lengths = [np.diff(part.sentence_splits) for part in parts]
        sizes = [np.diff(part.document_splits) for part in parts]
        return dataclasses.replace(
            parts[0],
            tokens=np.concatenate([np.asarray(part.tokens) for part in parts]),
            sentence_splits=splits_of(np.concatenate(lengths)),
            document_splits=splits_of(np.concatenate(sizes)),
        )

    def _select(self, sentences: np.ndarray) -> TokenizedCorpus:
        """Returns a corpus of the selected sentences, `[S]` bool, without empty documents."""
        lengths = np.diff(self.sentence_splits)
        _, document_sizes = np.unique(self.document_of_sentence[sentences], return_counts=True)
        if isinstance(self.tokens, MappedTokens):
            changes = np.flatnonzero(np.diff(sentences, prepend=False, append=False))
            tokens = self.tokens.take(*self.sentence_splits[changes].reshape(-1, 2).T)
        else:
            tokens = self.tokens[np.repeat(sentences, lengths)]
        return dataclasses.replace(
            self,
            tokens=tokens,
            sentence_splits=splits_of(lengths[sentences]),
            document_splits=splits_of(document_sizes),
        )


class Lines(NamedTuple):
    """Tokenized lines of a text or of a part of it. Lines without tokens are left out.

    Attributes:
        tokens: `[N]` int32, tokens of all lines, one after the other.
        lengths: `[L]` int32, number of tokens in each line.
        breaks: `[K]` int32, indices of lines before which a document ends; L if a document ends
            after the last line.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    breaks: np.ndarray


def tokenize_batches(batches: Iterable[Sequence[str]], tokenizer: Tokenizer) -> Iterator[Lines]:
    """Tokenizes batches of lines, in order and ahead of their use. An empty line ends a document.

    Args:
        batches: lines. Batches of at least 256 lines are fast.
        tokenizer: tokenizer for the text.

    Raises:
        InputError: if reading `batches` raises it, after all earlier batches.
    """

    def tokenize(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        ids = tokenizer.tokenize(batch)
        return ids.flat_values, ids.row_lengths(), tf.equal(batch, "")

    # TensorFlow would wrap an error that the generator raises, so keep it here.
    failures: list[Exception] = []

    def encoded() -> Iterator[list[bytes]]:
        try:
            for batch in batches:
                yield [line.encode("utf-8", "replace") for line in batch]
        except InputError as error:
            failures.append(error)

    dataset = tf.data.Dataset.from_generator(
        encoded, output_signature=tf.TensorSpec([None], tf.string)
    )
    dataset = dataset.map(tokenize, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    for tokens, lengths, blank in dataset.as_numpy_iterator():
        breaks = np.cumsum(lengths > 0)[blank]
        yield Lines(tokens, lengths[lengths > 0].astype(np.int32), breaks.astype(np.int32))
    if failures:
        raise failures[0]


def tokenize_lines(lines: Iterable[str], tokenizer: Tokenizer) -> Lines:
    """Tokenizes all lines of a text. An empty line ends a document."""
    iterator = iter(lines)
    batches = iter(lambda: list(islice(iterator, LINES_PER_BATCH)), [])
    return join_lines(list(tokenize_batches(batches, tokenizer)))


def join_lines(parts: Sequence[Lines]) -> Lines:
    """Joins consecutive parts of a text."""
    if not parts:
        return Lines(*np.zeros((3, 0), np.int32))
    tokens, lengths, breaks = zip(*parts, strict=True)
    before = splits_of([len(part) for part in lengths])
    moved = [part + first for part, first in zip(breaks, before[:-1], strict=True)]
    return Lines(*(np.concatenate(x).astype(np.int32) for x in (tokens, lengths, moved)))


def sentence_starts(
    lines: Lines, line_starts: np.ndarray, tokenizer: Tokenizer, max_tokens: int
) -> np.ndarray:
    """Returns the indices of tokens that begin sentences.

    Every line begins a sentence. In a line of more than `max_tokens` tokens, other tokens do, too.
    """
    tokens = lines.tokens
    word_start = ~tokenizer.is_continuation[tokens]
    length = np.diff(line_starts, append=len(tokens))
    is_long = np.repeat(length > max_tokens, length)
    starts = is_long & word_start & _after_sentence(tokens, tokenizer.vocabulary)
    starts[line_starts] = True
    positions = np.flatnonzero(starts)

    length = np.diff(positions, append=len(tokens))
    pieces = -(-length // max_tokens)
    offset = np.repeat(length, pieces) * numbers_of(pieces) // np.repeat(pieces, pieces)
    cuts = np.repeat(positions, pieces) + offset
    words = np.flatnonzero(word_start | starts)
    before = words[np.searchsorted(words, cuts, side="right") - 1]
    # A word that is longer than the longest sentence is cut inside.
    return np.unique(np.where(cuts - before < max_tokens, before, cuts))


def _after_sentence(tokens: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """Marks tokens that follow the end of a sentence, `[N]` bool.

    The end is a final punctuation mark, or such a mark and one closing quote or bracket after it.
    """
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
