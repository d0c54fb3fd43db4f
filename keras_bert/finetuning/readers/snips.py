"""Readers of SNIPS: the intents of spoken commands, and the slots in the commands.

Coucke et al. (2018), arXiv:1805.10190. Each intent has a directory with files of utterances. An
utterance is a list of parts; a part with an "entity" is a slot:
`{"data": [{"text": "play "}, {"text": "Go", "entity": "album"}]}`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import TaggedExamples, TextExamples
from keras_bert.finetuning.readers.documents import read_document
from keras_bert.finetuning.readers.tagged import Sentence, tagged_examples, tags_of_entities
from keras_bert.text.words import split_words

_FILES = {"train": "train_{}_full.json", "validation": "validate_{}.json"}

Part = tuple[str, str | None]  # a text, and the name of the slot if the text is a slot


def read_intents(folder: str | os.PathLike, split: str = "train") -> TextExamples:
    """Reads the utterances of a split, with their intents as labels.

    Args:
        folder: folder with a directory for each intent.
        split: "train" or "validation".

    Raises:
        InputError: if a file is missing or has another structure.
    """
    intents, utterances = zip(*_utterances(folder, split), strict=True)
    return TextExamples(
        path=str(folder),
        lines=tuple(range(1, len(intents) + 1)),
        unit=f"{split} utterance",
        texts=tuple("".join(text for text, _ in parts) for parts in utterances),
        labels=intents,
    )


def read_slots(
    folder: str | os.PathLike, split: str = "train", *, scheme: str = "iob2"
) -> TaggedExamples:
    """Reads the utterances of a split, with their slots as tags of words.

    Text is divided into words also at the beginning and the end of each slot.

    Args:
        folder: folder with a directory for each intent.
        split: "train" or "validation".
        scheme: scheme of the tags, "iob1", "iob2" or "bioes".

    Raises:
        InputError: if a file is missing or has another structure.
    """
    sentences = [
        _sentence(number, parts)
        for number, (_, parts) in enumerate(_utterances(folder, split), start=1)
    ]
    return tagged_examples(folder, sentences, scheme, unit=f"{split} utterance")


def _utterances(folder: str | os.PathLike, split: str) -> Iterator[tuple[str, list[Part]]]:
    """Yields the intent and the parts of each utterance."""
    if split not in _FILES:
        raise InputError(f"There is no split {split!r} of SNIPS: give {' or '.join(_FILES)}.")
    intents = sorted(path.name for path in Path(folder).glob("*/") if path.is_dir())
    if not intents:
        raise InputError(f"{folder} has no directories: expected one for each intent.")
    for intent in intents:
        path = Path(folder) / intent / _FILES[split].format(intent)
        document = read_document(path)
        utterances = document.get(intent) if isinstance(document, dict) else None
        if not isinstance(utterances, list):
            raise InputError(f"{path}: expected {intent!r}, a list of utterances.")
        for number, utterance in enumerate(utterances, start=1):
            yield intent, _parts(utterance, f"{path}, utterance {number}")


def _parts(utterance: Any, place: str) -> list[Part]:
    parts = utterance.get("data") if isinstance(utterance, dict) else None
    if not isinstance(parts, list) or not all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts
    ):
        raise InputError(f'{place}: expected "data", a list of parts with a "text".')
    return [(part["text"], part.get("entity")) for part in parts]


def _sentence(number: int, parts: list[Part]) -> Sentence:
    text, words, entities = "", [], []
    for part, slot in parts:
        spans = [(len(text) + start, len(text) + end) for start, end in split_words(part)]
        if spans and slot:
            entities.append((spans[0][0], spans[-1][1], slot))
        words += spans
        text += part
    tags = tags_of_entities(words, entities, text, f"utterance {number}")
    return Sentence(number, text, tuple(words), tags)
