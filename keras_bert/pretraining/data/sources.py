"""Sources of tokenized text: text files, and records that `keras-bert tokenize` made.

A source gives the text of an epoch in blocks, one after the other. Only a block is in memory, so
memory does not grow with the corpus. A corpus that fits into one block is read only once in a run.
"""

from __future__ import annotations

import copy
import functools
import itertools
import logging
import os
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from keras_bert.errors import InputError, KerasBertError, UnreadableFileError, first_sentence
from keras_bert.pretraining.data.corpus import (
    LINES_PER_BATCH,
    Lines,
    TokenizedCorpus,
    join_lines,
    tokenize_batches,
)
from keras_bert.pretraining.data.example_index import generator
from keras_bert.pretraining.data.mapped_tokens import MappedFile, MappedTokens
from keras_bert.pretraining.data.records import is_records, open_shard, open_shards
from keras_bert.text.documents import document_lines, record_text
from keras_bert.text.files import UnreadableFile, expand, file_sizes, read_document_lines
from keras_bert.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


class BlockStart(NamedTuple):
    """Start of a block in the text of an epoch.

    Attributes:
        block: number of the block in the epoch.
        file: for text, index of the block's first file in the order of the epoch.
        line: for text, number of lines of this file that belong to earlier blocks.
        parts: `PartStart` of each source of a mixture, or of each worker.
    """

    block: int = 0
    file: int = 0
    line: int = 0
    parts: tuple[tuple[int, ...], ...] = ()


MIN_MIXTURE_TOKENS = 2**20
"""Smallest number of tokens in a block of a mixture, if the memory is enough."""

ROWS_PER_PART = 2**14
"""Number of rows of a `datasets.Dataset` in a part. A part is read as a file."""

BEGIN = BlockStart()
"""Start of the first block."""


