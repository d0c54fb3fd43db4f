"""A trie of byte strings as a double array, in the layout of Darts-clone.

Every state of the trie is one unit of 32 bits. A state's children stand at `base ^ label`, so a
lookup is one read per byte. Darts-clone (Susumu Yata) is what tf.text's normaliser reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_BLOCK = 256  # labels are bytes, so a state's children all stand in one block of this many units
_SEARCHED_BLOCKS = 16  # earlier ones are nearly full
_END = 0  # the label of the unit that holds a key's value
_HAS_VALUE = 1 << 8
_IS_VALUE = 1 << 31
_BASE_SHIFT = 10


def build_double_array(entries: Mapping[bytes, int]) -> np.ndarray:
    """Units `[U]` uint32 of the trie that maps each key (no zero byte in it) to its value < 2³¹."""
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
        units.write(position, ((base ^ position) << _BASE_SHIFT) | flags | label)
        for label, child in state.items():
            if label == _END:
                units.write(base, _IS_VALUE | child)
            else:
                pending.append((base ^ label, label, child))
    return units.array()


class _Units:
    """The growing array, with a note of which units and which bases are taken."""

    def __init__(self) -> None:
        self._values = np.zeros(_BLOCK, np.uint32)
        self._free = np.ones(_BLOCK, bool)
        self._free_base = np.ones(_BLOCK, bool)
        self._free[0] = False  # the root

    def write(self, position: int, value: int) -> None:
        self._values[position] = value

    def place(self, labels: np.ndarray) -> int:
        """A base, used by no other state, whose units for `labels` `[L]` are free; takes them."""
        block = max(0, len(self._values) // _BLOCK - _SEARCHED_BLOCKS)
        while True:
            if block * _BLOCK == len(self._values):
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
        self._values = np.concatenate([self._values, np.zeros(_BLOCK, np.uint32)])
        self._free = np.concatenate([self._free, np.ones(_BLOCK, bool)])
        self._free_base = np.concatenate([self._free_base, np.ones(_BLOCK, bool)])

    def array(self) -> np.ndarray:
        return self._values
