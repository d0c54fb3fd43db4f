"""Removal of lone surrogates, which Python's strings can hold but UTF-8 cannot encode."""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """Returns the text with U+FFFD in place of each lone surrogate."""
    return _SURROGATE.sub("\ufffd", text)
