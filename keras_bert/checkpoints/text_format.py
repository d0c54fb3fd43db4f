"""The tokenizer's files of Hugging Face's transformers, for WordPiece vocabularies."""

from pathlib import Path
from typing import Any

from keras_bert.checkpoints.json_files import read_json, write_json
from keras_bert.errors import CheckpointError
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece import WordPiece

VOCABULARY, TOKENIZER = "vocab.txt", "tokenizer.json"
OPTIONS, SPECIAL_TOKENS = "tokenizer_config.json", "special_tokens_map.json"

_SPECIAL_TOKENS = {  # our argument to their key
    "pad": "pad_token",
    "unknown": "unk_token",
    "cls": "cls_token",
    "separator": "sep_token",
    "mask": "mask_token",
}


def read_text_format(directory: Path, max_positions: int) -> Preprocessor | None:
    """The preprocessor of a directory, or None where it has no vocabulary.

    Case and accents are as `tokenizer.json` says, else `tokenizer_config.json`; a text is cut
    at the model's own maximal length.

    Raises:
        CheckpointError: if a file is damaged or not of WordPiece.
        InputError: if the vocabulary cannot be used.
    """
    options = _read(directory / OPTIONS)
    tokenizer = _read(directory / TOKENIZER)
    special = {
        ours: content
        for ours, theirs in _SPECIAL_TOKENS.items()
        if (content := _content((options | _read(directory / SPECIAL_TOKENS)).get(theirs)))
    }
    if (directory / VOCABULARY).exists():
        vocabulary = Vocabulary.from_file(directory / VOCABULARY, **special)
    elif tokenizer:
        vocabulary = Vocabulary(_pieces(directory / TOKENIZER, tokenizer), **special)
    else:
        return None
    normalizer = tokenizer.get("normalizer") or {}
    lowercase = normalizer.get("lowercase", options.get("do_lower_case", True))
    wordpiece = WordPiece(
        vocabulary,
        lowercase=bool(lowercase),
        strip_accents=normalizer.get("strip_accents", options.get("strip_accents")),
        split_cjk=bool(
            normalizer.get("handle_chinese_chars", options.get("tokenize_chinese_chars", True))
        ),
    )
    length = options.get("model_max_length")
    if not isinstance(length, int) or not 2 < length < max_positions:
        length = max_positions
    return Preprocessor(wordpiece, sequence_length=length)


def write_text_format(preprocessor: Preprocessor, directory: Path) -> None:
    """Writes the files that transformers' `BertTokenizer` reads, old and new releases."""
    wordpiece: WordPiece = preprocessor.tokenizer
    vocabulary = wordpiece.vocabulary
    special = {_SPECIAL_TOKENS[ours]: token for ours, token in vocabulary.special_tokens.items()}
    vocabulary.save(directory / VOCABULARY)
    write_json(special, directory / SPECIAL_TOKENS)
    write_json(
        {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": wordpiece.lowercase,
            "strip_accents": wordpiece.strip_accents,
            "tokenize_chinese_chars": wordpiece.split_cjk,
            "model_max_length": preprocessor.sequence_length,
            **special,
        },
        directory / OPTIONS,
    )
    write_json(_tokenizer(wordpiece), directory / TOKENIZER)


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _content(token: Any) -> str | None:
    """A special token stands as a string or as an object with its content."""
    return token.get("content") if isinstance(token, dict) else token


def _pieces(path: Path, tokenizer: dict[str, Any]) -> list[str]:
    """The vocabulary of a `tokenizer.json`, in the order of its ids."""
    model = tokenizer.get("model")
    model = model if isinstance(model, dict) else {}
    ids = model.get("vocab")
    if not isinstance(ids, dict) or model.get("type", "WordPiece") != "WordPiece":
        raise CheckpointError(f"{path} holds no WordPiece vocabulary.")
    pieces = sorted(ids, key=ids.__getitem__)
    if [ids[piece] for piece in pieces] != list(range(len(pieces))):
        raise CheckpointError(f"{path}: the ids of the vocabulary are not 0, 1, 2, ...")
    return pieces


def _tokenizer(wordpiece: WordPiece) -> dict[str, Any]:
    """The `tokenizer.json` of a WordPiece tokenizer."""
    vocabulary = wordpiece.vocabulary
    cls, separator = (vocabulary.special_tokens[name] for name in ("cls", "separator"))
    added = [
        {
            "id": vocabulary.id_of(token),
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for token in vocabulary.special_tokens.values()
    ]

    def part(kind: str, name: str, segment: int) -> dict[str, Any]:
        return {kind: {"id": name, "type_id": segment}}

    single = [part("SpecialToken", cls, 0), part("Sequence", "A", 0)]
    single.append(part("SpecialToken", separator, 0))
    pair = [*single, part("Sequence", "B", 1), part("SpecialToken", separator, 1)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": wordpiece.split_cjk,
            "strip_accents": wordpiece.strip_accents,
            "lowercase": wordpiece.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": pair,
            "special_tokens": {
                token: {"id": token, "ids": [vocabulary.id_of(token)], "tokens": [token]}
                for token in (cls, separator)
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": vocabulary.special_tokens["unknown"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": wordpiece.max_characters_per_word,
            "vocab": {token: index for index, token in enumerate(vocabulary.tokens)},
        },
    }
