"""BERT's `BasicTokenizer`: normalization by a table of code points, and the words of the result.

The rules of normalization are those of `tokenization.py` (Devlin et al., 2019): drop control
characters, turn white space into spaces and, for uncased models, lower the case and strip accents.
Each rule looks at one code point, so they fit the table (code point to string) that the operation
behind `tensorflow_text.FastBertNormalizer` reads, in the graph and in TFLite. tf.text's own table
follows other rules, close to NFKC.

The tables are shipped in `tables/`, so that every Python normalizes alike.
`python -m keras_bert.text.wordpiece.normalization` writes them anew, from the Unicode version of
the running Python.
"""

from __future__ import annotations

import functools
import gzip
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import flatbuffers
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.character_map import build_double_array
from keras_bert.text.characters import WHITE_SPACE

UNICODE_VERSION = "14.0.0"
"""The Unicode version of the shipped tables (that of Python 3.11)."""

_TABLES = Path(__file__).parent / "tables"
_WHITE_SPACE = "\t\n\r"
_REMOVED = "\0\ufffd"
_PUNCTUATION = r"\p{P}$+<=>^`|~"  # BERT counts all of ASCII's symbols as punctuation
CJK = (  # the CJK Unified Ideographs and compatibility blocks that tokenization.py lists
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
"""Ideographs that are words by themselves, inside the brackets of a regular expression."""


def normalize_character(character: str, *, lowercase: bool, strip_accents: bool) -> str:
    """Normalizes a character to a space, nothing, itself, or lower case without accents."""
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
    """The table as a flatbuffer (`fast_bert_normalizer_model.fbs` of tf.text)."""
    pool = _StringPool()
    rule = functools.partial(normalize_character, lowercase=lowercase, strip_accents=strip_accents)
    mapping = _changed_characters(rule)
    mapping_of_zero = pool.reference(mapping.pop("\0"))
    entries = {key.encode(): pool.reference(value) for key, value in mapping.items()}
    return _flatbuffer(lowercase, build_double_array(entries).tobytes(), mapping_of_zero, pool)


@functools.cache
def load_table(*, lowercase: bool, strip_accents: bool) -> bytes:
    """The shipped table, as `build_table` made it."""
    return gzip.decompress(_table_path(lowercase, strip_accents).read_bytes())


def load_normalizer(*, lowercase: bool, strip_accents: bool) -> tf_text.FastBertNormalizer:
    """The operation that normalizes strings, with the shipped table."""
    table = load_table(lowercase=lowercase, strip_accents=strip_accents)
    return tf_text.FastBertNormalizer(model_buffer=tf.constant(np.frombuffer(table, np.uint8)))


def split_words(
    texts: tf.Tensor, *, split_cjk: bool = True
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Words of normalized texts `[N]`, with their first byte and the byte after their last.

    Returns:
        Words, starts and ends, `[N, (words)]`: string, int64, int64.
    """
    single = f"[{_PUNCTUATION}{CJK if split_cjk else ''}]"
    return tf_text.regex_split_with_offsets(
        texts, delim_regex_pattern=f"[{WHITE_SPACE}]+|{single}", keep_delim_regex_pattern=single
    )


def _changed_characters(rule: Callable[[str], str]) -> dict[str, str]:
    characters = (chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF)
    return {c: changed for c in characters if (changed := rule(c)) != c}


class _StringPool:
    """Strings stored once, one after the other; a reference is a flag, an offset and a length."""

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


def _table_path(lowercase: bool, strip_accents: bool) -> Path:
    case = "lowercase" if lowercase else "cased"
    accents = "no-accents" if strip_accents else "accents"
    return _TABLES / f"{case}-{accents}.bin.gz"


def _write_tables() -> None:
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"This Python has Unicode {unicodedata.unidata_version}, not {UNICODE_VERSION}.")
    _TABLES.mkdir(exist_ok=True)
    for lowercase in (False, True):
        for strip_accents in (False, True):
            table = build_table(lowercase=lowercase, strip_accents=strip_accents)
            packed = gzip.compress(table, mtime=0)
            _table_path(lowercase, strip_accents).write_bytes(packed)


if __name__ == "__main__":
    _write_tables()
