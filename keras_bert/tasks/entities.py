"""Entities as tags of words, and back.

Ramshaw & Marcus 1995 (https://aclanthology.org/W95-0107), Sang & Veenstra 1999
(https://aclanthology.org/E99-1023). A tag is "O", outside of entities, or a prefix, "-" and the
entity's label:

- "iob2": B begins an entity, I continues it.
- "iob1": I is for all words of an entity; B only begins one right after another of its label.
- "bioes": B, I and E for the first, inner and last words, S for the only word.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from keras_bert.errors import InputError, closest

SCHEMES = ("iob1", "iob2", "bioes")
NAMELESS = "_"  # label of entities whose tags are prefixes alone, as seqeval calls it

Span: TypeAlias = tuple[str, int, int]
"""An entity's label, its first word, and the word after its last."""


def spans_of(tags: Sequence[str], scheme: str | None = None) -> list[Span]:
    """The entities that tags mark.

    Args:
        tags: one for each word. What has no prefix, such as "PER", is read as "I-PER".
        scheme: None reads what can be read, whatever the scheme, as CoNLL's script and seqeval
            do: an entity begins at B, at S, and at I or E where nothing of its label goes on. By
            a scheme, only entities count that are written as the scheme demands.

    Raises:
        InputError: if the scheme is unknown.
    """
    spans = list[Span]()
    goes_on: str | None = None  # the label that the word before leaves open
    for word, tag in enumerate(tags):
        prefix, label = _parts(tag)
        if prefix != "O":
            if prefix in "IE" and label == goes_on:
                spans[-1] = (label, spans[-1][1], word + 1)
            else:
                spans.append((label, word, word + 1))
        goes_on = label if prefix in "BI" else None
    if scheme is None:
        return spans
    right = to_scheme(tags, scheme)
    return [span for span in spans if list(tags[span[1] : span[2]]) == right[span[1] : span[2]]]


def to_scheme(tags: Sequence[str], scheme: str | None) -> list[str]:
    """The same entities as tags of a scheme; tags that break their own scheme are mended.

    Args:
        tags: of any scheme.
        scheme: "iob1", "iob2" or "bioes"; None leaves the tags as they are.

    Raises:
        InputError: if the scheme is unknown.
    """
    if scheme is None:
        return list(tags)
    return write_spans(spans_of(tags), len(tags), scheme)


def write_spans(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Tags of `length` words; the entities do not overlap and are in order.

    Raises:
        InputError: if the scheme is unknown.
    """
    _check_scheme(scheme)
    tags = ["O"] * length
    before = ("", 0)  # label and end of the last entity
    for label, first, end in spans:
        prefixes = ["I"] * (end - first)
        if scheme != "iob1" or before == (label, first):
            prefixes[0] = "B"
        if scheme == "bioes":
            prefixes[-1] = "E" if end - first > 1 else "S"
        tags[first:end] = [tag_of(prefix, label) for prefix in prefixes]
        before = (label, end)
    return tags


def tag_of(prefix: str, label: str) -> str:
    """The tag of a word of an entity."""
    return prefix if label == NAMELESS else f"{prefix}-{label}"


def detect_scheme(sequences: Iterable[Sequence[str]]) -> str | None:
    """The scheme of the tags of many texts, or None if they are no tags of entities.

    "bioes" if there is any E or S, "iob2" if every entity begins with B, else "iob1", of which
    tags without any B are a case.
    """
    sequences = list(sequences)
    tags = {tag for sequence in sequences for tag in sequence}
    if not all(_is_tag(tag) for tag in tags):
        return None
    if any(tag[0] in "ES" for tag in tags):
        return "bioes"
    begins = (sequence[first] for sequence in sequences for _, first, _ in spans_of(sequence))
    return "iob2" if all(tag[0] == "B" for tag in begins) else "iob1"


def allowed_transitions(labels: Sequence[str], scheme: str | None) -> np.ndarray:
    """Which tag may follow which.

    Args:
        labels: the L tags.
        scheme: "iob2" or "bioes". In "iob1" any tag may follow any, for all can be read, and so
            it is with None.

    Returns:
        Bool `[L + 1, L + 1]`: may the column's tag follow the row's? The last row is the start of
        the text, the last column its end.

    Raises:
        InputError: if the scheme is unknown.
    """
    if scheme is not None:
        _check_scheme(scheme)
    parts = [*map(_parts, labels), ("O", "")]
    allowed = np.ones((len(parts), len(parts)), bool)
    if scheme not in ("iob2", "bioes"):
        return allowed
    for row, (before, before_label) in enumerate(parts):
        for column, (prefix, label) in enumerate(parts):
            continues, is_open = prefix in "IE", before in "BI"
            must_continue = scheme == "bioes" and is_open
            allowed[row, column] = (
                is_open and label == before_label if continues else not must_continue
            )
    return allowed


@functools.lru_cache(maxsize=4096)
def _parts(tag: str) -> tuple[str, str]:
    """Prefix and label; those of "O" are "O" and ""."""
    if tag == "O":
        return "O", ""
    return (tag[0], tag[2:] or NAMELESS) if _is_tag(tag) else ("I", tag)


def _is_tag(tag: str) -> bool:
    return tag == "O" or (tag[:1] in tuple("BIES") and tag[1:2] in ("", "-"))


def _check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise InputError(
            f"There is no scheme {scheme!r}.{closest(scheme, SCHEMES)} "
            f"Choose one of {', '.join(SCHEMES)}."
        )
