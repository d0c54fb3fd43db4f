"""Readers of words with tags, from CoNLL files, JSON lines and other tables."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import TaggedExamples
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.finetuning.readers.tables import Row, format_of, read_table
from keras_bert.metrics.entities import Span
from keras_bert.tasks.entities import write_spans
from keras_bert.text.files import read_lines
from keras_bert.text.words import spaced, split_words

_WORDS = ("tokens", "words")
_TAGS = ("tags", "ner_tags", "pos_tags", "labels")
_TABLES = ("jsonl", "parquet", "table")
_ENTITY = ("start", "end", "label")
_DOCUMENT = "-DOCSTART-"
_NO_WORD = re.compile(r"\d+[-.]\d+\t")  # CoNLL-U: a contraction before its words, or an empty node

Word = tuple[int, int]  # positions of the word's first character and of the character after it


class Sentence(NamedTuple):
    """Text with its words, their tags if they are known, and the number of its document."""

    line: int
    text: str
    words: tuple[Word, ...]
    tags: tuple[str, ...] | None
    document: int = 0


class _Block(NamedTuple):
    """Lines of a sentence with their numbers, and the number of its document."""

    lines: list[tuple[int, str]]
    document: int


def read_tagged(
    path: Any,
    *,
    format: str | None = None,
    scheme: str | None = None,
    labeled: bool = True,
    on_error: OnError = "fail",
    **columns: Any,
) -> TaggedExamples:
    """Reads tagged words from a CoNLL file (see `read_conll`), JSON lines or another table.

    A JSON line, or a row of another table, has one of these forms:

    - `{"tokens": [...], "tags": [...]}`
    - `{"text": "...", "entities": [{"start": 0, "end": 5, "label": "PER"}, ...]}`, with positions
      of characters. An entity may also be a list `[0, 5, "PER"]`. Entities are converted to IOB2
      tags of the words.

    Args:
        path: the file, or a table in memory; see `rows_of_table`.
        format: "conll", "jsonl" or "parquet". The default is "jsonl" if the file's name ends in
            ".jsonl" or ".ndjson", "parquet" if it ends in ".parquet", and otherwise "conll".
        scheme: "iob1", "iob2" or "bioes" converts the tags. By default, they stay as they are.
        labeled: whether tags are needed. If not, they are read only if all sentences have them.
        on_error: "fail" raises an error at the first sentence that cannot be used. "skip" leaves
            such sentences out and logs their number. A sentence cannot be used if a word has no
            tag, or if an entity begins or ends inside a word.
        **columns: `word_column`, `tag_column` and `comment` of a CoNLL file.

    Raises:
        InputError: if the file cannot be read, or a sentence cannot be used; the message names
            the file and the line.
    """
    known = format_of(path)
    format = format or (known if known in _TABLES else "conll")
    if format == "conll":
        return read_conll(path, scheme=scheme, labeled=labeled, on_error=on_error, **columns)
    if format not in _TABLES:
        raise InputError(
            f"There is no format {format!r} of tagged words: give conll, jsonl or parquet."
        )
    table = read_table(path, format=format, on_error=on_error)
    if columns:
        raise InputError(
            f"{table.path}: {', '.join(columns)} are for CoNLL files only; leave them out."
        )

    def read(row: Row) -> Sentence:
        return _sentence(table.place(row.line), row, labeled)

    sentences = read_each(read, table.rows, table.path, on_error)
    return tagged_examples(table.path, sentences, scheme, table.unit)


def read_conll(
    path: str | os.PathLike,
    *,
    word_column: int = 0,
    tag_column: int = -1,
    comment: str | None = None,
    scheme: str | None = None,
    labeled: bool = True,
    on_error: OnError = "fail",
) -> TaggedExamples:
    """Reads sentences of tagged words.

    If the first line has a tab, tabs separate the columns, else spaces. A line that begins with
    -DOCSTART- begins a document. If there are several documents, their numbers are the `groups` of
    the examples. In CoNLL-U files, the first column numbers the words. Lines that begin with a
    range such as 1-2 or an empty node such as 1.1 are left out, because they are not words.

    Args:
        path: the file.
        word_column: index of the column of the words. A negative index counts from the last
            column.
        tag_column: index of the column of the tags.
        comment: beginning of comment lines, such as "# " in CoNLL-U files. Comment lines are left
            out if they stand before the first word of a sentence.
        scheme: "iob1", "iob2" or "bioes" converts the tags. By default, they stay as they are.
        labeled: whether tags are needed. With False, tags are read only if the file has a second
            column and every word has a tag.
        on_error: "fail" raises an error at the first sentence that cannot be used. "skip" leaves
            such sentences out and logs their number. A sentence cannot be used if a word or a tag
            is missing, or a line has another number of columns than the first line.

    Raises:
        InputError: if the file cannot be read or has no such columns or, with on_error="fail", if
            a sentence cannot be used. The message names the file and the line.
    """
    blocks = list(_blocks(path, comment))
    if not blocks:
        raise InputError(f"{path} has no sentences: expected a word and its tag in each line.")
    first_line, first = blocks[0].lines[0]
    separator = "\t" if "\t" in first else " "
    count = len(_cells(first, separator))
    tag_column = tag_column if labeled or count > 1 else word_column
    for column in (word_column, tag_column):
        if not -count <= column < count:
            raise InputError(f"{path} has no column {column}: line {first_line} has {count}.")
    tagged = word_column % count != tag_column % count
    if labeled and not tagged:
        raise InputError(
            f"{path}, line {first_line}: the word has no tag; expected both in each line, with "
            "a tab or a space between."
        )

    def read(block: _Block) -> Sentence:
        words, tags = [], []
        for line, text in block.lines:
            if word_column % count and _NO_WORD.match(text):
                continue
            cells = _cells(text, separator)
            if len(cells) != count:
                raise InputError(
                    f"{path}, line {line}: {len(cells)} columns, but line {first_line} has "
                    f"{count}; give every word its tag, and no other columns."
                )
            for column, name in ((word_column, "word"), (tag_column, "tag")):
                if not cells[column] and (labeled or name == "word"):
                    raise InputError(f"{path}, line {line}: the {name} is missing in {text!r}.")
            words.append(cells[word_column])
            tags.append(cells[tag_column])
        known = tuple(tags) if tagged and all(tags) else None
        return Sentence(block.lines[0][0], *spaced(words), known, block.document)

    return tagged_examples(path, read_each(read, blocks, path, on_error), scheme)


def tags_of_entities(
    words: Sequence[Word], entities: Iterable[tuple[int, int, str]], text: str, place: str
) -> tuple[str, ...]:
    """Returns IOB2 tags of words, from entities by their characters.

    Args:
        words: words of the text, in order.
        entities: for each entity, the position of its first character, the position after its last
            character, and its label.
        text: the text, for messages.
        place: file and line, for messages.

    Raises:
        InputError: if an entity begins or ends inside a word, or two entities share a word.
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
    """Makes examples from sentences. The examples have tags if every sentence has tags.

    Args:
        path: the file, for messages.
        sentences: one or more sentences.
        scheme: "iob1", "iob2" or "bioes" converts the tags. By default, they stay as they are.
        unit: unit of `Sentence.line` in messages, such as "line" or "train utterance".
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


def _blocks(path: str | os.PathLike, comment: str | None) -> Iterator[_Block]:
    document = 0
    lines: list[tuple[int, str]] = []
    for line, text in enumerate(read_lines(path), start=1):
        begins = text.startswith(_DOCUMENT)
        if begins or not text.strip():
            if lines:
                yield _Block(lines, document)
            document, lines = document + begins, []
        elif lines or comment is None or not text.startswith(comment):
            lines.append((line, text))
    if lines:
        yield _Block(lines, document)


def _cells(text: str, separator: str) -> list[str]:
    cells = [cell.strip(" ") for cell in text.split(separator)]
    return cells if separator == "\t" else [cell for cell in cells if cell]


def _sentence(place: str, row: Row, labeled: bool) -> Sentence:
    tokens = _first(row, _WORDS)
    if tokens is None:
        text, words, tags = _of_entities(row, place)
    else:
        text, words = spaced(_strings(tokens, "words", place))
        tags = _first(row, _TAGS)
        tags = None if tags is None else _strings(tags, "tags", place)
    if tags is None and labeled:
        raise InputError(f'{place}: the tags are missing; add "tags" or "entities".')
    if tags is not None and len(tags) != len(words):
        raise InputError(f"{place}: {len(tags)} tags for {len(words)} words; expected one each.")
    return Sentence(row.line, text, words, tags)


def _of_entities(row: Row, place: str) -> tuple[str, tuple[Word, ...], tuple[str, ...] | None]:
    text, entities = row.values.get("text"), row.values.get("entities")
    if not isinstance(text, str):
        raise InputError(f'{place}: expected "tokens", a list of words, or "text".')
    words = tuple(split_words(text))
    if entities is None:
        return text, words, None
    if not isinstance(entities, list):
        raise InputError(f'{place}: "entities" is {entities!r}, but must be a list.')
    spans = [_entity(entity, text, place) for entity in entities]
    return text, words, tags_of_entities(words, spans, text, place)


def _entity(entity: Any, text: str, place: str) -> tuple[int, int, str]:
    values = [entity.get(name) for name in _ENTITY] if isinstance(entity, dict) else entity
    match values:
        case [int() as start, int() as end, str() as label] if 0 <= start < end <= len(text):
            if isinstance(entity, dict) and entity.get("text", text[start:end]) != text[start:end]:
                raise InputError(
                    f"{place}: the entity {entity['text']!r} is not at its place; characters "
                    f"{start} to {end} are {text[start:end]!r}."
                )
            return start, end, label
    raise InputError(
        f'{place}: expected an entity with "start", "end" and "label", inside the text of '
        f"{len(text)} characters, but it is {entity!r}."
    )


def _strings(values: Any, name: str, place: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(v, str) and v.strip() for v in values):
        raise InputError(f"{place}: the {name} are {values!r}, but must be a list of strings.")
    return tuple(values)


def _first(row: Row, names: tuple[str, ...]) -> Any:
    return next((row.values[name] for name in names if row.values.get(name) is not None), None)
