"""WordPiece in Hugging Face's files: BERT, DistilBERT, ELECTRA."""

from pathlib import Path
from typing import Any

from keras_bert.checkpoints.text_format.files import (
    GENERIC,
    TOKENIZER,
    OtherTokenizerError,
    TextFiles,
    model_tokens,
)
from keras_bert.errors import CheckpointError, InputError
from keras_bert.text.vocabulary import CONTINUATION, Vocabulary, read_tokens
from keras_bert.text.wordpiece.tokenizer import VOCABULARY_NAME, WordPiece

FILES = (VOCABULARY_NAME,)
_OPTIONS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
_NORMALIZER = ("lowercase", "strip_accents", "handle_chinese_chars")
_CLASS = "BertTokenizer"
_LONGEST_WORD = 100


def read(files: TextFiles) -> WordPiece:
    """Reads the tokenizer of a directory.

    As in transformers, the vocabulary of `tokenizer.json` takes precedence over `vocab.txt`. The
    options of normalization come from `tokenizer_config.json`; by default, the model is uncased. If
    the files name a generic class, the options come from `tokenizer.json`.
    """
    model, normalizer = files.part("model"), files.part("normalizer")
    if files.complete:
        _check(files, model, normalizer)
    source, names = (normalizer, _NORMALIZER) if files.complete else (files.options, _OPTIONS)
    limit = model.get("max_input_chars_per_word") if files.complete else None
    path = files.directory / (TOKENIZER if files.tokenizer else VOCABULARY_NAME)
    if files.tokenizer:
        ids = model.get("vocab")
    else:
        ids = {token: index for index, token in enumerate(read_tokens(path))}
    if not isinstance(ids, dict):
        raise CheckpointError(f"{path} holds no WordPiece vocabulary.")
    special = files.special_tokens("wordpiece", ids)
    tokens = files.with_added(ids, special["mask"])
    try:
        vocabulary = Vocabulary(tokens, **special)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return WordPiece(
        vocabulary,
        lowercase=files.flag(source, names[0], True),
        strip_accents=files.flag(source, names[1], None),
        split_cjk=files.flag(source, names[2], True),
        max_characters_per_word=limit if isinstance(limit, int) else _LONGEST_WORD,
        added_tokens=files.added_tokens(ids, vocabulary.special_tokens.values()),
    )


def _check(files: TextFiles, model: dict[str, Any], normalizer: dict[str, Any]) -> None:
    splits = files.part("pre_tokenizer").get("type")
    for name, value, expected in (
        ("normalizer", normalizer.get("type"), "BertNormalizer"),
        ("clean_text", normalizer.get("clean_text", True), True),
        ("pre_tokenizer", splits, "BertPreTokenizer"),
        ("continuing_subword_prefix", model.get("continuing_subword_prefix"), CONTINUATION),
    ):
        if value != expected:
            raise OtherTokenizerError(f"{files.directory / TOKENIZER} has the {name} {value!r}")


def write(tokenizer: WordPiece, directory: Path) -> dict[str, Any]:
    """Writes `vocab.txt`, and returns options for `tokenizer_config.json`."""
    Vocabulary(model_tokens(tokenizer), **tokenizer.vocabulary.special_tokens).save(
        directory / VOCABULARY_NAME
    )
    return {
        # BertTokenizer of transformers has a fixed limit.
        "tokenizer_class": _CLASS
        if tokenizer.max_characters_per_word == _LONGEST_WORD
        else GENERIC,
        "do_lower_case": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": tokenizer.split_cjk,
    }


def describe(tokenizer: WordPiece) -> dict[str, Any]:
    """Returns the parts of `tokenizer.json` that depend on the kind of tokenizer."""
    return {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": tokenizer.split_cjk,
            "strip_accents": tokenizer.strip_accents,
            "lowercase": tokenizer.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": tokenizer.vocabulary.unknown,
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": tokenizer.max_characters_per_word,
            "vocab": {token: index for index, token in enumerate(model_tokens(tokenizer))},
        },
    }
