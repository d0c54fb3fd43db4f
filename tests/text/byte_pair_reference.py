"""Byte-level byte-pair encoding in plain Python, after its published description.

Shares no code with ours. Radford et al., 2019: the pattern's alternatives are tried in their order
at each place; a word's bytes are merged pair by pair, the earliest merge first. Sennrich et al.,
2016: the most frequent pair is the next merge.
"""

import itertools
import unicodedata
from collections import Counter

ENDINGS = ("s", "t", "re", "ve", "m", "ll", "d")
WHITE_SPACE = "\t\n\v\f\r \x85"


def is_letter(character):
    return unicodedata.category(character).startswith("L")


def is_number(character):
    return unicodedata.category(character).startswith("N")


def is_space(character):
    return character in WHITE_SPACE or unicodedata.category(character).startswith("Z")


def is_other(character):
    return not (is_letter(character) or is_number(character) or is_space(character))


def run(text, start, condition):
    end = start
    while end < len(text) and condition(text[end]):
        end += 1
    return end


def word_end(text, start):
    for ending in ENDINGS:
        if text.startswith(f"'{ending}", start):
            return start + 1 + len(ending)
    after_space = start + (text[start] == " ")
    for condition in (is_letter, is_number, is_other):
        end = run(text, after_space, condition)
        if end > after_space:
            return end
    end = run(text, start, is_space)
    return end - 1 if end < len(text) and end - start > 1 else end


def words(text):
    found, start = [], 0
    while start < len(text):
        end = word_end(text, start)
        found.append(text[start:end])
        start = end
    return found


def character_of(byte):
    """GPT-2's `bytes_to_unicode`."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte if byte in kept else 256 + sum(b not in kept for b in range(byte)))


ALPHABET = [character_of(byte) for byte in range(256)]


def learn(text, size):
    """The first merges of a text's words; of equally frequent pairs, the first in the alphabet."""
    spelled = [[ALPHABET[byte] for byte in word.encode()] for word in words(text)]
    merges = []
    while len(merges) < size:
        pairs = Counter(pair for word in spelled for pair in itertools.pairwise(word))
        pair = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if pair is None:
            break
        merges.append(pair)
        spelled = [join(word, pair) for word in spelled]
    return merges


def join(pieces, pair):
    """Pieces with each occurrence of the pair, from the left, as one."""
    result, index = [], 0
    while index < len(pieces):
        found = tuple(pieces[index : index + 2]) == pair
        result.append("".join(pair) if found else pieces[index])
        index += 1 + found
    return result


def merge(word, ranks):
    """Tokens of a word in the alphabet."""
    pieces = list(word)
    while True:
        pairs = [pair for pair in itertools.pairwise(pieces) if pair in ranks]
        if not pairs:
            return pieces
        pieces = join(pieces, min(pairs, key=ranks.__getitem__))


def tokenize(text, ranks):
    spelled = ("".join(ALPHABET[byte] for byte in word.encode()) for word in words(text))
    return [token for word in spelled for token in merge(word, ranks)]
