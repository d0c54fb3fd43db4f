"""Stream of training examples: the blocks of a corpus, epoch after epoch."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from keras_bert.distribution.workers import Workers
from keras_bert.errors import InputError
from keras_bert.pretraining.data.corpus import TokenizedCorpus
from keras_bert.pretraining.data.example_index import AnyExampleIndex
from keras_bert.pretraining.data.input_pipeline import Examples
from keras_bert.pretraining.data.sources import (
    Block,
    BlockStart,
    PartStart,
    Source,
    TextSource,
    repeated_blocks,
)
from keras_bert.text.files import UnreadableFile

Item = TypeVar("Item")

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Place:
    """Place of an example in the stream, as checkpoints store it.

    Args:
        epoch: number of the epoch.
        example: number of the example in its block.
        first_number: number of the block's first example. The numbers of the examples in an epoch
            decide their masks.
        block: number of the block in the epoch.
        file: see `BlockStart`.
        line: see `BlockStart`.
        parts: see `BlockStart`.
    """

    epoch: int = 0
    example: int = 0
    first_number: int = 0
    block: int = 0
    file: int = 0
    line: int = 0
    parts: tuple[tuple[int, ...], ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class ExampleBlock:
    """Examples of a block.

    Args:
        examples: makes the batches.
        example_index: index of the examples.
        place: place of the block's first example.
        next_place: place of the first example after the block.
        workers: number of workers that have blocks of their own. With 1, all workers have this
            block, and each makes its part of every batch.
        length: number of examples of all workers, if they have blocks of their own.
        unreadable: files that this worker left out since the block before.
    """

    examples: Examples
    example_index: AnyExampleIndex
    place: Place = Place()
    next_place: Place = Place(epoch=1)
    workers: int = 1
    length: int = 0
    unreadable: tuple[UnreadableFile, ...] = ()

    def __len__(self) -> int:
        return self.length or len(self.example_index)

    def dataset(self, batch_size: int, **options: Any) -> tf.data.Dataset:
        """Makes the batches of the block; see `Examples.dataset`."""
        return self.examples.dataset(
            batch_size,
            epoch=self.place.epoch,
            example_index=self.example_index,
            first_number=self.place.first_number,
            length=self.length // self.workers,
            **options,
        )

    def distributed_batches(
        self,
        strategy: tf.distribute.Strategy,
        batch_size: int,
        *,
        start: int = 0,
        limit: int | None = None,
    ) -> Iterator:
        """Makes the batches of the block. Every replica of every worker gets its part, in order.

        Args:
            strategy: strategy of the replicas. A worker makes only its own parts.
            batch_size: number of examples in a batch, over all replicas.
            start: number of the first example.
            limit: number of examples, from the beginning of the block. By default, all.
        """
        replicas = strategy.num_replicas_in_sync

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            local = replicas // context.num_input_pipelines
            shared = self.workers == 1
            return self.dataset(
                batch_size // self.workers,
                start=start // self.workers,
                limit=limit,
                parts=replicas if shared else local,
                first_part=context.input_pipeline_id * local if shared else 0,
                local_parts=local,
            )

        return iter(strategy.distribute_datasets_from_function(dataset))


class ExampleStream:
    """Training examples of a corpus of any size.

    Every example of an epoch comes once, shuffled inside its block. The first block, the block in
    use and the next block are in memory.

    Args:
        source: text of the examples.
        make_examples: function that makes the examples of a text.
        held_out_ratio: ratio of the text to hold out. From a corpus of one block, this holds out
            every n-th document or the end of each document. From a larger corpus, it holds out
            documents by their content, and `held_out` has only documents of the first block.
        worker: index of this worker.
        num_workers: number of workers. If there are several blocks of text, each worker reads its
            own files and makes blocks of its own.

    Attributes:
        held_out: held-out text, or None if `held_out_ratio` is 0.
        examples: examples of the first block.
        examples_per_epoch: number of examples in the first epoch. It is estimated if there are
            several blocks of records, and None if there are several blocks of text.
        checksum: checksum of the text, to recognize the corpus of a run that continues.

    Raises:
        InputError: if the first block has no examples.
    """

    def __init__(
        self,
        source: Source,
        make_examples: Callable[[TokenizedCorpus], Examples],
        held_out_ratio: float = 0.0,
        worker: int = 0,
        num_workers: int = 1,
    ):
        self._source = source
        self._make_examples = make_examples
        self._ratio = held_out_ratio
        block = next(iter(source.blocks(0)))
        self._is_whole = block.is_whole
        self._worker = worker
        self._num_workers = 1
        self._shard: TextSource | None = None  # this worker's files, if the text has several blocks
        if isinstance(source, TextSource) and not self._is_whole:
            self._num_workers = num_workers
            self._shard = source.shard(worker, num_workers)
        corpus, self.held_out = self._split(block.corpus)
        self.examples = make_examples(corpus)
        first = index_block(self.examples, "training")
        next_place = _next_place(block, Place(), len(first))
        self._first: ExampleBlock | None = dataclasses.replace(
            first, next_place=next_place, unreadable=block.unreadable
        )
        self.checksum = corpus.checksum
        self.examples_per_epoch: int | None = len(first)
        if not self._is_whole:
            self.checksum = zlib.crc32(np.array([corpus.checksum, source.checksum]).data)
            tokens, here = source.num_tokens(), len(block.corpus.tokens)
            self.examples_per_epoch = tokens and round(tokens / here * len(first))

    def _split(self, corpus: TokenizedCorpus) -> tuple[TokenizedCorpus, TokenizedCorpus | None]:
        """Returns the training text and the held-out text of a block."""
        if not self._ratio:
            return corpus, None
        return corpus.split(self._ratio) if self._is_whole else corpus.split_by_content(self._ratio)

    def blocks(self, place: Place) -> Generator[ExampleBlock]:
        """Yields the blocks from the block of `place` on, epoch after epoch, without end.

        While a block is in use, a thread reads the next block.
        """
        first = self._first
        if self._is_whole:
            assert first is not None
            if place.epoch == 0:
                yield first
            for epoch in itertools.count(max(place.epoch, 1)):
                index = self.examples.example_index(epoch)
                yield ExampleBlock(self.examples, index, Place(epoch), Place(epoch + 1))
        self._first = None  # so that its memory can be used again
        if self._shard:
            self._check_workers(place)
        if self._shard and self._num_workers > 1:
            items = self._read_shard(self._shard, place)
        elif first and (place.epoch, place.block) == (0, 0):
            items = itertools.chain([first], self._read(first.next_place))
        else:
            items = self._read(place)
        first = None
        yield from _prefetch(items)

    def _check_workers(self, place: Place) -> None:
        earlier = len(place.parts) or 1
        if place != Place() and earlier != self._num_workers:
            raise InputError(
                f"The run was begun with {earlier} workers, not {self._num_workers}, and each "
                "worker reads its own text files; start as many workers as before, or begin "
                "another run on records of keras-bert tokenize, which any number can read."
            )

    def _read(self, place: Place) -> Iterator[ExampleBlock]:
        unreadable: tuple[UnreadableFile, ...] = ()
        for epoch in itertools.count(place.epoch):
            start = BlockStart(place.block, place.file, place.line, place.parts)
            for block in self._source.blocks(epoch, start):
                place = dataclasses.replace(place, **block.start._asdict())
                unreadable += block.unreadable
                if indexed := self._index_block(block, epoch, seed=place.block):
                    next_place = _next_place(block, place, len(indexed))
                    yield dataclasses.replace(
                        indexed, place=place, next_place=next_place, unreadable=unreadable
                    )
                    place, unreadable = next_place, ()
            place = Place(epoch=epoch + 1)

    def _read_shard(self, shard: TextSource, place: Place) -> Iterator[ExampleBlock]:
        """Yields the blocks of this worker. `Place.parts` has only this worker's start."""
        worker, workers = self._worker, self._num_workers
        start, number = PartStart(*place.parts[worker] if place.parts else ()), place.block
        unreadable: tuple[UnreadableFile, ...] = ()
        for block, next_start in repeated_blocks(shard, start):
            unreadable += block.unreadable
            if indexed := self._index_block(block, start.epoch, seed=number * workers + worker):
                # A block has fewer examples than tokens, so no two blocks share an example number.
                first_number = start.tokens + worker * (2**32 // workers)
                yield dataclasses.replace(
                    indexed,
                    place=Place(start.epoch, 0, first_number, number, parts=(start,)),
                    next_place=Place(next_start.epoch, block=number + 1, parts=(next_start,)),
                    workers=workers,
                    unreadable=unreadable,
                )
                number, unreadable = number + 1, ()
            start = next_start

    def _index_block(self, block: Block, epoch: int, seed: int) -> ExampleBlock | None:
        """Makes the examples of a block, without their places.

        Args:
            block: text of the examples.
            epoch: number of the epoch.
            seed: number that decides the random choices, with the epoch.

        Returns:
            The examples, or None if all documents are held out, or if the text at the end of an
            epoch is too short.

        Raises:
            InputError: if another block, or a whole epoch, is too short for an example.
        """
        corpus = self._split(block.corpus)[0]
        examples = self._make_examples(corpus)
        name = f"worker {self._worker}'s training" if self._num_workers > 1 else "training"
        try:
            return index_block(examples, name, epoch, seed)
        except InputError as error:
            if block.is_whole or (corpus.num_documents and block.next_start):
                raise
            if tokens := len(corpus.tokens):
                logger.warning("Leaving out %d tokens at the end of the text. %s", tokens, error)
            return None

    def synchronize(self, block: ExampleBlock, workers: Workers) -> ExampleBlock:
        """Returns a block that also has the places and the number of examples of other workers.

        All workers must call this at the same time.
        """
        if block.workers == 1:
            return block
        ours = (len(block.example_index), *block.place.parts[0], *block.next_place.parts[0])
        rows, size = workers.gather(ours), len(PartStart._fields)
        parts = tuple(tuple(row[1 : 1 + size]) for row in rows)
        next_parts = tuple(tuple(row[1 + size :]) for row in rows)
        return dataclasses.replace(
            block,
            place=dataclasses.replace(block.place, parts=parts),
            next_place=dataclasses.replace(block.next_place, parts=next_parts),
            length=max(row[0] for row in rows) * block.workers,
        )

    def dataset(self, batch_size: int, *, epoch: int = 0) -> tf.data.Dataset:
        """Makes the batches `(x, y, w)` of an epoch, for `fit`; see `Examples.dataset`."""
        if self._is_whole:
            return self.examples.dataset(batch_size, epoch=epoch)

        def batches() -> Iterator[Any]:
            with contextlib.closing(self.blocks(Place(epoch))) as blocks:
                for block in blocks:
                    if block.place.epoch > epoch:
                        return
                    yield from block.dataset(batch_size)
                    if block.next_place.epoch > epoch:
                        return

        spec = self.examples.dataset(batch_size).element_spec
        return tf.data.Dataset.from_generator(batches, output_signature=spec)


def index_block(examples: Examples, name: str, epoch: int = 0, seed: int = 0) -> ExampleBlock:
    """Indexes the examples of a block.

    Args:
        examples: examples of the block.
        name: name of the text in messages.
        epoch: number of the epoch. For held-out text, only the first one is used.
        seed: number that decides the random choices, with the epoch.

    Raises:
        InputError: if the text is too short.
    """
    example_index = None
    try:
        if examples.corpus.num_documents:
            example_index = examples.example_index(epoch, seed)
    except InputError as error:
        raise InputError(f"The {name} text is not enough. {error}") from None
    if not example_index:
        raise InputError(
            f"The {name} text is too short for an example; give more text, or hold out another "
            "ratio (data.validation_ratio, 0 for no held-out text) or other files "
            "(data.validation)."
        )
    return ExampleBlock(examples, example_index)


def _next_place(block: Block, place: Place, examples: int) -> Place:
    """Returns the place after a block that begins at `place` and has this number of examples."""
    if block.next_start is None:
        return Place(epoch=place.epoch + 1)
    number = place.first_number + examples
    return Place(epoch=place.epoch, first_number=number, **block.next_start._asdict())


def _prefetch(items: Iterator[Item]) -> Iterator[Item]:
    """Yields the items in order. While an item is in use, a thread computes the next item."""
    with ThreadPoolExecutor(1, "keras_bert_blocks") as thread:
        pending = thread.submit(next, items)
        while True:
            item = pending.result()
            pending = thread.submit(next, items)
            yield item
            del item  # before the next one is awaited
