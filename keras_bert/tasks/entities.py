"""Conversion between entities and tags of words.

Ramshaw & Marcus 1995 (https://aclanthology.org/W95-0107), Sang & Veenstra 1999
(https://aclanthology.org/E99-1023). The tag "O" marks a word outside of entities. Every other tag
is a prefix, "-" and the entity's label, for example "B-PER". The scheme defines the prefixes:

- "iob2": B marks the first word of an entity, I marks every later word.
- "iob1": I marks every word of an entity. But if an entity directly follows another entity with the
  same label, B marks its first word.
- "bioes": B, I and E mark the first, inner and last words of an entity. S marks the word of an
  entity of one word.
"""

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from keras_bert.errors import InputError, closest
from keras_bert.metrics.entities import Span

SCHEMES = ("iob1", "iob2", "bioes")
NAMELESS = "_"  # label of entities whose tags are only prefixes ("B", "I"), as in seqeval


def spans_of(tags: Sequence[str], scheme: str | None = None) -> list[Span]:
    """Returns the entities that tags mark.

    Args:
        tags: tag of each word. A tag without a prefix, such as "PER", is read as "I-PER".
        scheme: if given, only entities whose tags follow this scheme are returned. None reads tags
            of any scheme, as CoNLL's script and seqeval do. Then an entity begins at every B and S.
            An entity also begins at I and E, unless the tag before is B or I with the same label.

    Raises:
        InputError: if the scheme is unknown.

    Example:
        >>> spans_of(["B-PER", "I-PER", "O", "B-LOC"])
        [('PER', 0, 2), ('LOC', 3, 4)]
    """
    spans = list[Span]()
    goes_on: str | None = None  # label of an entity that may continue
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
    """Rewrites tags in a scheme, for the same entities. Tags that break their scheme are corrected.

    Args:
        tags: tags of any scheme.
        scheme: "iob1", "iob2" or "bioes"; None leaves the tags as they are.

    Raises:
        InputError: if the scheme is unknown.
    """
    if scheme is None:
        return list(tags)
    return write_spans(spans_of(tags), len(tags), scheme)


def write_spans(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Returns the tags of `length` words. The spans must be sorted and must not overlap.

    Raises:
        InputError: if the scheme is unknown.
    """
    _check_scheme(scheme)
    tags = ["O"] * length
    before = ("", 0)  # label and end of the previous entity
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
    """Returns the tag for a prefix and an entity's label."""
    return prefix if label == NAMELESS else f"{prefix}-{label}"


def detect_scheme(sequences: Iterable[Sequence[str]]) -> str | None:
    """Returns the scheme of many texts' tags, or None if the tags do not mark entities.

    The scheme is "bioes" if a tag begins with E or S, "iob2" if every entity begins with B, and
    else "iob1".
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
    """Returns for each pair of tags whether the second tag may follow the first in a scheme.

    Args:
        labels: L tags.
        scheme: "iob1", "iob2", "bioes" or None. With "iob1" or None, every tag may follow every
            tag.

    Returns:
        Bool `[L + 1, L + 1]`: whether the column's tag may follow the row's tag. The last row is
        the start of the text, the last column the end of the text.

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
    """Returns a tag's prefix and label. The tag "O" has the prefix "O" and the label ""."""
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
