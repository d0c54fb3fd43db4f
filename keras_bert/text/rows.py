"""Rows for an encoder: texts, windows of long texts, or choices.

Rows are stored one after the other without padding. `Rows.padded` pads a batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from keras_bert.errors import InputError
from keras_bert.text.vocabulary import Vocabulary

Overlap: TypeAlias = int | Literal["auto"] | None
"""Number of tokens that neighboring windows share; "auto" is a third of a window.

None means no windows.
"""

PADDED_LENGTHS = np.array([16, 32, *(2**n * k for n in range(4, 24) for k in (3, 4))], np.int32)
"""Lengths of padded batches: 16, 32, 48, 64, 96, 128, 192, 256, ...

Each new length may have to be compiled, so at most two lie between one power of two and the next.
"""

LONGEST_FIRST = 64
"""Largest number of tokens of a pair's first text, if the second text has windows."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Inputs of an encoder, R rows without padding.

    Args:
        flat: arrays `[tokens]` with the values of all rows, one row after the other:
            `token_ids` and `segment_ids`: int32.
            `starts` and `ends`: int32, only with offsets. The token is `text[start:end]` in the
            text, or in a pair's second text. Both are -1 for special tokens and for a pair's first
            text.
            `is_max_context`: bool, only with offsets. Whether no other window of the text shows the
            token with more context. Each token with offsets has exactly one such row.
        splits: int64 `[R + 1]`, indices in `flat` of the rows' first tokens, and the end of the
            last row.
        sample_ids: int32 `[R]`, index of each row's text.
        pad_id: token id of padding.
        longest: largest length of a row. `padded` does not pad rows beyond this length.
        group: number of consecutive rows that belong to one example (the choices of a question).
        pairs: whether the texts are pairs.
        cut: number of texts, or pairs, that are longer than a row and are cut, because they have no
            windows.
    """

    flat: Mapping[str, np.ndarray]
    splits: np.ndarray
    sample_ids: np.ndarray
    pad_id: int
    longest: int
    group: int = 1
    pairs: bool = False
    cut: int = 0

    def __len__(self) -> int:
        return len(self.sample_ids)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens in each row, int64 `[R]`."""
        return np.diff(self.splits)

    def row(self, index: int) -> dict[str, np.ndarray]:
        """Returns the values of a row, `[T]` each."""
        inside = slice(self.splits[index], self.splits[index + 1])
        return {name: values[inside] for name, values in self.flat.items()}

    def order_by_length(self) -> np.ndarray:
        """Returns the indices of the rows, int64 `[R]`, longest first; ties keep their order."""
        return np.argsort(-self.lengths, kind="stable")

    def padded(
        self, indices: Sequence[int] | np.ndarray, multiple: int = 16
    ) -> dict[str, np.ndarray]:
        """Pads some rows to a batch for the encoder.

        Args:
            indices: indices of B rows.
            multiple: the length is rounded up to a multiple of this number.

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
        """Joins the rows of one or more batches of texts, one batch after the other."""
        first = parts[0]
        return dataclasses.replace(
            first,
            flat={name: np.concatenate([part.flat[name] for part in parts]) for name in first.flat},
            splits=splits_of(np.concatenate([part.lengths for part in parts])),
            sample_ids=np.concatenate([part.sample_ids for part in parts]),
            cut=sum(part.cut for part in parts),
        )


class Segment(NamedTuple):
    """Tokens of N texts: of all first texts of a batch, or of all second texts."""

    splits: np.ndarray
    """Indices of the texts' first tokens in the other arrays, and the last end, int64 `[N + 1]`."""
    ids: np.ndarray
    """Token ids, int32 `[tokens]`."""
    starts: np.ndarray | None = None
    """Position in its text of each token's first character, int32 `[tokens]`."""
    ends: np.ndarray | None = None
    """Position in its text of the character after each token, int32 `[tokens]`."""

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens in each text, int64 `[N]`."""
        return np.diff(self.splits)


def room_for_text(
    count: int, length: int, separators_in_pair: int, separator_at_end: bool
) -> tuple[list[int], int]:
    """Returns the number of separators after each text of a row, and the room for text, in tokens.

    Args:
        count: number of texts in a row.
        length: length of the longest row.
        separators_in_pair: number of separators between the texts of a pair.
        separator_at_end: whether there is a separator after the last text.

    Raises:
        InputError: if there are more than two texts, or the length leaves no room for text.
    """
    if count not in (1, 2):
        raise InputError(f"Expected one text or a pair of texts, got {count}.")
    separators = [separators_in_pair, int(separator_at_end)][-count:]
    room = length - 1 - sum(separators)
    if room < count:
        raise InputError(
            f"A sequence length of {length} leaves no room for text: "
            f"it must be at least {count + sum(separators) + 1}."
        )
    return separators, room


def arrange(
    segments: Sequence[Segment],
    vocabulary: Vocabulary,
    overlap: Overlap = None,
    first_sample: int = 0,
    *,
    length: int,
    separators_in_pair: int,
    separator_at_end: bool,
    num_segments: int,
) -> Rows:
    """Makes rows `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    Args:
        segments: one segment, or two for pairs. Only the last segment's offsets are used.
        vocabulary: vocabulary with the special tokens.
        overlap: None makes one row of each text, cut as `preprocessor.layout` cuts it. Otherwise
            the text, or a pair's second text, becomes as many rows as it needs. A pair's first text
            is cut to at most `LONGEST_FIRST` tokens and at most half of a row's text tokens.
        first_sample: index of the first text.
        length: length of the longest row.
        separators_in_pair: number of separators between the texts of a pair.
        separator_at_end: whether there is a separator after the last text.
        num_segments: number of segment ids in the model.

    Raises:
        InputError: if the length leaves no room for text, or the overlap is negative or as long as
            a window.
    """
    separators, room = room_for_text(len(segments), length, separators_in_pair, separator_at_end)
    last = segments[-1]
    # For every row: the index of its text, and the part of the last segment that the row shows.
    sample_ids = np.arange(len(last.splits) - 1)
    begins, kept_first = np.zeros_like(sample_ids), np.zeros_like(sample_ids)
    cut = 0
    if overlap is None:
        whole = np.sum([segment.lengths for segment in segments], axis=0)
        cut = int((whole > room).sum())
        if len(segments) == 2:
            kept_first, sizes = _kept_lengths(segments[0].lengths, last.lengths, room)
        else:
            sizes = np.minimum(last.lengths, room)
    else:
        if len(segments) == 2:
            kept_first = np.minimum(segments[0].lengths, min(LONGEST_FIRST, room // 2))
        rooms = room - kept_first
        sample_ids, begins = _windows(last.lengths, rooms, overlap, first_sample)
        sizes = np.minimum(last.lengths[sample_ids] - begins, rooms[sample_ids])
        kept_first = kept_first[sample_ids]

    shown = [(kept_first, segments[0].splits[sample_ids])] if len(segments) == 2 else []
    shown.append((sizes, last.splits[sample_ids] + begins))
    lengths = np.sum([kept for kept, _ in shown], axis=0) + 1 + sum(separators)
    splits = splits_of(lengths)
    row = np.repeat(np.arange(len(sample_ids)), lengths)
    position = numbers_of(lengths)

    tokens = np.concatenate([*(segment.ids for segment in segments), [vocabulary.separator_id]])
    source = np.full(len(row), len(tokens) - 1)  # separators, unless replaced below
    segment_ids = np.zeros(len(row), np.int32)
    start, shift = np.ones_like(sample_ids), 0
    for number, (kept, begin) in enumerate(shown):
        place = position - start[row]
        inside = (place >= 0) & (place < kept[row])
        source[inside] = shift + begin[row[inside]] + place[inside]
        segment_ids[place >= 0] = min(number, max(num_segments - 1, 0))
        start, shift = start + kept + separators[number], shift + len(segments[number].ids)
    token_ids = tokens[source].astype(np.int32)
    token_ids[splits[:-1]] = vocabulary.cls_id

    flat = {"token_ids": token_ids, "segment_ids": segment_ids}
    if last.starts is not None and last.ends is not None:  # `inside` marks the last segment now
        source = source[inside] - (shift - len(last.ids))
        most = _is_max_context(place[inside], kept[row[inside]], source, row[inside], len(last.ids))
        columns = {"starts": (last.starts[source], -1), "ends": (last.ends[source], -1)}
        for name, (values, fill) in (columns | {"is_max_context": (most, False)}).items():
            flat[name] = np.full(len(row), fill, values.dtype)
            flat[name][inside] = values
    sample_ids = (sample_ids + first_sample).astype(np.int32)
    pairs = len(segments) == 2
    return Rows(flat, splits, sample_ids, vocabulary.pad_id, length, pairs=pairs, cut=cut)


def _kept_lengths(
    first: np.ndarray, second: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns how many tokens `[N]` of pairs to keep, by the rule of `preprocessor.layout`."""
    kept_second = np.minimum(second, np.maximum(room // 2, room - first))
    return np.minimum(first, room - kept_second), kept_second


def _windows(
    lengths: np.ndarray, rooms: np.ndarray, overlap: int | str, first_sample: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the text index and the first token, each `[R]`, of the windows on N texts.

    Args:
        lengths: number of tokens in each text, `[N]`.
        rooms: number of tokens in a window on each text, `[N]`.
        overlap: number of tokens that neighboring windows share, or "auto".
        first_sample: index of the first text, for messages.
    """
    overlaps = rooms // 3 if overlap == "auto" else np.full_like(rooms, overlap)
    if isinstance(overlap, int) and overlap < 0:
        raise InputError(f"overlap is {overlap}, but must be 0 or more tokens.")
    narrow = np.flatnonzero(overlaps >= rooms)
    if len(narrow):
        raise InputError(
            f"An overlap of {overlap} tokens is too much: windows on text "
            f"{first_sample + narrow[0]} have room for {rooms[narrow[0]]}; choose a smaller "
            "overlap or a longer sequence_length."
        )
    strides = rooms - overlaps
    counts = 1 + np.maximum(-(-(lengths - rooms) // strides), 0)
    sample_ids = np.repeat(np.arange(len(lengths)), counts)
    return sample_ids, numbers_of(counts) * strides[sample_ids]


def _is_max_context(
    place: np.ndarray, size: np.ndarray, source: np.ndarray, row: np.ndarray, count: int
) -> np.ndarray:
    """Returns for each occurrence whether no other window shows its token with more context.

    Windows overlap, so a token can occur in several windows. As in BERT's `run_squad.py`, the
    occurrence with the largest score wins: the distance to the nearer edge of the window + 0.01 ×
    the window's size. If scores are equal, the earlier window wins.

    Args:
        place: position of each occurrence in its window, `[occurrences]`.
        size: size of the occurrence's window, `[occurrences]`.
        source: index of the occurrence's token, from 0 to `count` - 1, `[occurrences]`.
        row: index of the occurrence's window, `[occurrences]`.
        count: number of tokens in the texts.
    """
    nearer = np.minimum(place, size - 1 - place)
    score = (100 * nearer + size) * (row.max(initial=0) + 1) - row
    best = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(best, source, score)
    return score == best[source]


def splits_of(lengths: ArrayLike) -> np.ndarray:
    """Returns the start of each row and the last row's end, int64 `[R + 1]`, for lengths `[R]`."""
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


def numbers_of(lengths: np.ndarray) -> np.ndarray:
    """Returns each element's position in its row, int64 `[elements]`, for row lengths `[R]`."""
    bounds = splits_of(lengths)
    return np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