class Block(NamedTuple):
    """Text that is in memory at a time.

    Attributes:
        start: start of the block.
        corpus: documents of the block.
        next_start: start of the epoch's next block, or None after the last block.
        unreadable: files that were left out while the block was read.
    """

    start: BlockStart
    corpus: TokenizedCorpus
    next_start: BlockStart | None
    unreadable: tuple[UnreadableFile, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the block is the whole corpus."""
        return self.start.block == 0 and self.next_start is None


class Source(Protocol):
    """Tokenized text of any size."""

    @property
    def checksum(self) -> int:
        """Checksum of the sizes of files or shards.

        With the first block's checksum, it identifies a corpus of several blocks.
        """

    def blocks(self, epoch: int, start: BlockStart = BEGIN) -> Iterator[Block]:
        """Yields the blocks of an epoch from `start` on. Reads a block when it is asked for."""

    def num_tokens(self) -> int | None:
        """Number of tokens in the corpus, or None if it is not known before the end."""

    def num_bytes(self) -> int:
        """Size of the text or of its tokens in bytes, or 0 if it is not known."""


def open_source(
    names: Sequence[str | os.PathLike[str] | Any],
    tokenizer: Tokenizer,
    *,
    max_sentence_tokens: int = 64,
    block_tokens: int = 2**26,
    seed: int = 0,
    weights: Sequence[float] = (),
    temperature: float | None = None,
    text_field: str = "text",
    unreadable_files: str = "stop",
) -> Source:
    """Opens text files or directories of records.

    Args:
        names: names, globs or addresses of text files, or directories of records. Or a `Dataset` or
            an `IterableDataset` of Hugging Face's datasets, whose rows are documents.
        tokenizer: tokenizer of the text.
        max_sentence_tokens: see `TokenizedCorpus.from_lines`.
        block_tokens: approximate number of tokens in a block.
        seed: seed of the order of files or shards in each epoch.
        weights: ratio of tokens from each name, to mix them. By default, the names are one corpus.
        temperature: mixes the names by their sizes to the power of 1 / temperature.
        text_field: field with the text in JSON lines, Parquet, TFRecord and tar files.
        unreadable_files: "stop", or "skip" to leave out a file from its first error on, and damaged
            shards of records. `Block.unreadable` and a warning name the files.

    Raises:
        InputError: if there are both text and records, or a file or directory cannot be used.
    """
    if weights or temperature:

        def opened(tokens: int) -> list[Source]:
            options: dict[str, Any] = {"seed": seed, "text_field": text_field}
            options |= {"unreadable_files": unreadable_files}
            options |= {"max_sentence_tokens": max_sentence_tokens, "block_tokens": tokens}
            return [open_source([name], tokenizer, **options) for name in names]

        sizes = [source.num_bytes() for source in opened(block_tokens)]
        if not weights:
            if 0 in sizes:
                raise InputError(
                    f"The size of name {sizes.index(0) + 1} of data.corpus is not known; give "
                    "data.weights in place of data.temperature."
                )
            weights = [size ** (1 / (temperature or 1)) for size in sizes]
        # Limit the block's size, so that a block has the text of a source at most about once. A
        # token has about 4 bytes of text.
        ratios = [weight / sum(weights) for weight in weights]
        once = [size / 4 / ratio for size, ratio in zip(sizes, ratios, strict=True) if size]
        block_tokens = min(
            block_tokens, max(MIN_MIXTURE_TOKENS, round(min(once, default=block_tokens)))
        )
        return MixedSource(opened(max(1, block_tokens // (2 * len(names)))), ratios, block_tokens)
    skip = unreadable_files == "skip"
    options = (tokenizer, max_sentence_tokens, block_tokens, seed, skip)
    if any(hasattr(name, "shard") for name in names):
        return DatasetSource(names, *options, text_field)
    addresses = [os.fspath(name) for name in names]
    directories = [name for name in addresses if is_records(name)]
    if directories and len(directories) < len(addresses):
        raise InputError(
            f"{directories[0]} has been tokenized, but others of {', '.join(addresses)} have "
            "not; name only directories that keras-bert tokenize wrote, or only text files."
        )
    if directories:
        return RecordSource(addresses, *options)
    return TextSource(expand(addresses), *options, text_field)


class TextSource:
    """Source that tokenizes text files when it reads them.

    In the first epoch, files are read in order. In later epochs, a corpus of several blocks is read
    in a random order of files. A document at the border of two blocks is cut there.
    """

    def __init__(
        self,
        files: Sequence[Any],
        tokenizer: Tokenizer,
        max_sentence_tokens: int,
        block_tokens: int,
        seed: int,
        skip: bool,
        text_field: str,
    ):
        self._files = files
        self._skip = skip
        self._text_field = text_field
        self._tokenizer = tokenizer
        self._max_sentence_tokens = max_sentence_tokens
        self._block_tokens = block_tokens
        # A block ends with a batch, so a batch must be a small part of a block.
        self._lines_per_batch = max(1, min(LINES_PER_BATCH, block_tokens // 64))
        self._seed = seed

    @property
    def checksum(self) -> int:
        """Checksum of the sizes of the files."""
        return zlib.crc32(np.array(self._sizes).data)

    def num_tokens(self) -> int | None:
        """Returns None, because the text has not been read."""
        return None

    def num_bytes(self) -> int:
        """Returns the size of the files."""
        return sum(self._sizes)

    @functools.cached_property
    def _sizes(self) -> list[int]:
        return file_sizes(self._files, self._skip)

    def blocks(self, epoch: int, start: BlockStart = BEGIN) -> Iterator[Block]:
        """Yields the blocks of an epoch from `start` on."""
        # Ends of batches that were read ahead, and files that were left out before.
        ends: deque[tuple[int, int, list[UnreadableFile]]] = deque()
        noticed: list[UnreadableFile] = []
        order = np.arange(len(self._files))
        if epoch:
            order = generator(self._seed, epoch).permutation(order)

        def batches() -> Iterator[list[str]]:
            batch: list[str] = []
            for number in range(start.file, len(order)):
                line = start.line if number == start.file else 0
                for text in self._lines(order[number], line, noticed):
                    batch.append(text)
                    line += 1
                    if len(batch) == self._lines_per_batch:
                        ends.append((number, line, [*noticed]))
                        noticed.clear()
                        yield batch
                        batch = []
            if batch:
                ends.append((len(order), 0, [*noticed]))
                noticed.clear()
                yield batch

        parts: list[Lines] = []
        unreadable: list[UnreadableFile] = []
        block, tokens, end = start, 0, (start.file, start.line)
        for lines in tokenize_batches(batches(), self._tokenizer):
            if tokens >= self._block_tokens:
                next_block = BlockStart(block.block + 1, *end)
                yield Block(block, self._corpus(parts), next_block, tuple(unreadable))
                block, parts, tokens, unreadable = next_block, [], 0, []
            parts.append(lines)
            tokens += len(lines.tokens)
            file, line, before = ends.popleft()
            end = (file, line)
            unreadable += before
        if tokens or block.block == 0:
            yield Block(block, self._corpus(parts), None, (*unreadable, *noticed))

    def _lines(self, file: int, start: int, noticed: list[UnreadableFile]) -> Iterator[str]:
        return read_document_lines(
            self._files[file],
            start=start,
            text_field=self._text_field,
            size=self._sizes[file],
            on_unreadable=functools.partial(_leave_out, noticed) if self._skip else None,
        )

    def shard(self, index: int, number: int) -> TextSource:
        """Returns every `number`-th file, from the file `index` on.

        Raises:
            InputError: if there are fewer files.
        """
        if len(self._files) < number:
            raise InputError(
                f"There are {len(self._files)} text files for {number} workers, and the text does "
                "not fit into data.memory; divide it into more files, or tokenize it with "
                "keras-bert tokenize."
            )
        source = copy.copy(self)
        source._files, source._sizes = self._files[index::number], self._sizes[index::number]
        return source

    def _corpus(self, parts: Sequence[Lines]) -> TokenizedCorpus:
        lines = join_lines(parts)
        return TokenizedCorpus.from_lines(
            [lines], lines.tokens, self._tokenizer, max_sentence_tokens=self._max_sentence_tokens
        )


class DatasetSource(TextSource):
    """Source that reads datasets of Hugging Face. A part of a dataset is read as a file.

    The rows of a `Dataset` are divided into parts of equal length. An `IterableDataset` has its own
    division into shards.

    Raises:
        InputError: if names or addresses are among the datasets.
    """

    def __init__(self, datasets: Sequence[Any], *options: Any):
        parts: list[Any] = []
        for dataset in datasets:
            if not hasattr(dataset, "shard"):
                raise InputError(
                    f"The corpus has a dataset and the name {dataset}; give only datasets or only "
                    "names, or data.weights to mix them."
                )
            rows = len(dataset) if hasattr(dataset, "__len__") else 0
            count = -(-rows // ROWS_PER_PART) or getattr(dataset, "num_shards", 1)
            parts += [dataset.shard(num_shards=count, index=index) for index in range(count)]
        super().__init__(parts, *options)

    @functools.cached_property
    def _sizes(self) -> list[int]:
        """Number of rows of each part. 0 if it is unknown."""
        return [len(part) if hasattr(part, "__len__") else 0 for part in self._files]

    def num_bytes(self) -> int:
        """Returns 0, because the size of the text is not known."""
        return 0

    def _lines(self, file: int, start: int, noticed: list[UnreadableFile]) -> Iterator[str]:
        return itertools.islice(self._row_lines(file), start, None)

    def _row_lines(self, file: int) -> Iterator[str]:
        name, number = f"Part {file + 1} of {len(self._files)} of the datasets", 0
        try:
            for number, row in enumerate(self._files[file], start=1):
                text = record_text(f"{name}, row {number}", row, self._text_field)
                yield from document_lines(text)
        except KerasBertError:
            raise
        except Exception as error:  # datasets reads files of many libraries
            raise UnreadableFileError(
                f"{name} cannot be read after row {number}: {first_sentence(error)}."
            ) from error


class RecordSource:
    """Source that reads and verifies the shards of directories of records.

    If there are several blocks, each epoch distributes the shards to blocks at random, and a
    document in two shards is cut.
    """

    def __init__(
        self,
        names: Sequence[str],
        tokenizer: Tokenizer,
        max_sentence_tokens: int,
        block_tokens: int,
        seed: int,
        skip: bool,
    ):
        self._skip = skip
        self._shards = [s for name in names for s in open_shards(name, tokenizer)]
        largest = max((shard.tokens for shard in self._shards), default=0)
        in_block = max(1, block_tokens // max(1, largest))
        if len(self._shards) > in_block:
            # If there are several blocks, each shard ends a document. So a shard without tokens
            # has no effect and is left out.
            self._shards = [shard for shard in self._shards if shard.tokens]
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

    def num_bytes(self) -> int:
        """Returns the size of the shards."""
        return sum(shard.size for shard in self._shards)

    def blocks(self, epoch: int, start: BlockStart = BEGIN) -> Iterator[Block]:
        """Yields the blocks of an epoch from `start` on."""
        order = np.arange(len(self._shards))
        if self._num_blocks > 1:
            order = generator(self._seed, epoch).permutation(order)
        parts = np.array_split(order, self._num_blocks)
        found, lost = start.block > 0, list[UnreadableFile]()
        for block in range(start.block, self._num_blocks):
            next_block = BlockStart(block + 1) if block + 1 < self._num_blocks else None
            unreadable: list[UnreadableFile] = []
            corpus = self._corpus(np.sort(parts[block]), unreadable)
            found, lost = found or len(corpus.tokens) > 0, [*lost, *unreadable]
            if not found and next_block is None:
                raise UnreadableFileError(
                    f"None of the {len(self._shards)} shards can be read. {lost[0].error}"
                )
            yield Block(BlockStart(block), corpus, next_block, tuple(unreadable))

    def _corpus(self, numbers: np.ndarray, unreadable: list[UnreadableFile]) -> TokenizedCorpus:
        vocabulary_size = len(self._tokenizer.vocabulary)
        files: list[MappedFile] = []
        parts: list[Lines] = []
        for number, next_number in zip(numbers, [*numbers[1:], -1], strict=True):
            try:
                file, lines = open_shard(self._shards[number], vocabulary_size)
            except UnreadableFileError as error:
                if not self._skip:
                    raise
                _leave_out(unreadable, UnreadableFile(self._shards[number].path, str(error)))
                if parts:  # the documents before and after the shard are not one
                    parts[-1] = _ended(parts[-1])
                continue
            # If there are several blocks, documents must be the same in all epochs.
            if next_number != number + 1 or self._num_blocks > 1:
                lines = _ended(lines)
            files.append(file)
            parts.append(lines)
        if not files:
            nothing = np.zeros(1, np.int64)
            return TokenizedCorpus(
                np.zeros(0, np.int32), nothing, nothing, self._tokenizer.is_continuation
            )
        tokens: np.ndarray | MappedTokens = MappedTokens(files)
        if any(file.in_memory for file in files):
            tokens = np.asarray(tokens)
        return TokenizedCorpus.from_lines(
            parts,
            tokens,
            self._tokenizer,
            max_sentence_tokens=self._max_sentence_tokens,
        )


def _ended(lines: Lines) -> Lines:
    """Returns lines with the end of a document after the last line."""
    return lines._replace(breaks=np.append(lines.breaks, len(lines.lengths)))


def _leave_out(noticed: list[UnreadableFile], file: UnreadableFile) -> None:
    logger.warning("Leaving out text of %s. %s", file.address, file.error)
    noticed.append(file)


class PartStart(NamedTuple):
    """Start of the part of a block that one of several sources, or workers, reads.

    Attributes:
        tokens: number of tokens that were read before.
        epoch: number of the source's epoch.
        block: see `BlockStart`, as `file` and `line`.
    """

    tokens: int = 0
    epoch: int = 0
    block: int = 0
    file: int = 0
    line: int = 0


class MixedSource:
    """Source that mixes other sources.

    A source is read again when it ends, so the mixture has only one epoch. A block has text of all
    sources. At the end of a block, each source has given its ratio of all tokens so far. A source
    may exceed its ratio by the last part that was read.

    Args:
        sources: sources, whose blocks are much smaller than `block_tokens`.
        ratios: ratio of the tokens from each source.
        block_tokens: approximate number of tokens in a block.
    """

    def __init__(self, sources: Sequence[Source], ratios: Sequence[float], block_tokens: int):
        self._sources = sources
        self._block_sizes = [ratio * block_tokens for ratio in ratios]

    @property
    def checksum(self) -> int:
        """Checksum of the sources."""
        return zlib.crc32(np.array([source.checksum for source in self._sources]).data)

    def num_tokens(self) -> int | None:
        """Returns None, because the mixture has no end."""
        return None

    def num_bytes(self) -> int:
        """Returns the size of all sources."""
        return sum(source.num_bytes() for source in self._sources)

    def blocks(self, epoch: int, start: BlockStart = BEGIN) -> Iterator[Block]:
        """Yields the blocks from `start` on, without end."""
        starts = [PartStart(*part) for part in start.parts] or [PartStart()] * len(self._sources)
        pairs = zip(self._sources, starts, strict=True)
        readers = [repeated_blocks(source, start) for source, start in pairs]
        for number in itertools.count(start.block):
            parts: list[TokenizedCorpus] = []
            unreadable: list[UnreadableFile] = []
            for index, size in enumerate(self._block_sizes):
                while starts[index].tokens < (number + 1) * size:
                    block, starts[index] = next(readers[index])
                    parts.append(block.corpus)
                    unreadable += block.unreadable
            if parts:
                next_start = BlockStart(number + 1, parts=tuple(starts))
                yield Block(start, TokenizedCorpus.joined(parts), next_start, tuple(unreadable))
                start = next_start


def repeated_blocks(source: Source, start: PartStart) -> Iterator[tuple[Block, PartStart]]:
    """Yields the blocks of a source from `start` on, epoch after epoch, and the start of the next.

    Args:
        source: source with an end.
        start: start of the first block.
    """
    tokens, first = start.tokens, BlockStart(start.block, start.file, start.line)
    for epoch in itertools.count(start.epoch):
        for block in source.blocks(epoch, first):
            tokens += len(block.corpus.tokens)
            next_epoch = epoch + (block.next_start is None)
            yield block, PartStart(tokens, next_epoch, *(block.next_start or BEGIN)[:3])
        first = BEGIN
