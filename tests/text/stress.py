"""Our tokens and offsets beside Hugging Face's on hard lines, with the cause of each difference.

`KERAS_BERT_DATA=... python -m tests.text.stress` prints the table.
"""

import gzip
import json
import os
import re
import unicodedata
from collections import Counter
from pathlib import Path

from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece import WordPiece

UNCASED = {
    "bert-base-uncased": True,
    "bert-base-cased": False,
    "bert-base-multilingual-cased": False,
    "bert-base-chinese": False,  # as its reference was made: Google's own has lower case
}
SPECIAL_TOKEN = "special token written in the text: plain text unless asked for"
PRIVATE_USE = "private use: kept as tokenization.py does, removed by tokenizers"
NEW_MARK = "mark that is younger, or of another category, than in tokenizers' Unicode 8 tables"
UNEXPLAINED = "unexplained"

_SPECIAL_TOKEN = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK)\]")
_MARKS = Path(__file__).parent.parent / "fixtures/text/marks-not-in-unicode-8.json"  # ranges
_NEW_MARKS = {
    chr(c) for first, last in json.loads(_MARKS.read_text()) for c in range(first, last + 1)
}
_NEW_MARKS |= {"\u1734"}  # a non-spacing mark until Unicode 14 made it a spacing one


def cause(text, *, uncased, allow_special_tokens):
    if not allow_special_tokens and _SPECIAL_TOKEN.search(text):
        return SPECIAL_TOKEN
    if any(unicodedata.category(character) == "Co" for character in text):
        return PRIVATE_USE
    if uncased and _NEW_MARKS & set(text):
        return NEW_MARK
    return UNEXPLAINED


def differences(data, name, *, allow_special_tokens=False):
    """Lines whose ids differ, and lines of equal ids whose offsets differ, counted by cause."""
    lines = (data / "text/tokenizer_stress.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    with gzip.open(data / f"text/{name}.jsonl.gz", "rt") as file:
        references = [json.loads(line) for line in file]
    vocabulary = Vocabulary.from_file(data / f"vocabs/{name}/vocab.txt")
    tokenizer = WordPiece(vocabulary, lowercase=UNCASED[name])
    options = {"allow_special_tokens": allow_special_tokens}
    outputs = [x.to_list() for x in tokenizer.tokenize_with_offsets(texts, **options)]
    of_ids, of_offsets = Counter(), Counter()
    for text, reference, ids, starts, ends in zip(texts, references, *outputs, strict=True):
        offsets = [list(pair) for pair in zip(starts, ends, strict=True)]
        why = cause(text, uncased=UNCASED[name], **options)
        if ids != reference["ids"][1:-1]:
            of_ids[why] += 1
        elif offsets != reference["off"][1:-1]:
            of_offsets[why] += 1
    return of_ids, of_offsets


if __name__ == "__main__":
    for vocabulary_name in UNCASED:
        for allowed in (False, True):
            counts = differences(
                Path(os.environ["KERAS_BERT_DATA"]), vocabulary_name, allow_special_tokens=allowed
            )
            print(f"{vocabulary_name}, special tokens {'read' if allowed else 'as plain text'}")
            for kind, found in zip(("ids", "offsets"), counts, strict=True):
                for why, count in found.items():
                    print(f"  {count:4d} lines, {kind}: {why}")
