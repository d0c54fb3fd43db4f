"""Tagged texts, which readers convert to examples."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import TaggedExamples
from keras_bert.tasks.entities import Span, write_spans

Word = tuple[int, int]  # first character, and the one after the last


class Sentence(NamedTuple):
    """Text with its words, their tags if they are known, and the number of its document."""

    line: int
    text: str
    words: tuple[Word, ...]
    tags: tuple[str, ...] | None
    document: int = 0


def spaced(words: Sequence[str]) -> tuple[str, tuple[Word, ...]]:
    """Joins words with spaces; returns the text and the places of the words in it."""
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def tags_of_entities(
    words: Sequence[Word], entities: Iterable[tuple[int, int, str]], text: str, place: str
) -> tuple[str, ...]:
    """Returns IOB2 tags of words, from entities by their characters.

    Args:
        words: words of the text, in order.
        entities: first character, the one after the last, and label.
        text: the text, for messages.
        place: file and line, for messages.

    Raises:
        InputError: if an entity begins or ends inside a word, or two share a word.
    """
    first_words = {start: index for index, (start, _) in enumerate(words)}
    last_words = {end: index for index, (_, end) in enumerate(words)}
    spans: list[Span] = []
    for start, end, label in sorted(entities):
        entity = f"the entity {text[start:end]!r} ({label}, characters {start} to {end})"
        first, last = first_words.get(start), last_words.get(end)
        if first is None or last is None:
            raise InputError(f"{place}: {entity} does not begin and end where words do.")
        if spans and first < spans[-1][2]:
            raise InputError(f"{place}: {entity} overlaps another one; keep one of them.")
        spans.append((label, first, last + 1))
    return tuple(write_spans(spans, len(words), "iob2"))


def tagged_examples(
    path: str | os.PathLike,
    sentences: Sequence[Sentence],
    scheme: str | None = None,
    unit: str = "line",
) -> TaggedExamples:
    """Makes examples from sentences. They have tags if every sentence has.

    Args:
        path: the file, for messages.
        sentences: at least one.
        scheme: "iob1", "iob2" or "bioes" converts the tags; None leaves them as they are.
        unit: unit of the sentences' lines.
    """
    lines, texts, words, tags, documents = zip(*sentences, strict=True)
    return TaggedExamples(
        path=str(path),
        lines=lines,
        unit=unit,
        groups=documents if len(set(documents)) > 1 else None,
        texts=texts,
        words=words,
        tags=None if None in tags else tags,
    ).in_scheme(scheme)
