"""Rows that an encoder sees: texts, windows of long texts, choices.

Rows are kept one after the other without padding; a batch is padded when it is taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from keras_bert.errors import InputError

Overlap: TypeAlias = int | Literal["auto"] | None
"""Tokens that neighboring windows share; "auto" is a third of the room; None: no windows."""

LONGEST_FIRST = 64
"""Tokens that are left of the first text of a pair whose second is seen through windows."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Inputs of an encoder, R rows, not padded.

    Args:
        flat: name to values `[tokens]` of all rows, one after the other: `token_ids` and
            `segment_ids` int32 and, with offsets, `starts` and `ends` int32 (characters of the
            text, or of the second text of a pair; -1 for special tokens and for the first of a
            pair) and `most_context` bool (this row is the one of the text's windows in which the
            token has most context, which is true in one row for each token that has offsets).
        splits: where rows begin and end in `flat`, int64 `[R + 1]`.
        owners: the text that each row is of, int32 `[R]`.
        pad_id: the token of padding.
        longest: no row is, and none is padded to be, longer.
        group: so many rows, one after the other, are one example (the choices of a question).
    """

    flat: Mapping[str, np.ndarray]
    splits: np.ndarray
    owners: np.ndarray
    pad_id: int
    longest: int
    group: int = 1

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, int64 `[R]`."""
        return np.diff(self.splits)

    def row(self, index: int) -> dict[str, np.ndarray]:
        """One row's values, each `[T]`."""
        inside = slice(self.splits[index], self.splits[index + 1])
        return {name: values[inside] for name, values in self.flat.items()}

    def order_by_length(self) -> np.ndarray:
        """The rows' indices, longest first, int64 `[R]`; equally long ones in order."""
        return np.argsort(-self.lengths, kind="stable")

    def padded(
        self, indices: Sequence[int] | np.ndarray, multiple: int = 16
    ) -> dict[str, np.ndarray]:
        """Some rows as a batch for the encoder.

        Args:
            indices: of B rows.
            multiple: what the length is rounded up to.

        Returns:
            `token_ids`, `segment_ids` and `padding_mask`, int32 `[B, T]`.
        """
        indices = np.asarray(indices, np.int64)
        starts = self.splits[indices]
        lengths = self.splits[indices + 1] - starts
        longest = lengths.max(initial=1)
        position = np.arange(min(-(-longest // multiple) * multiple, self.longest))
        mask = position < lengths[:, np.newaxis]
        source = np.where(mask, starts[:, np.newaxis] + position, 0)
        batch = {
            name: np.where(mask, self.flat[name][source], fill)
            for name, fill in (("token_ids", self.pad_id), ("segment_ids", 0))
        }
        return {n: x.astype(np.int32) for n, x in (batch | {"padding_mask": mask}).items()}

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of one or more batches of texts, one batch after the other."""
        first = parts[0]
        return dataclasses.replace(
            first,
            flat={name: np.concatenate([part.flat[name] for part in parts]) for name in first.flat},
            splits=splits_of(np.concatenate([part.lengths for part in parts])),
            owners=np.concatenate([part.owners for part in parts]),
        )


class Segment(NamedTuple):
    """Tokens of the first, or of the second, texts of a batch of N."""

    splits: np.ndarray
    """Where texts begin and end in the other arrays, int64 `[N + 1]`."""
    ids: np.ndarray
    """Int32 `[tokens]`."""
    starts: np.ndarray | None = None
    """Characters, int32 `[tokens]`, as `ends`."""
    ends: np.ndarray | None = None

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each text, int64 `[N]`."""
        return np.diff(self.splits)


class Frame(NamedTuple):
    """Special tokens and sizes around the texts of a row."""

    cls_id: int
    separator_id: int
    pad_id: int
    length: int
    """Of the longest row."""
    separators_in_pair: int
    num_segments: int


def arrange(
    segments: Sequence[Segment], frame: Frame, overlap: Overlap = None, first_owner: int = 0
) -> Rows:
    """Rows `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    Args:
        segments: one, or two for pairs; offsets of the last one go into the rows.
        frame: what stands around them.
        overlap: None: each text is one row, cut where it is too long, the longer text of a pair
            first, as `packing.layout` does. Otherwise the text, or the second of a pair, becomes
            as many rows as it needs, and the first is cut to `LONGEST_FIRST` tokens and to half
            of the room.
        first_owner: the number of the first text.

    Raises:
        InputError: if the length leaves no room for text, or the windows would not advance.
    """
    separators = [frame.separators_in_pair, 1][-len(segments) :]  # after each segment
    room = frame.length - 1 - sum(separators)
    if room < len(segments):
        raise InputError(
            f"A sequence length of {frame.length} leaves no room for text: "
            f"it must be at least {len(segments) + sum(separators) + 1}."
        )
    last = segments[-1]
    # For every row: its text, and from where to where it shows the last segment.
    owners = np.arange(len(last.splits) - 1)
    begins, kept_first = np.zeros_like(owners), np.zeros_like(owners)
    if overlap is None:
        if len(segments) == 2:
            kept_first, sizes = _kept_lengths(segments[0].lengths, last.lengths, room)
        else:
            sizes = np.minimum(last.lengths, room)
    else:
        if len(segments) == 2:
            kept_first = np.minimum(segments[0].lengths, min(LONGEST_FIRST, room // 2))
        rooms = room - kept_first
        owners, begins = _windows(last.lengths, rooms, overlap, first_owner)
        sizes = np.minimum(last.lengths[owners] - begins, rooms[owners])
        kept_first = kept_first[owners]

    shown = [(kept_first, segments[0].splits[owners])] if len(segments) == 2 else []
    shown.append((sizes, last.splits[owners] + begins))
    lengths = np.sum([kept for kept, _ in shown], axis=0) + 1 + sum(separators)
    splits = splits_of(lengths)
    row = np.repeat(np.arange(len(owners)), lengths)
    position = numbers_of(lengths)

    tokens = np.concatenate([*(segment.ids for segment in segments), [frame.separator_id]])
    source = np.full(len(row), len(tokens) - 1)  # separators, unless something else stands there
    segment_ids = np.zeros(len(row), np.int32)
    start, shift = np.ones_like(owners), 0
    for number, (kept, begin) in enumerate(shown):
        place = position - start[row]
        inside = (place >= 0) & (place < kept[row])
        source[inside] = shift + begin[row[inside]] + place[inside]
        segment_ids[place >= 0] = min(number, max(frame.num_segments - 1, 0))
        start, shift = start + kept + separators[number], shift + len(segments[number].ids)
    token_ids = tokens[source].astype(np.int32)
    token_ids[splits[:-1]] = frame.cls_id

    flat = {"token_ids": token_ids, "segment_ids": segment_ids}
    if last.starts is not None and last.ends is not None:  # `inside` are the last segment's tokens
        source = source[inside] - (shift - len(last.ids))
        most = _most_context(place[inside], kept[row[inside]], source, row[inside], len(last.ids))
        columns = {"starts": (last.starts[source], -1), "ends": (last.ends[source], -1)}
        for name, (values, fill) in (columns | {"most_context": (most, False)}).items():
            flat[name] = np.full(len(row), fill, values.dtype)
            flat[name][inside] = values
    owners = (owners + first_owner).astype(np.int32)
    return Rows(flat, splits, owners, frame.pad_id, frame.length)


def _kept_lengths(
    first: np.ndarray, second: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens `[N]` kept of each text of a pair, as in `packing`."""
    kept_second = np.minimum(second, np.maximum(room // 2, room - first))
    return np.minimum(first, room - kept_second), kept_second


def _windows(
    lengths: np.ndarray, rooms: np.ndarray, overlap: int | str, first_owner: int
) -> tuple[np.ndarray, np.ndarray]:
    """Windows on texts of so many tokens `[N]` that are so wide `[N]`: text and begin `[R]`."""
    overlaps = rooms // 3 if overlap == "auto" else np.full_like(rooms, overlap)
    if isinstance(overlap, int) and overlap < 0:
        raise InputError(f"overlap is {overlap}, but must be 0 or more tokens.")
    narrow = np.flatnonzero(overlaps >= rooms)
    if len(narrow):
        raise InputError(
            f"An overlap of {overlap} tokens is too much: windows on text "
            f"{first_owner + narrow[0]} have room for {rooms[narrow[0]]}; choose a smaller "
            "overlap or a longer sequence_length."
        )
    strides = rooms - overlaps
    counts = 1 + np.maximum(-(-(lengths - rooms) // strides), 0)
    owners = np.repeat(np.arange(len(lengths)), counts)
    return owners, numbers_of(counts) * strides[owners]


def _most_context(
    place: np.ndarray, size: np.ndarray, source: np.ndarray, row: np.ndarray, count: int
) -> np.ndarray:
    """Returns whether no other window shows a token with more context, bool `[tokens]`.

    As BERT's `run_squad.py`: what counts is the nearer edge, then the window's size, then which
    comes first.

    Args:
        place: of each token in its window.
        size: of its window.
        source: what token it is, from 0 to `count` - 1.
        row: which window it is.
        count: number of different tokens.
    """
    nearer = np.minimum(place, size - 1 - place)
    score = (100 * nearer + size) * (row.max(initial=0) + 1) - row
    best = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(best, source, score)
    return score == best[source]


def splits_of(lengths: ArrayLike) -> np.ndarray:
    """Starts of rows with lengths `[R]`, and the end of the last row, int64 `[R + 1]`."""
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


def numbers_of(lengths: np.ndarray) -> np.ndarray:
    """Position of each element within its row, int64 `[elements]`, for row lengths `[R]`."""
    bounds = splits_of(lengths)
    return np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
