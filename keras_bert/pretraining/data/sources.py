"""Sources of tokenized text: text files, and records that `keras-bert tokenize` made.

A source gives the text of an epoch in blocks, one after the other. Only a block is in memory, so
memory does not grow with the corpus. A corpus that fits into one block is read only once in a run.
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from keras_bert.errors import InputError
from keras_bert.pretraining.data.corpus import (
    LINES_PER_BATCH,
    Lines,
    TokenizedCorpus,
    join_lines,
    tokenize_batches,
)
from keras_bert.pretraining.data.example_index import generator
from keras_bert.pretraining.data.mapped_tokens import MappedTokens
from keras_bert.pretraining.data.records import SOURCE, open_shard, open_shards
from keras_bert.text.files import expand, read_document_lines
from keras_bert.text.tokenizer import Tokenizer


class BlockStart(NamedTuple):
    """Start of a block in the text of an epoch.

    Attributes:
        block: number of the block in the epoch.
        file: for text, index of the block's first file in the order of the epoch.
        line: for text, number of lines of this file that belong to earlier blocks.
    """

    block: int = 0
    file: int = 0
    line: int = 0


BEGIN = BlockStart()
"""Start of the first block."""


class Block(NamedTuple):
    """Text that is in memory at a time.

    Attributes:
        start: start of the block.
        corpus: documents of the block.
        next_start: start of the epoch's next block, or None after the last block.
    """

    start: BlockStart
    corpus: TokenizedCorpus
    next_start: BlockStart | None

    @property
    def is_whole(self) -> bool:
        """Whether the block is the whole corpus."""
        return self.start.block == 0 and self.next_start is None


class Source(Protocol):
    """Tokenized text of any size."""

    @property
    def checksum(self) -> int:
        """Checksum that differs if the text has changed and the corpus has several blocks."""

    def blocks(self, epoch: int, start: BlockStart = BEGIN) -> Iterator[Block]:
        """Yields the blocks of an epoch from `start` on. Reads a block when it is asked for."""

    def num_tokens(self) -> int | None:
        """Number of tokens in the corpus, or None if it is not known before the end."""


def open_source(
    names: Sequence[str | os.PathLike[str]],
    tokenizer: Tokenizer,
    *,
    max_sentence_tokens: int = 64,
    block_tokens: int = 2**26,
    seed: int = 0,
) -> Source:
    """Opens text files or directories of records.

    Args:
        names: names or globs of text files, or directories of records.
        tokenizer: tokenizer of the text.
        max_sentence_tokens: see `TokenizedCorpus.from_lines`.
        block_tokens: approximate number of tokens in a block.
        seed: seed of the order of files or shards in each epoch.

    Raises:
        InputError: if there are both text and records, or a file or directory cannot be used.
    """
    directories = [Path(name) for name in names if (Path(name) / SOURCE).is_file()]
    if directories and len(directories) < len(names):
        raise InputError(
            f"{directories[0]} has been tokenized, but others of {', '.join(map(str, names))} have "
            "not; name only directories that keras-bert tokenize wrote, or only text files."
        )
    source = RecordSource if directories else TextSource
    return source(names, tokenizer, max_sentence_tokens, block_tokens, seed)


class TextSource:
    """Text files. They are tokenized when they are read.

    In the first epoch, files are read in order. In later epochs, a corpus of several blocks is read
    in a random order of files. A document at the border of two blocks is cut there.
    """

    def __init__(
        self,
        names: Sequence[str | os.PathLike[str]],
        tokenizer: Tokenizer,
        max_sentence_tokens: int,
        block_tokens: int,
        seed: int,
    ):
        self._files = expand(names)
        self._tokenizer = tokenizer
        self._max_sentence_tokens = max_sentence_tokens
        self._block_tokens = block_tokens
        # A block ends with a batch, so a batch must be a small part of a block.
        self._lines_per_batch = max(1, min(LINES_PER_BATCH, block_tokens // 64))
        self._seed = seed

    @property
    def checksum(self) -> int:
        """Checksum of the sizes of the files."""
        return zlib.crc32(np.array([file.stat().st_size for file in self._files]).data)

    def num_tokens(self) -> int | None:
        """Returns None: the text has not been read."""
        return None

    def blocks(self, epoch: int, start: BlockStart = BEGIN) -> Iterator[Block]:
        """Yields the blocks of an epoch from `start` on."""
        ends: deque[tuple[int, int]] = deque()  # ends of batches that were read ahead
        order = _order(len(self._files), self._seed, epoch)

        def batches() -> Iterator[list[str]]:
            batch: list[str] = []
            for number in range(start.file, len(order)):
                line = start.line if number == start.file else 0
                for text in read_document_lines(self._files[order[number]], start=line):
                    batch.append(text)
                    line += 1
                    if len(batch) == self._lines_per_batch:
                        ends.append((number, line))
                        yield batch
                        batch = []
            if batch:
                ends.append((len(order), 0))
                yield batch

        parts: list[Lines] = []
        block, tokens, end = start, 0, (start.file, start.line)
        for lines in tokenize_batches(batches(), self._tokenizer):
            if tokens >= self._block_tokens:
                next_block = BlockStart(block.block + 1, *end)
                yield Block(block, self._corpus(parts), next_block)
                block, parts, tokens = next_block, [], 0
            parts.append(lines)
            tokens += len(lines.tokens)
            end = ends.popleft()
        if tokens or block.block == 0:
            yield Block(block, self._corpus(parts), None)

    def _corpus(self, parts: Sequence[Lines]) -> TokenizedCorpus:
        lines = join_lines(parts)
        return TokenizedCorpus.from_lines(
            [lines], lines.tokens, self._tokenizer, max_sentence_tokens=self._max_sentence_tokens
        )


class RecordSource:
    """Directories of records. They are verified when they are read.

    If there are several blocks, each epoch distributes the shards to blocks at random. A document
    in two shards is cut if the shards are not neighbors in a block.
    """

    def __init__(
        self,
        names: Sequence[str | os.PathLike[str]],
        tokenizer: Tokenizer,
        max_sentence_tokens: int,
        block_tokens: int,
        seed: int,
    ):
        self._shards = [s for name in names for s in open_shards(Path(name), tokenizer)]
        largest = max((shard.tokens for shard in self._shards), default=0)
        in_block = max(1, block_tokens // max(1, largest))
        self._num_blocks = max(1, -(-len(self._shards) // in_block))
        self._tokenizer = tokenizer
        self._max_sentence_tokens = max_sentence_tokens
        self._seed = seed

    @property
    def checksum(self) -> int:
        """Checksum of the sizes of the shards."""
        return zlib.crc32(np.array([shard[1:] for shard in self._shards]).data)

    def num_tokens(self) -> int | None:
        """Returns the number of tokens in all shards."""
        return sum(shard.tokens for shard in self._shards)

    def blocks(self, epoch: int, start: BlockStart = BEGIN) -> Iterator[Block]:
        """Yields the blocks of an epoch from `start` on."""
        order = np.arange(len(self._shards))
        if self._num_blocks > 1:
            order = generator(self._seed, epoch).permutation(order)
        parts = np.array_split(order, self._num_blocks)
        for block in range(start.block, self._num_blocks):
            next_block = BlockStart(block + 1) if block + 1 < self._num_blocks else None
            yield Block(BlockStart(block), self._corpus(np.sort(parts[block])), next_block)

    def _corpus(self, numbers: np.ndarray) -> TokenizedCorpus:
        vocabulary_size = len(self._tokenizer.vocabulary)
        files, parts = [], []
        for number, next_number in zip(numbers, [*numbers[1:], -1], strict=True):
            file, lines = open_shard(self._shards[number], vocabulary_size)
            if next_number != number + 1:
                lines = lines._replace(breaks=np.append(lines.breaks, len(lines.lengths)))
            files.append(file)
            parts.append(lines)
        return TokenizedCorpus.from_lines(
            parts,
            MappedTokens(files),
            self._tokenizer,
            max_sentence_tokens=self._max_sentence_tokens,
        )


def _order(count: int, seed: int, epoch: int) -> np.ndarray:
    order = np.arange(count)
    return generator(seed, epoch).permutation(order) if epoch else order
