"""Token ids that stay in their files: what is looked at is read, and the system keeps it or not."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.text.rows import splits_of

WIDTH = 4  # bytes of an int32, of which these files are made


class MappedFile:
    """A safetensors file of int32 vectors, of which none is read before it is looked at.

    Attributes:
        path: the file.
        checksums: of the text that it was made of, of its tokens, and of its other vectors.
        ends: where each vector begins and ends, in numbers from the start of the file.
    """

    def __init__(self, path: Path):
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        self.path = path
        self.checksums = [int(x) for x in header.pop("__metadata__")["checksums"].split()]
        self.ends: dict[str, list[int]] = {
            name: [(8 + size + place) // WIDTH for place in vector["data_offsets"]]
            for name, vector in header.items()
        }

    @property
    def size(self) -> int:
        """Numbers in the file, its header being counted as such."""
        return self.path.stat().st_size // WIDTH

    def vector(self, name: str) -> np.ndarray:
        """One of the vectors."""
        first, last = self.ends[name]
        return np.memmap(self.path, "<i4", mode="r")[first:last]

    def in_graph(self) -> tf.Tensor:
        """The file as it is, `[size]` int32; its vectors stand at `ends`."""
        return tf.raw_ops.ImmutableConst(
            dtype=tf.int32, shape=[self.size], memory_region_name=str(self.path.resolve())
        )


class MappedTokens:
    """Token ids `[N]` int32 of several files, one after the other, or of some spans of them.

    It stands where an array would that is indexed by arrays. `gather` does the same in the graph,
    of which only the names of the files become part: it can be sent to other machines that have
    the files under these names.

    Args:
        files: with a vector `tokens` each.
        starts: `[R]` int64, where spans begin and
        ends: where they end, ascending; by default there is one, of everything.
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
        self._here = splits_of(self._ends - self._starts)[:-1]  # where they begin among ours
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
        """All of it, in memory."""
        return self[np.arange(len(self))].astype(dtype or np.int32)

    def take(self, starts: np.ndarray, ends: np.ndarray) -> MappedTokens | np.ndarray:
        """The spans from `starts` to `ends` `[R]`, one after the other."""
        if self._shifts.any():  # of spans once more
            return np.concatenate(
                [self[np.arange(a, b)] for a, b in zip(starts, ends, strict=True)]
            )
        return MappedTokens(self._files, starts, ends)

    @property
    def checksum(self) -> int:
        """Of those that the files say that they have, and the spans."""
        contents = np.array([file.checksums[1] for file in self._files])
        return zlib.crc32(np.concatenate([contents, self._starts, self._ends]).data)

    def gather(self, index: tf.Tensor) -> tf.Tensor:
        """Tokens int32 of the shape of `index`, int64, in the graph."""
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
