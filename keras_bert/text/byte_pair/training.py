"""Learning a byte-level byte-pair vocabulary from text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from keras_bert.errors import InputError
from keras_bert.text.byte_pair.splitting import split_words
from keras_bert.text.byte_pair.tokenizer import BYTE_CHARACTERS, BytePair, in_alphabet
from keras_bert.text.files import iterate_lines
from keras_bert.text.training import (
    LONGEST_WORD,
    count_words,
    import_tokenizers,
    train_merges,
    warn_if_smaller,
)
from keras_bert.text.vocabulary import Vocabulary

SPECIAL_TOKENS = {
    "cls": "<s>",
    "pad": "<pad>",
    "separator": "</s>",
    "unknown": "<unk>",
    "mask": "<mask>",
}
"""RoBERTa's special tokens in the order of their ids."""


def learn_byte_pair(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    size: int,
    *,
    special_tokens: Mapping[str, str] = SPECIAL_TOKENS,
    min_frequency: int = 2,
    add_prefix_space: bool = False,
    text_field: str = "text",
) -> BytePair:
    """Learns a byte-pair vocabulary from text files. The same files give the same result.

    Args:
        files: names, globs or addresses of text files; see `iterate_lines`.
        size: number of tokens, special tokens and the 256 bytes included. A small corpus gives
            fewer tokens.
        special_tokens: special tokens by role, in the order of their ids.
        min_frequency: smallest number of occurrences of a pair that is merged.
        add_prefix_space: option of `BytePair`.
        text_field: field with the text in records, as in JSON lines.

    Raises:
        InputError: if a file cannot be used, the size is too small for the bytes, or `tokenizers`
            is not installed.
    """
    import_tokenizers()
    special = list(dict.fromkeys(special_tokens.values()))
    smallest = len(special) + len(BYTE_CHARACTERS)
    if size < smallest:
        raise InputError(
            f"A vocabulary of {size} tokens cannot hold all bytes: give it at least {smallest}."
        )
    lines = iterate_lines(files, text_field)
    if add_prefix_space:
        lines = (f" {line}" if line else line for line in lines)
    counts = count_words(lines, lambda texts: in_alphabet(split_words(texts).values))
    tokens, merges = train_merges(
        {word: count for word, count in counts.items() if len(word.encode()) <= LONGEST_WORD},
        size - len(special),
        BYTE_CHARACTERS,
        min_frequency=min_frequency,
    )
    vocabulary = Vocabulary([*special, *tokens], **special_tokens)
    warn_if_smaller(len(vocabulary), size)
    return BytePair(vocabulary, merges, add_prefix_space=add_prefix_space)
