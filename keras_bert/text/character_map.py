"""Normalization of a SentencePiece model: a map from strings to strings, as bytes.

The bytes are a size, a double array (Darts-clone) over the UTF-8 of the keys, and the values. A
zero byte ends each value. TensorFlow's operation replaces the longest key at each position of the
text.
Hugging Face normalizes (lower case, accents) in separate steps before the model. Here, the map also
includes these steps, so they run in the graph, in one pass, with offsets.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from keras_bert.errors import InputError

_LABEL = (1 << 31) | 0xFF  # bits of a unit that must equal a child's label
_HAS_VALUE = 1 << 8
_WIDE = 1 << 9  # the offset counts blocks of 256
_VALUE = (1 << 31) - 1

_LONGEST_SEQUENCE = 5  # bytes; `tokenizers` replaces the characters of longer keys one by one


def read_character_map(data: bytes, longest_key: int | None = None) -> dict[str, str]:
    """Reads the character map of a SentencePiece model: strings and their replacements.

    Args:
        data: bytes of the map.
        longest_key: largest number of bytes in a key. Longer keys are left out.

    Raises:
        InputError: if the bytes are not a map.
    """
    trie = _Trie(data)
    entries = {}
    keys, positions = [b""], np.zeros(1, np.int64)
    while keys and len(keys[0]) != longest_key:
        parents, labels, positions = trie.children(positions)
        keys = [
            keys[p] + bytes([c]) for p, c in zip(parents.tolist(), labels.tolist(), strict=True)
        ]
        for key, value in zip(keys, trie.values(positions), strict=True):
            if value is not None:
                entries[key.decode()] = value
    return entries


@functools.lru_cache(maxsize=8)
def crosses_spaces(data: bytes) -> bool:
    """Returns whether a key of the map has a space together with other characters."""
    trie = _Trie(data)
    _, labels, positions = trie.children(np.zeros(1, np.int64))
    after_space = positions[labels == ord(" ")]
    while positions.size:
        _, labels, positions = trie.children(np.unique(positions))
        if (labels == ord(" ")).any():
            return True
    return trie.children(after_space)[0].size > 0


class _Trie:
    """Reader of a map's double array. A state is a position in the array; state 0 is the root."""

    def __init__(self, data: bytes) -> None:
        size = int.from_bytes(data[:4], "little")
        if data and (size % 4 or not 0 < size <= len(data) - 4):
            raise InputError("The SentencePiece model's character map is damaged.")
        self._units = np.frombuffer(data[4 : 4 + size], "<u4").astype(np.int64)
        self._strings = data[4 + size :]

    def children(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns all children of states `[S]`: the parent's index, the byte, and the position."""
        if not self._units.size:
            return (np.zeros(0, np.int64),) * 3
        labels = np.arange(1, 256)
        places = self._bases(positions)[:, np.newaxis] ^ labels
        units = self._units[np.minimum(places, self._units.size - 1)]
        parents, found = np.nonzero((units & _LABEL == labels) & (places < self._units.size))
        return parents, labels[found], places[parents, found]

    def values(self, positions: np.ndarray) -> list[str | None]:
        """Returns the value of the key that ends in each state `[S]`, or None."""
        ends = (self._units[positions] & _HAS_VALUE) != 0
        starts = self._units[np.where(ends, self._bases(positions), 0)] & _VALUE
        return [
            self._strings[start : self._strings.index(b"\0", start)].decode() if end else None
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def _bases(self, positions: np.ndarray) -> np.ndarray:
        units = self._units[positions]
        return positions ^ ((units >> 10) << ((units & _WIDE) >> 6))


def write_character_map(entries: Mapping[str, str]) -> bytes:
    """Returns the bytes of a map. Keys and values must not contain NUL."""
    values, starts = bytearray(), {}
    for value in dict.fromkeys(entries.values()):
        starts[value] = len(values)
        values += value.encode() + b"\0"
    keys = {key.encode(): starts[value] for key, value in sorted(entries.items())}
    units = build_double_array(keys).astype("<u4").tobytes()
    return len(units).to_bytes(4, "little") + units + bytes(values)


def _replaced(entries: Mapping[str, str], longest: int, text: str) -> str:
    """Replaces the longest key at each position of the text, as TensorFlow's operation does."""
    result, start = [], 0
    while start < len(text):
        ends = range(min(len(text), start + longest), start, -1)
        end = next((end for end in ends if text[start:end] in entries), None)
        result.append(text[start] if end is None else entries[text[start:end]])
        start = start + 1 if end is None else end
    return "".join(result)


# Steps before the model's own map


def _strip_accents(text: str) -> str:
    return "".join(c for c in text if not unicodedata.category(c).startswith("M"))


def _lowercase(text: str) -> str:
    return "".join(c.lower() for c in text)  # one by one: a final Σ becomes σ, not ς


def _plain_quotes(text: str) -> str:
    return text.replace("``", '"').replace("''", '"')


_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def _single_spaces(text: str) -> str:
    return re.sub(f"[{_WHITE_SPACE}]{{2,}}|[\n\r\t]", " ", text)


STEPS: dict[str, Callable[[str], str]] = {
    "quotes": _plain_quotes,
    "nfkd": functools.partial(unicodedata.normalize, "NFKD"),
    "nfc": functools.partial(unicodedata.normalize, "NFC"),
    "strip_accents": _strip_accents,
    "lowercase": _lowercase,
    "single_spaces": _single_spaces,
}
"""Steps of normalization that come before the model's own map, by name."""


def _composed_sequences() -> Iterable[str]:
    """Yields each accented character twice: decomposed by one step, and completely (NFD)."""
    for character in map(chr, range(0xC0, sys.maxunicode + 1)):
        decomposition = unicodedata.decomposition(character)
        if decomposition and not decomposition.startswith("<"):
            yield "".join(chr(int(code, 16)) for code in decomposition.split())
            yield unicodedata.normalize("NFD", character)


def _assigned_characters() -> Iterable[str]:
    characters = map(chr, range(1, sys.maxunicode + 1))
    return (c for c in characters if unicodedata.category(c) not in ("Cn", "Co", "Cs"))


_SEQUENCES: dict[str, Callable[[], Iterable[str]]] = {
    "quotes": lambda: ("``", "''"),
    "nfc": _composed_sequences,
    "single_spaces": lambda: (a + b for a in _WHITE_SPACE for b in _WHITE_SPACE if a + b != "  "),
}
"""Sequences of characters that a step changes as a whole, not character by character."""


@functools.lru_cache(maxsize=8)
def compose_character_map(steps: tuple[str, ...], data: bytes) -> bytes:
    """Returns a character map that applies `steps` first and then the map `data` of a model.

    Args:
        steps: names of normalization steps, applied in this order.
        data: bytes of the character map of a SentencePiece model.

    Returns:
        The bytes of the new map.

    Raises:
        InputError: if a step is unknown.
    """
    unknown = [step for step in steps if step not in STEPS]
    if unknown:
        raise InputError(
            f"There is no step of normalization {unknown[0]!r}; the steps are {', '.join(STEPS)}."
        )
    if not steps:
        return data
    own = read_character_map(data, _LONGEST_SEQUENCE)
    longest = max(map(len, own), default=0)

    def normalized(text: str) -> str:
        for step in steps:
            text = STEPS[step](text)
        return _replaced(own, longest, text)

    entries = {c: changed for c in _assigned_characters() if (changed := normalized(c)) != c}
    sequences = {key for key in own if len(key) > 1}
    for step in steps:
        sequences.update(_SEQUENCES.get(step, tuple)())
    reach = max(map(len, sequences), default=1)
    for sequence in sorted(sequences, key=lambda text: (len(text), text)):
        changed = normalized(sequence)
        if changed != _replaced(entries, reach, sequence):
            entries[sequence] = changed
    return write_character_map(entries)


_BLOCK = 256  # units in a block; labels are bytes, so a state's children are in one block
_SEARCHED_BLOCKS = 16  # last blocks that are searched; earlier blocks are nearly full
_END = 0  # label of the unit that holds a key's value
_IS_VALUE = 1 << 31
_BASE_SHIFT = 10


def build_double_array(entries: Mapping[bytes, int]) -> np.ndarray:
    """Returns the double array of a trie, uint32 `[units]`.

    tf.text's normalizer reads this layout of Darts-clone (Susumu Yata). Every state of the trie is
    one unit of 32 bits and has a base. The state's child for a byte is the unit at `base ^ byte`,
    so a lookup reads one unit for each byte.

    Args:
        entries: values below 2³¹ by key. Keys have no zero bytes.
    """
    root: dict[int, Any] = {}
    for key, value in entries.items():
        state = root
        for byte in key:
            state = state.setdefault(byte, {})
        state[_END] = value
    units = _Units()
    pending = [(0, 0, root)]
    while pending:
        position, label, state = pending.pop()
        base = units.place(np.fromiter(state, np.int64, len(state)))
        flags = _HAS_VALUE if _END in state else 0
        units.values[position] = ((base ^ position) << _BASE_SHIFT) | flags | label
        for label, child in state.items():
            if label == _END:
                units.values[base] = _IS_VALUE | child
            else:
                pending.append((base ^ label, label, child))
    return units.values


class _Units:
    """Growing array of units that records which units and bases are free."""

    def __init__(self) -> None:
        self.values = np.zeros(_BLOCK, np.uint32)
        self._free = np.ones(_BLOCK, bool)
        self._free_base = np.ones(_BLOCK, bool)
        self._free[0] = False  # the root

    def place(self, labels: np.ndarray) -> int:
        """Reserves and returns a free base whose units for `labels` `[L]` are free."""
        block = max(0, len(self.values) // _BLOCK - _SEARCHED_BLOCKS)
        while True:
            if block * _BLOCK == len(self.values):
                self._grow()
            span = slice(block * _BLOCK, (block + 1) * _BLOCK)
            children = np.arange(_BLOCK)[:, None] ^ labels
            fits = self._free_base[span] & self._free[span][children].all(axis=1)
            if fits.any():
                base = block * _BLOCK + int(fits.argmax())
                self._free[base ^ labels] = False
                self._free_base[base] = False
                return base
            block += 1

    def _grow(self) -> None:
        self.values = np.concatenate([self.values, np.zeros(_BLOCK, np.uint32)])
        self._free = np.concatenate([self._free, np.ones(_BLOCK, bool)])
        self._free_base = np.concatenate([self._free_base, np.ones(_BLOCK, bool)])
