r"""Letters, numbers, white space: the character classes of GPT-2's pattern, as a table.

Regular expression engines know different versions of Unicode: `\p{L}` of RE2, which TensorFlow has,
is not that of Hugging Face's `tokenizers`. The shipped table is what `tokenizers` does with each
code point; `python -m keras_bert.text.byte_pair.character_kinds` asks it and writes the table anew.
"""

from __future__ import annotations

import enum
import functools
import gzip
import itertools
import json
import sys
from pathlib import Path

import numpy as np

UNICODE_VERSION = "16.0"
"""The Unicode version of the shipped table."""

_TABLE = Path(__file__).parent / "tables/character-kinds.json.gz"


class Kind(enum.IntEnum):
    """What a character is to GPT-2's pattern."""

    OTHER = 0
    LETTER = 1
    NUMBER = 2
    WHITE = 3  # white space that is not the next one
    SPACE = 4  # U+0020
    NONE = 5  # no character: the end of a text


@functools.cache
def kind_ranges() -> tuple[np.ndarray, np.ndarray]:
    """Ranges of code points of one kind: first code points int32 `[R]`, sorted; kinds int32 `[R]`.

    A range ends where the next begins; the first begins at 0.
    """
    ranges = json.loads(gzip.decompress(_TABLE.read_bytes()))
    first, kinds = np.array(ranges, np.int32).T
    return first, kinds


def kinds_of(code_points: np.ndarray) -> np.ndarray:
    """Kinds int32, shaped as the code points."""
    first, kinds = kind_ranges()
    return kinds[np.searchsorted(first, code_points, side="right") - 1]


def _write_table() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    words = ByteLevel(add_prefix_space=False)

    def kind(code_point: int) -> Kind:
        if 0xD800 <= code_point <= 0xDFFF:
            return Kind.OTHER
        if code_point == 0x20:
            return Kind.SPACE
        examples = {Kind.LETTER: "a", Kind.NUMBER: "1", Kind.OTHER: "."}
        joined = (
            kind
            for kind, example in examples.items()
            if len(words.pre_tokenize_str(example + chr(code_point))) == 1
        )
        return next(joined, Kind.WHITE)

    groups = itertools.groupby(range(sys.maxunicode + 1), kind)
    ranges = [[next(code_points), int(kind)] for kind, code_points in groups]
    _TABLE.write_bytes(gzip.compress(json.dumps(ranges).encode(), mtime=0))


if __name__ == "__main__":
    _write_table()
