"""Reads and writes the tokenizers' files of Hugging Face's transformers, for every kind."""

import dataclasses
import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_bert.checkpoints.contents import NO_PREPROCESSOR
from keras_bert.checkpoints.files import write_json
from keras_bert.checkpoints.text_format import byte_pair, sentencepiece, wordpiece
from keras_bert.checkpoints.text_format.files import (
    ADDED,
    EXTRA,
    GENERIC,
    OPTIONS,
    SPECIAL_TOKEN_NAMES,
    SPECIAL_TOKENS,
    TOKENIZER,
    OtherTokenizerError,
    TextFiles,
    model_tokens,
)
from keras_bert.errors import CheckpointError, InputError
from keras_bert.text.added_tokens import AddedToken
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

KINDS: dict[str, ModuleType] = {
    "wordpiece": wordpiece,
    "byte_pair": byte_pair,
    "sentencepiece": sentencepiece,
}
_MODEL_TYPES = {"WordPiece": "wordpiece", "BPE": "byte_pair", "Unigram": "sentencepiece"}


def read_text_format(directory: Path, max_positions: int) -> Preprocessor | None:
    """Reads the preprocessor of a directory; returns None if the tokenizer is not supported.

    A warning names the unsupported tokenizer. The preprocessor cuts texts at `model_max_length` or
    `max_positions`, whichever is less.

    Raises:
        CheckpointError: if a file is damaged.
        InputError: if the vocabulary cannot be used.
    """
    files = TextFiles.read(directory)
    try:
        kind = _kind(files)
        return None if kind is None else _preprocessor(files, kind, max_positions)
    except OtherTokenizerError as error:
        logger.warning("%s, which is not supported. %s", error, NO_PREPROCESSOR)
        return None
    except InputError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # JSON of another shape
        raise CheckpointError(f"{directory}: the tokenizer's files are damaged: {error}.") from None


def _preprocessor(files: TextFiles, kind: str, max_positions: int) -> Preprocessor:
    tokenizer = KINDS[kind].read(files)
    vocabulary = tokenizer.vocabulary
    files.check_post_processor(vocabulary.cls, vocabulary.separator)
    length = files.options.get("model_max_length")
    if not isinstance(length, int) or not 2 < length < max_positions:
        length = max_positions
    separators = files.separators_in_pair(vocabulary.separator)
    if files.options.get("truncation_side") == "left":
        logger.warning(
            "%s: truncation_side 'left' is not supported; long texts are cut at their ends.",
            files.directory / OPTIONS,
        )
    return Preprocessor(
        tokenizer,
        sequence_length=length,
        separators_in_pair=separators,
        separator_at_end=files.separator_at_end,
        num_segments=files.num_segments(separators),
    )


def write_text_format(preprocessor: Preprocessor, directory: Path) -> None:
    """Writes files for old and new releases of transformers.

    Raises:
        InputError: if the files cannot express the tokenizer.
    """
    tokenizer = preprocessor.tokenizer
    kind = KINDS[tokenizer.kind]
    special: dict[str, Any] = {
        SPECIAL_TOKEN_NAMES[role]: token
        for role, token in tokenizer.vocabulary.special_tokens.items()
    }
    if tokenizer.mask_takes_space:
        mask = AddedToken(tokenizer.vocabulary.mask, special=True, lstrip=True)
        special["mask_token"] = _options(mask)
    more = [token.content for token in tokenizer.added_tokens if token.special]
    if more:
        special[EXTRA] = more
    segments = ["token_type_ids"] * (preprocessor.num_segments > 1)
    options = {
        **kind.write(tokenizer, directory),
        "model_input_names": ["input_ids", *segments, "attention_mask"],
        "model_max_length": preprocessor.sequence_length,
        **special,
    }
    if kind is wordpiece and preprocessor.separators_in_pair > 1:  # BERT's class takes one
        options["tokenizer_class"] = GENERIC
    if tokenizer.mask_takes_space:
        options["mask_token"] = {"__type": "AddedToken", **special["mask_token"]}
    described = kind.describe(tokenizer)
    added = _added_tokens(tokenizer, described.pop("added_tokens", []))
    if tokenizer.added_tokens:
        vocabulary = tokenizer.vocabulary.tokens
        size = len(model_tokens(tokenizer))
        options["added_tokens_decoder"] = {str(index): token for index, token in added.items()}
        write_json(dict(zip(vocabulary[size:], itertools.count(size))), directory / ADDED)
    write_json(special, directory / SPECIAL_TOKENS)
    write_json(options, directory / OPTIONS)
    write_json(_tokenizer(preprocessor, described, added), directory / TOKENIZER)


