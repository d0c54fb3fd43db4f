"""Tables of BERT's normalization. `python -m keras_bert.text.wordpiece.normalization` writes them.

The rules are the same as in `tokenization.py` (Devlin et al., 2019): drop control characters,
convert white space to spaces and, for uncased models, lowercase and strip accents. Each rule looks
at one code point. So the rules can be written as a table with a string for each code point.
`tensorflow_text.FastBertNormalizer` reads such a table, in the graph and in TFLite. tf.text's own
table follows other rules, close to NFKC.

The tables are shipped in `tables/`, so the normalization does not depend on the Python version.
Only a Python with the right Unicode version can write them.
"""

import functools
import gzip
import sys
import unicodedata
from collections.abc import Callable

import flatbuffers
import numpy as np

from keras_bert.text.character_map import build_double_array
from keras_bert.text.wordpiece.tokenizer import table_path

UNICODE_VERSION = "14.0.0"
"""Unicode version of the shipped tables, which is the version of Python 3.11."""

_WHITE_SPACE = "\t\n\r"
_REMOVED = "\0\ufffd"


def normalize_character(character: str, *, lowercase: bool, strip_accents: bool) -> str:
    """Returns the normalized form of a character.

    White space becomes a space, and control characters become "". Other characters are lowercased
    and lose their accents, if the options say so.
    """
    category = unicodedata.category(character)
    if character in _WHITE_SPACE or category == "Zs":
        return " "
    if character in _REMOVED or category in ("Cc", "Cf"):
        return ""
    if lowercase:
        character = character.lower()
    if strip_accents:
        decomposed = unicodedata.normalize("NFD", character)
        character = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    return character


def build_table(*, lowercase: bool, strip_accents: bool) -> bytes:
    """Returns the table as a flatbuffer, `fast_bert_normalizer_model.fbs` of tf.text."""
    pool = _StringPool()
    rule = functools.partial(normalize_character, lowercase=lowercase, strip_accents=strip_accents)
    mapping = _changed_characters(rule)
    mapping_of_zero = pool.reference(mapping.pop("\0"))
    entries = {key.encode(): pool.reference(value) for key, value in mapping.items()}
    return _flatbuffer(lowercase, build_double_array(entries).tobytes(), mapping_of_zero, pool)


def _changed_characters(rule: Callable[[str], str]) -> dict[str, str]:
    characters = (chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF)
    return {c: changed for c in characters if (changed := rule(c)) != c}


class _StringPool:
    """Distinct strings, one after the other. A reference is a flag, an offset and a length."""

    _CHANGED = 1 << 30
    _LENGTH_BITS = 6

    def __init__(self) -> None:
        self.data = bytearray()
        self._references: dict[str, int] = {}

    def reference(self, string: str) -> int:
        if string not in self._references:
            encoded = string.encode()
            offset = len(self.data) << self._LENGTH_BITS
            self._references[string] = self._CHANGED | offset | len(encoded)
            self.data += encoded
        return self._references[string]


def _flatbuffer(lowercase: bool, trie: bytes, mapping_of_zero: int, pool: _StringPool) -> bytes:
    builder = flatbuffers.Builder(len(trie) + len(pool.data) + 1024)
    trie_vector = builder.CreateNumpyVector(np.frombuffer(trie, np.uint32))
    pool_vector = builder.CreateNumpyVector(np.frombuffer(pool.data, np.uint8))
    builder.StartObject(4)
    builder.PrependBoolSlot(0, lowercase, False)
    builder.PrependUOffsetTRelativeSlot(1, trie_vector, 0)
    builder.PrependInt32Slot(2, mapping_of_zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_vector, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def _write_tables() -> None:
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"This Python has Unicode {unicodedata.unidata_version}, not {UNICODE_VERSION}.")
    for lowercase in (False, True):
        for strip_accents in (False, True):
            table = build_table(lowercase=lowercase, strip_accents=strip_accents)
            packed = gzip.compress(table, mtime=0)
            table_path(lowercase, strip_accents).write_bytes(packed)


if __name__ == "__main__":
    _write_tables()
