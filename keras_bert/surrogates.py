"""Lone surrogates, which Python's strings can hold and no encoding can express."""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """Returns the text with U+FFFD in place of each lone surrogate."""
    return _SURROGATE.sub("\ufffd", text)
