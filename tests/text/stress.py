"""Our tokens and offsets beside Hugging Face's on hard lines, with the cause of each difference.

`KERAS_BERT_DATA=... python -m tests.text.stress` prints the table.
"""

import gzip
import json
import os
import unicodedata
from collections import Counter
from pathlib import Path

from keras_bert.text.byte_pair.tokenizer import BytePair
from keras_bert.text.byte_pair.training import SPECIAL_TOKENS
from keras_bert.text.sentencepiece.tokenizer import SentencePiece
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.tokenizer import WordPiece

UNCASED = {
    "bert-base-uncased": True,
    "bert-base-cased": False,
    "bert-base-multilingual-cased": False,
    "bert-base-chinese": False,  # as its reference was made: Google's own has lower case
}
SPECIAL_TOKEN = "special token written in the text: plain text unless asked for"
PRIVATE_USE = "private use: kept as tokenization.py does, removed by tokenizers"
NEW_MARK = "mark that is younger, or of another category, than in tokenizers' Unicode 8 tables"
BLOCK = "ideograph of U+2B820 to U+2B91F: a word as in tokenization.py; not in tokenizers"
APART = (
    "accent or jamo written apart: composed as SentencePiece does; tokenizers composes only in "
    "clusters of fewer than 6 bytes, and leaves the accent out of the span"
)
EDGE = "control, format or white-space character at an edge: tokenizers makes a space of it"
CHANGED = "span beside a character that is dropped, or becomes a space and others"
TIE = "one character repeated: several ways to cut it have the same score"
UNEXPLAINED = "unexplained"

_MARKS = Path(__file__).parent.parent / "fixtures/text/marks-not-in-unicode-8.json"  # ranges
_NEW_MARKS = {
    chr(c) for first, last in json.loads(_MARKS.read_text()) for c in range(first, last + 1)
}
_NEW_MARKS |= {"\u1734"}  # a non-spacing mark until Unicode 14 made it a spacing one


def load_wordpiece(folder):
    vocabulary = Vocabulary.from_file(folder / "vocab.txt")
    return WordPiece(vocabulary, lowercase=UNCASED[folder.name])


def wordpiece_cause(text, name):
    if any(unicodedata.category(character) == "Co" for character in text):
        return PRIVATE_USE
    if UNCASED[name] and _NEW_MARKS & set(text):
        return NEW_MARK
    if any("\U0002b820" <= character < "\U0002b920" for character in text):
        return BLOCK
    return UNEXPLAINED


def load_deberta(folder):
    return SentencePiece((folder / "spm.model").read_bytes(), last_tokens=["[MASK]"])


def sentencepiece_cause(text, name):
    if any(unicodedata.category(c).startswith("M") or _is_jamo(c) for c in text):
        return APART
    if len(set(text)) == 1 and len(text) > 1:
        return TIE
    if any(unicodedata.category(c)[0] in "CZ" or c == "\ufffd" for c in (text[0], text[-1])):
        return EDGE
    if any(unicodedata.category(c) == "Cc" or len(_compatible(c)) > 1 for c in text):
        return CHANGED
    return UNEXPLAINED


def _compatible(character):
    return unicodedata.normalize("NFKC", character)


def _is_jamo(character):
    return "\u1100" <= character <= "\u11ff" or "\u3131" <= character <= "\u318e"


def load_byte_pair(folder):
    return BytePair.load(folder, special_tokens=SPECIAL_TOKENS)


def byte_pair_cause(text, name):
    return UNEXPLAINED


TOKENIZERS = {
    **dict.fromkeys(UNCASED, (load_wordpiece, wordpiece_cause)),
    "roberta-base": (load_byte_pair, byte_pair_cause),
    "deberta-v3": (load_deberta, sentencepiece_cause),
}
"""Folder of the vocabulary to its tokenizer, and what explains a difference."""


PUBLIC = ("bert-base-uncased", "bert-base-cased", "roberta-base", "deberta-v3")
"""Folders that the public data have, too."""

ORDINARY = ("xquad", "udhr", "prose")
"""How the sources of lines of prose begin; the other lines were written to be hard."""


def stress_lines(data):
    """The lines, each with its `text` and its source, `src`."""
    return [
        json.loads(line)
        for line in (data / "text/tokenizer_stress.jsonl").read_text("utf-8").splitlines()
    ]


def differing_lines(data, name, *, allow_special_tokens=False):
    """Yields the source, "ids" or "offsets", and the cause for every line that differs."""
    lines = stress_lines(data)
    texts = [line["text"] for line in lines]
    with gzip.open(data / f"text/{name}.jsonl.gz", "rt") as file:
        references = [json.loads(line) for line in file]
    load, cause = TOKENIZERS[name]
    tokenizer = load(data / f"vocabs/{name}")
    special = tokenizer.vocabulary.special_tokens.values()
    outputs = tokenizer.tokenize_with_offsets(texts, allow_special_tokens=allow_special_tokens)
    outputs = [x.to_list() for x in outputs]
    for line, reference, ids, starts, ends in zip(lines, references, *outputs, strict=True):
        same_ids = ids == reference["ids"][1:-1]
        offsets = [list(pair) for pair in zip(starts, ends, strict=True)]
        if same_ids and offsets == reference["off"][1:-1]:
            continue
        text = line["text"]
        as_plain = not allow_special_tokens and any(token in text for token in special)
        why = SPECIAL_TOKEN if as_plain else cause(text, name)
        yield line["src"], "offsets" if same_ids else "ids", why


def differences(data, name, *, allow_special_tokens=False):
    """Lines whose ids differ, and lines of equal ids whose offsets differ, counted by cause."""
    found = list(differing_lines(data, name, allow_special_tokens=allow_special_tokens))
    return tuple(Counter(why for _, k, why in found if k == kind) for kind in ("ids", "offsets"))


if __name__ == "__main__":
    for vocabulary_name in TOKENIZERS:
        for allowed in (False, True):
            counts = differences(
                Path(os.environ["KERAS_BERT_DATA"]), vocabulary_name, allow_special_tokens=allowed
            )
            print(f"{vocabulary_name}, special tokens {'read' if allowed else 'as plain text'}")
            for kind, found in zip(("ids", "offsets"), counts, strict=True):
                for why, count in found.items():
                    print(f"  {count:4d} lines, {kind}: {why}")
