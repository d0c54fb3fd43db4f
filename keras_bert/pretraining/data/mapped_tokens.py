"""Token ids in memory-mapped files. The operating system reads only the parts that are used."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints.files import read_header
from keras_bert.text.remote import is_address, open_address
from keras_bert.text.rows import splits_of

WIDTH = 4  # bytes of an int32


class MappedFile:
    """A safetensors file of int32 vectors: memory-mapped, or in memory if it is in a store.

    Attributes:
        path: path or address of the file.
        in_memory: whether the file is in memory.
        checksums: checksums of the source text, of the tokens, and of the other vectors.
        ends: start and end of each vector, counted in int32 values from the start of the file.
    """

    def __init__(self, path: str | Path):
        self.path = str(path)
        self.in_memory = is_address(self.path)
        if self.in_memory:
            with open_address(self.path) as stored:
                data = stored.read()
            self._values = np.frombuffer(data[: len(data) // WIDTH * WIDTH], "<i4")
            header, start = read_header(io.BytesIO(data))
        else:
            self._values = np.memmap(path, "<i4", mode="r")
            with open(path, "rb") as file:
                header, start = read_header(file)
        self.checksums = [int(x) for x in header.pop("__metadata__")["checksums"].split()]
        self.ends: dict[str, list[int]] = {
            name: [(start + place) // WIDTH for place in vector["data_offsets"]]
            for name, vector in header.items()
        }

    @property
    def size(self) -> int:
        """Size of the file in int32 values, with its header."""
        return len(self._values)

    def vector(self, name: str) -> np.ndarray:
        """Returns a vector by its name."""
        first, last = self.ends[name]
        return self._values[first:last]

    def in_graph(self) -> tf.Tensor:
        """Returns the whole file as a tensor `[size]` int32. The vectors are at `ends`."""
        return tf.raw_ops.ImmutableConst(
            dtype=tf.int32, shape=[self.size], memory_region_name=os.path.realpath(self.path)
        )


class MappedTokens:
    """Token ids `[N]` int32 of several files, one after the other, or of some spans of the files.

    An object can be indexed with arrays, like a NumPy array. `gather` does the same in the graph.
    The graph holds only the names of the files, so it can be sent to other machines that have the
    same files.

    Args:
        files: files, each with a vector `tokens`.
        starts: `[R]` int64, starts of spans, ascending. By default, one span has all tokens.
        ends: `[R]` int64, ends of the spans.
    """

    def __init__(
        self,
        files: Sequence[MappedFile],
        starts: np.ndarray | None = None,
        ends: np.ndarray | None = None,
    ):
        self._files = [file for file in files if len(file.vector("tokens"))]
        self._vectors = [file.vector("tokens") for file in self._files]
        sizes = np.array([len(vector) for vector in self._vectors], np.int64)
        self._file_starts = splits_of(sizes)[:-1]
        self._starts = np.zeros(1, np.int64) if starts is None else starts
        self._ends = sizes.sum(keepdims=True) if ends is None else ends
        self._here = splits_of(self._ends - self._starts)[:-1]  # starts of the spans in this object
        self._shifts = self._starts - self._here

    def __len__(self) -> int:
        return int((self._ends - self._starts).sum())

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        span = np.searchsorted(self._here, index, side="right") - 1
        index = np.asarray(index) + self._shifts[span]
        file = np.searchsorted(self._file_starts, index, side="right") - 1
        result = np.empty(index.shape, np.int32)
        for number in np.unique(file):
            there = file == number
            result[there] = self._vectors[number][index[there] - self._file_starts[number]]
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Reads all tokens into memory."""
        if len(self) == sum(map(len, self._vectors)):
            return np.concatenate([np.zeros(0, np.int32), *self._vectors], dtype=dtype)
        return self[np.arange(len(self))].astype(dtype or np.int32)

    def take(self, starts: np.ndarray, ends: np.ndarray) -> MappedTokens | np.ndarray:
        """Returns the tokens of the spans from `starts` to `ends` `[R]`, one after the other."""
        if self._shifts.any():  # spans of spans
            return np.concatenate(
                [self[np.arange(a, b)] for a, b in zip(starts, ends, strict=True)]
            )
        return MappedTokens(self._files, starts, ends)

    @property
    def checksum(self) -> int:
        """Checksum of the files' stored checksums and of the spans."""
        contents = np.array([file.checksums[1] for file in self._files])
        return zlib.crc32(np.concatenate([contents, self._starts, self._ends]).data)

    def gather(self, index: tf.Tensor) -> tf.Tensor:
        """Returns tokens int32 of the shape of `index`, int64, in the graph."""
        flat = tf.reshape(index, [-1])
        if self._shifts.any():
            span = tf.searchsorted(self._here, flat, side="right") - 1
            flat += tf.gather(self._shifts, span)
        file = tf.searchsorted(self._file_starts, flat, side="right") - 1
        shifts = [f.ends["tokens"][0] for f in self._files] - self._file_starts
        flat += tf.gather(shifts, file)
        count = len(self._files)
        places = tf.dynamic_partition(tf.range(tf.size(flat)), file, count)
        parts = tf.dynamic_partition(flat, file, count)
        found = [tf.gather(f.in_graph(), part) for f, part in zip(self._files, parts, strict=True)]
        return tf.reshape(tf.dynamic_stitch(places, found), tf.shape(index))