def _kind(files: TextFiles) -> str | None:
    """Returns the key of `KINDS` for the tokenizer, or None if there is no known file.

    If the files name the class of a family, the class decides which files count, as in
    transformers.

    Raises:
        OtherTokenizerError: if `tokenizer.json` and the class are of different kinds.
        CheckpointError: if all vocabulary files are of another kind than the class.
    """
    family = None if files.complete else files.family
    own = family.TEXT["tokenizer"] if family else None
    if files.tokenizer:
        model = files.part("model")
        theirs = model.get("type")
        if theirs is None:  # written by an early release of `tokenizers`
            first = next(iter(model.get("vocab") or ()), None)
            if isinstance(first, list):  # a token and its score
                theirs = "Unigram"
            else:
                theirs = "BPE" if "merges" in model else "WordPiece"
        kind = _MODEL_TYPES.get(theirs)
        if kind is None or own not in (None, kind):
            raise OtherTokenizerError(f"{files.directory / TOKENIZER} is of type {theirs!r}")
        return kind
    there = {
        kind: path
        for kind, module in reversed(KINDS.items())
        for name in module.FILES
        if (path := files.directory / name).is_file()
    }
    if family and there and own not in there:
        raise CheckpointError(
            f"{[*there.values()][-1]} is not a file of {family.HUGGING_FACE_CLASS}Tokenizer. If it "
            f"belongs to another class, name this class as tokenizer_class in {OPTIONS}."
        )
    return own if own in there else next(reversed(there), None)


def _options(token: AddedToken) -> dict[str, Any]:
    """Returns a token's options in transformers' form."""
    options = dataclasses.asdict(token)
    del options["in_model"]
    return options


def _added_tokens(tokenizer: Tokenizer, found_in_text: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Returns the options of special tokens, added tokens and `found_in_text`, by id."""
    vocabulary = tokenizer.vocabulary
    tokens = {token: AddedToken(token) for token in found_in_text}
    tokens |= {token.content: token for token in tokenizer.added_tokens}
    for token in vocabulary.special_tokens.values():
        takes_space = token == vocabulary.mask and tokenizer.mask_takes_space
        tokens[token] = AddedToken(token, special=True, lstrip=takes_space)
    by_id = {vocabulary.id_of(content): _options(token) for content, token in tokens.items()}
    return dict(sorted(by_id.items()))


def _tokenizer(
    preprocessor: Preprocessor, parts: dict[str, Any], added: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    """Returns the content of `tokenizer.json`."""
    vocabulary = preprocessor.vocabulary
    cls, separator = vocabulary.cls, vocabulary.separator

    def part(kind: str, name: str, segment: int) -> dict[str, Any]:
        return {kind: {"id": name, "type_id": segment}}

    second = 1 if preprocessor.num_segments > 1 else 0
    at_end = preprocessor.separator_at_end
    first = [part("SpecialToken", cls, 0), part("Sequence", "A", 0)]
    single = [*first, *[part("SpecialToken", separator, 0)] * at_end]
    between = [part("SpecialToken", separator, 0)] * preprocessor.separators_in_pair
    after = [part("Sequence", "B", second), *[part("SpecialToken", separator, second)] * at_end]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, **token} for index, token in added.items()],
        **{name: parts[name] for name in ("normalizer", "pre_tokenizer")},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*first, *between, *after],
            "special_tokens": {
                token: {"id": token, "ids": [vocabulary.id_of(token)], "tokens": [token]}
                for token in (cls, separator)
            },
        },
        **{name: parts[name] for name in ("decoder", "model")},
    }
