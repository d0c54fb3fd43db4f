"""BERT's tokenization in plain Python, after its published description; shares no code with ours.

Devlin et al., 2019: clean the text, put spaces around CJK ideographs, split at white space, lower
the case, decompose and drop accents, split at punctuation, then match the longest pieces greedily.
"""

import unicodedata

CJK_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def clean(text):
    kept = []
    for character in text:
        category = unicodedata.category(character)
        if character in " \t\n\r" or category == "Zs":
            kept.append(" ")
        elif ord(character) not in (0, 0xFFFD) and category not in ("Cc", "Cf"):
            kept.append(character)
    return "".join(kept)


def is_cjk(character):
    return any(first <= ord(character) <= last for first, last in CJK_BLOCKS)


def is_punctuation(character):
    ascii_symbol = "!" <= character <= "~" and not character.isalnum()
    return ascii_symbol or unicodedata.category(character).startswith("P")


def words(text, uncased):
    spaced = "".join(f" {c} " if is_cjk(c) else c for c in clean(text))
    found = []
    for word in spaced.split():
        if uncased:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in word if unicodedata.category(c) != "Mn")
        current = ""
        for character in word:
            if is_punctuation(character):
                found += [current, character]
                current = ""
            else:
                current += character
        found.append(current)
    # What lower case and decomposition made of the text is split at white space once more.
    return [word for text in found for word in text.split()]


def pieces(word, vocabulary, limit):
    if len(word) > limit:
        return ["[UNK]"]
    found, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        candidates = range(len(word), start, -1)
        end = next((e for e in candidates if prefix + word[start:e] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        found.append(prefix + word[start:end])
        start = end
    return found


def tokenize(text, vocabulary, *, uncased, limit=100):
    return [p for word in words(text, uncased) for p in pieces(word, vocabulary, limit)]
