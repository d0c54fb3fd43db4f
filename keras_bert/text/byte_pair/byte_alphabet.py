"""Bytes as printable characters, as GPT-2 writes them in `vocab.json` and `merges.txt`.

A byte that Latin-1 prints stands for itself; the others (control characters, white space, 0xAD)
take the code points from 256 on, in order. So a space is `Ġ` and a line feed `Ċ` (Radford et al.,
2019, `encoder.py`).
"""

from __future__ import annotations

_PRINTED = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = sorted(set(range(256)) - _PRINTED)

CODE_POINTS: tuple[int, ...] = tuple(
    byte if byte in _PRINTED else 256 + _OTHERS.index(byte) for byte in range(256)
)
"""The code point that stands for each byte."""

CHARACTERS: tuple[str, ...] = tuple(map(chr, CODE_POINTS))
"""The character that stands for each byte."""

SPACE = CHARACTERS[0x20]

_BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}


def to_characters(data: bytes) -> str:
    """Bytes in this alphabet."""
    return "".join(CHARACTERS[byte] for byte in data)


def to_bytes(text: str) -> bytes:
    """The bytes that a text in this alphabet stands for.

    Raises:
        KeyError: if a character is not of this alphabet.
    """
    return bytes(_BYTES[character] for character in text)


def is_written_in(text: str) -> bool:
    """Whether a text has only characters of this alphabet."""
    return all(character in _BYTES for character in text)
