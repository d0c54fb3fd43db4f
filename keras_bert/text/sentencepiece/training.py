"""Learning a SentencePiece model from text, with SentencePiece's trainer (extra `vocab`)."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from keras_bert.errors import InputError
from keras_bert.extras import require
from keras_bert.text.character_map import STEPS, compose_character_map
from keras_bert.text.files import iterate_lines
from keras_bert.text.sentencepiece.model import SentencePieceModel
from keras_bert.text.sentencepiece.tokenizer import SentencePiece
from keras_bert.text.training import warn_if_smaller

SPECIAL_TOKENS = {
    "pad": "<pad>",
    "unknown": "<unk>",
    "cls": "[CLS]",
    "separator": "[SEP]",
    "mask": "[MASK]",
}
"""ALBERT's special tokens in the order of their ids."""
UNCASED = ("quotes", "nfkd", "strip_accents", "lowercase")
"""ALBERT's steps of normalization, before the model's own normalization."""

_NAMED = ("pad", "unknown")  # roles that have their own options of the trainer
_THREADS = 4  # the same on every machine, because sums of floats depend on the number of threads
_LONGEST_LINE = 1 << 24  # bytes; the trainer's default leaves out long paragraphs


def learn_sentencepiece(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    size: int,
    *,
    lowercase: bool = True,
    normalization: Sequence[str] | None = None,
    special_tokens: Mapping[str, str] = SPECIAL_TOKENS,
    character_coverage: float = 0.9995,
    text_field: str = "text",
) -> SentencePiece:
    """Learns a unigram model from text files. The same files give the same result.

    The model file includes the normalization, so the tokenizer needs no other file.

    Args:
        files: names, globs or addresses of text files; see `iterate_lines`.
        size: number of tokens, special tokens included. A small corpus gives fewer tokens.
        lowercase: whether to lowercase texts and strip accents, as ALBERT does.
        normalization: names of `STEPS` in `character_map.py`; if given, they replace `lowercase`.
        special_tokens: special tokens by role, in the order of their ids.
        character_coverage: ratio of the text's characters that the pieces must cover. Rare
            characters beyond this ratio get no piece.
        text_field: field with the text in records, as in JSON lines.

    Raises:
        InputError: if a file cannot be used, the size is too small for the text's characters, a
            step is unknown, or `sentencepiece` is not installed.
    """
    sentencepiece = require("sentencepiece", "vocab", "Learning a SentencePiece model")
    if normalization is None:
        normalization = UNCASED if lowercase else ()
    ids = {role: index for index, role in enumerate(special_tokens)}
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_normalized(iterate_lines(files, text_field), normalization),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            control_symbols=[t for role, t in special_tokens.items() if role not in _NAMED],
            pad_id=ids["pad"],
            pad_piece=special_tokens["pad"],
            unk_id=ids["unknown"],
            unk_piece=special_tokens["unknown"],
            bos_id=-1,
            eos_id=-1,
            max_sentence_length=_LONGEST_LINE,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:  # its message: place in the source, failed check, sentence
        reason = str(error).rpartition("] ")[2].rstrip(".") or "the trainer failed"
        raise InputError(
            f"Cannot learn a SentencePiece model of {size} tokens: {reason}."
        ) from None
    learned = SentencePieceModel.from_bytes(model.getvalue())
    character_map = compose_character_map(tuple(normalization), learned.character_map)
    learned = dataclasses.replace(learned, character_map=character_map)
    tokenizer = SentencePiece(learned.to_bytes(), special_tokens=special_tokens)
    warn_if_smaller(len(tokenizer.vocabulary), size)
    return tokenizer


def _normalized(lines: Iterable[str], steps: Sequence[str]) -> Iterator[str]:
    for line in lines:
        for step in steps:
            line = STEPS[step](line)
        if line:
            yield line
