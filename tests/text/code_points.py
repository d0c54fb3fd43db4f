"""The characters that the shipped tables know, for tests that go through all of them."""

import json
import unicodedata
from pathlib import Path

from keras_bert.text.wordpiece.normalization import UNICODE_VERSION

_RANGES = Path(__file__).parent.parent / "fixtures/text/assigned-14.0.json"
# Between Unicode 14.0 and 18.0 one assigned character changed in a way that matters here: it is no
# longer a non-spacing mark.
_CHANGED = "" if unicodedata.unidata_version == UNICODE_VERSION else "\U0001171e"


def assigned_characters():
    """All characters of Unicode 14.0 without surrogates and the private planes 15 and 16."""
    ranges = json.loads(_RANGES.read_text())
    code_points = (c for first, last in ranges for c in range(first, min(last, 0xEFFFF) + 1))
    return [chr(c) for c in code_points if chr(c) not in _CHANGED]
