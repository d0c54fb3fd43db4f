"""Learning a SentencePiece model from text, with SentencePiece's own trainer (extra `vocab`)."""

from __future__ import annotations

import dataclasses
import io
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from keras_bert.errors import InputError
from keras_bert.extras import require
from keras_bert.text.character_map import STEPS, compose_character_map
from keras_bert.text.files import iterate_lines
from keras_bert.text.sentencepiece.model import SentencePieceModel
from keras_bert.text.sentencepiece.tokenizer import SentencePiece

SPECIAL_TOKENS = {
    "pad": "<pad>",
    "unknown": "<unk>",
    "cls": "[CLS]",
    "separator": "[SEP]",
    "mask": "[MASK]",
}
"""ALBERT's, in the order of their ids."""
UNCASED = ("quotes", "nfkd", "strip_accents", "lowercase")
"""ALBERT's normalization, before the model's own."""

_NAMED = ("pad", "unknown")  # roles that the trainer has options for
_THREADS = 4  # sums of floats depend on their number, so it is not that of the machine's cores
_LONGEST_LINE = 1 << 24  # bytes; the trainer's own limit would leave out paragraphs

_logger = logging.getLogger(__name__)


def learn_sentencepiece(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    size: int,
    *,
    lowercase: bool = True,
    normalization: Sequence[str] | None = None,
    special_tokens: Mapping[str, str] = SPECIAL_TOKENS,
    character_coverage: float = 0.9995,
) -> SentencePiece:
    """Learns the pieces that text files are made of (unigram); the same files, the same result.

    The model normalizes text by itself, so that its file is all that a tokenizer needs.

    Args:
        files: names or globs of text files, plain or gzip.
        size: tokens to learn, special ones among them; fewer come of a small corpus.
        lowercase: lower the case and strip accents, as ALBERT does.
        normalization: `STEPS` of `character_map.py` to take instead of what `lowercase` says.
        special_tokens: role to token, in the order of their ids.
        character_coverage: the share of the text whose characters become pieces.

    Raises:
        InputError: for files that cannot be used, a size too small for the characters of the text,
            an unknown step, or if `sentencepiece` is not installed.
    """
    sentencepiece = require("sentencepiece", "vocab", "Learning a SentencePiece model")
    if normalization is None:
        normalization = UNCASED if lowercase else ()
    ids = {role: index for index, role in enumerate(special_tokens)}
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_normalized(iterate_lines(files), normalization),
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
    except RuntimeError as error:  # the trainer's one kind: place in its source, test, sentence
        reason = str(error).rpartition("] ")[2].rstrip(".") or "the trainer failed"
        raise InputError(f"A SentencePiece model of {size} tokens: {reason}.") from None
    learned = SentencePieceModel.from_bytes(model.getvalue())
    character_map = compose_character_map(tuple(normalization), learned.character_map)
    learned = dataclasses.replace(learned, character_map=character_map)
    tokenizer = SentencePiece(learned.to_bytes(), special_tokens=special_tokens)
    if len(tokenizer.vocabulary) < size:
        _logger.warning(
            "The text holds %d tokens that occur often enough, not %d.",
            len(tokenizer.vocabulary),
            size,
        )
    return tokenizer


def _normalized(lines: Iterable[str], steps: Sequence[str]) -> Iterator[str]:
    for line in lines:
        for step in steps:
            line = STEPS[step](line)
        if line:
            yield line
