"""Lone surrogates: what Python's strings can hold, and no encoding can express."""

import re

SURROGATE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """The text with U+FFFD in place of each."""
    return SURROGATE.sub("\ufffd", text)
