"""Reader of words with tags, from CoNLL files or JSON lines."""

import os
from typing import Any

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import TaggedExamples
from keras_bert.finetuning.readers.conll import read_conll
from keras_bert.finetuning.readers.on_error import OnError, read_each
from keras_bert.finetuning.readers.sentences import (
    Sentence,
    Word,
    spaced,
    tagged_examples,
    tags_of_entities,
)
from keras_bert.finetuning.readers.tables import Row, format_of, read_table
from keras_bert.text.words import split_words

_WORDS = ("tokens", "words")
_TAGS = ("tags", "ner_tags", "pos_tags", "labels")
_ENTITY = ("start", "end", "label")


def read_tagged(
    path: str | os.PathLike,
    *,
    format: str | None = None,
    scheme: str | None = None,
    labelled: bool = True,
    on_error: OnError = "fail",
    **columns: Any,
) -> TaggedExamples:
    """Reads tagged words from a CoNLL file (see `read_conll`) or from JSON lines.

    A JSON line is `{"tokens": [...], "tags": [...]}`, or
    `{"text": "...", "entities": [{"start": 0, "end": 5, "label": "PER"}, ...]}` with places in
    characters, which become IOB2 tags of the words of the text. An entity may also be a list
    `[0, 5, "PER"]`.

    Args:
        path: the file.
        format: "conll" or "jsonl"; by default "jsonl" if the file's name ends so, else "conll".
        scheme: "iob1", "iob2" or "bioes" converts the tags; None leaves them as they are.
        labelled: whether tags are needed; if not, they are read if all sentences have them.
        on_error: "fail" at the first sentence that cannot be used, or "skip" such sentences and
            log their number. A word without a tag cannot be used, nor an entity that begins or
            ends inside a word.
        **columns: `word_column`, `tag_column` and `comment` of a CoNLL file.

    Raises:
        InputError: if the file cannot be read, or a sentence cannot be used; the message names
            the file and the line.
    """
    format = format or ("jsonl" if format_of(path) == "jsonl" else "conll")
    if format == "conll":
        return read_conll(path, scheme=scheme, labelled=labelled, on_error=on_error, **columns)
    if format != "jsonl":
        raise InputError(f"There is no format {format!r} of tagged words: give conll or jsonl.")
    if columns:
        raise InputError(f"{path}: {', '.join(columns)} are for CoNLL files, not for JSON lines.")
    rows = read_table(path, format=format, on_error=on_error).rows
    sentences = read_each(lambda row: _sentence(path, row, labelled), rows, path, on_error)
    return tagged_examples(path, sentences, scheme)


def _sentence(path: str | os.PathLike, row: Row, labelled: bool) -> Sentence:
    place = f"{path}, line {row.line}"
    tokens = _first(row, _WORDS)
    if tokens is None:
        text, words, tags = _of_entities(row, place)
    else:
        text, words = spaced(_strings(tokens, "words", place))
        tags = _first(row, _TAGS)
        tags = None if tags is None else _strings(tags, "tags", place)
    if tags is None and labelled:
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
