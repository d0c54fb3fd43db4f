import itertools
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text.character_map import build_double_array
from keras_bert.text.wordpiece.normalization import (
    UNICODE_VERSION,
    build_table,
    normalize_character,
)
from keras_bert.text.wordpiece.tokenizer import load_normalizer, load_table
from tests.text.code_points import assigned_characters

VARIANTS = list(itertools.product((False, True), repeat=2))


def look_up(units, key):
    """Reads a Darts-clone double array as its authors describe."""
    position = int(units[0] >> 10)
    unit = 0
    for byte in key:
        position ^= byte
        unit = int(units[position])
        if unit & 0x800000FF != byte:
            return None
        position ^= unit >> 10
    return int(units[position]) & 0x7FFFFFFF if unit & 256 else None


def test_double_array_finds_its_keys_and_no_others():
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 5, 3000)
    keys = {bytes(generator.integers(1, 256, size, np.uint8)) for size in sizes}
    entries = {key: index for index, key in enumerate(sorted(keys))}
    units = build_double_array(entries)
    assert all(look_up(units, key) == value for key, value in entries.items())
    for key in keys:
        for other in (key[:-1], key + b"\x01", bytes([key[0] ^ 1]) + key[1:]):
            if 0 not in other and other and other not in entries:
                assert look_up(units, other) is None


@pytest.mark.skipif(
    unicodedata.unidata_version != UNICODE_VERSION, reason=f"needs Unicode {UNICODE_VERSION}"
)
def test_shipped_tables_are_what_the_builder_builds():
    options = {"lowercase": True, "strip_accents": True}
    assert build_table(**options) == load_table(**options)
    options = {"lowercase": False, "strip_accents": False}
    assert build_table(**options) == load_table(**options)


@pytest.mark.parametrize(("lowercase", "strip_accents"), VARIANTS)
def test_operation_follows_the_rule_on_every_character(lowercase, strip_accents):
    options = {"lowercase": lowercase, "strip_accents": strip_accents}
    characters = assigned_characters()
    normalized = load_normalizer(**options).normalize(tf.constant([f"x{c}y" for c in characters]))
    expected = [f"x{normalize_character(c, **options)}y".encode() for c in characters]
    assert normalized.numpy().tolist() == expected


@pytest.mark.parametrize(
    ("text", "uncased", "cased"),
    [
        ("Ä\u0308É", "ae", "Ä\u0308É"),
        ("ß ﬁ ½ ™ Ａ", "ß ﬁ ½ ™ ａ", "ß ﬁ ½ ™ Ａ"),  # not the compatibility forms of tf.text
        ("a\0b\x01\u200bc\ufffdd\x7f", "abcd", "abcd"),
        ("a\tb\nc\u00a0d\u3000e", "a b c d e", "a b c d e"),
        ("İΣ가", "iσ\u1100\u1161", "İΣ가"),
    ],
)
def test_examples(text, uncased, cased):
    for expected, option in ((uncased, True), (cased, False)):
        normalizer = load_normalizer(lowercase=option, strip_accents=option)
        assert normalizer.normalize([text]).numpy()[0].decode() == expected
