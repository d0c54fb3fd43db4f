"""Files of a byte-pair vocabulary in the form of GPT-2 and RoBERTa, and their alphabet.

In `vocab.json` and `merges.txt`, a printable character stands for each byte. A byte that Latin-1
prints stands for itself. The other bytes (control characters, white space, 0xAD) have the code
points from 256 on, in order. So a space is `Ġ` and a line feed `Ċ` (Radford et al., 2019,
`encoder.py`).
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Sequence

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.text.files import read_lines

TOKENS_NAME = "vocab.json"
MERGES_NAME = "merges.txt"
_FIRST_LINE = "#version: 0.2"

_PRINTED = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = sorted(set(range(256)) - _PRINTED)

BYTE_CODE_POINTS: tuple[int, ...] = tuple(
    byte if byte in _PRINTED else 256 + _OTHERS.index(byte) for byte in range(256)
)
"""Code point for each byte."""

BYTE_CHARACTERS: tuple[str, ...] = tuple(map(chr, BYTE_CODE_POINTS))
"""Character for each byte."""

SPACE = BYTE_CHARACTERS[0x20]
"""Character for a space: Ġ."""

_BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


def read_tokens(path: str | os.PathLike) -> list[str]:
    """Reads a JSON object of tokens to ids; returns the tokens in the order of their ids.

    Raises:
        InputError: if the file is something else, or an id is missing.
    """
    try:
        ids = json.loads("\n".join(read_lines(path)))
        tokens = {operator.index(index): token for token, index in ids.items()}
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} must be a JSON object of tokens and their ids.") from None
    missing = next((index for index in range(len(ids)) if index not in tokens), None)
    if missing is not None:
        raise InputError(f"{path} has {len(ids)} tokens, but none with the id {missing}.")
    return [tokens[index] for index in range(len(ids))]


def write_tokens(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Writes a JSON object of tokens to ids."""
    ids = {token: index for index, token in enumerate(tokens)}
    with replacing(path) as new:
        new.write_text(json.dumps(ids, ensure_ascii=False), "utf-8")


def read_merges(path: str | os.PathLike) -> list[tuple[str, str]]:
    """Reads pairs of tokens, one pair a line, in the order of the merges.

    Raises:
        InputError: if a line does not have two tokens.
    """
    merges = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line or line.startswith("#version"):
            continue
        pair = line.split(" ")
        if len(pair) != 2:
            raise InputError(f"{path}, line {number}: expected two tokens, not {line!r}.")
        merges.append((pair[0], pair[1]))
    return merges


def write_merges(path: str | os.PathLike, merges: Iterable[tuple[str, str]]) -> None:
    """Writes pairs of tokens, one pair a line."""
    with replacing(path) as new:
        lines = [_FIRST_LINE, *(" ".join(pair) for pair in merges)]
        new.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def token_bytes(token: str) -> bytes:
    """Returns the bytes of a token; a token outside the alphabet is plain text."""
    if all(character in _BYTES for character in token):
        return bytes(_BYTES[character] for character in token)
    return token.encode()
