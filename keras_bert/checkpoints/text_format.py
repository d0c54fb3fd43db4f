"""The tokenizer's files of Hugging Face's transformers, for WordPiece vocabularies."""

import logging
from pathlib import Path
from typing import Any

from keras_bert.checkpoints.json_files import read_json, write_json
from keras_bert.errors import CheckpointError
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece import WordPiece

logger = logging.getLogger(__name__)

VOCABULARY, TOKENIZER = "vocab.txt", "tokenizer.json"
OPTIONS, SPECIAL_TOKENS = "tokenizer_config.json", "special_tokens_map.json"

_SPECIAL_TOKENS = {  # our argument to their key
    "pad": "pad_token",
    "unknown": "unk_token",
    "cls": "cls_token",
    "separator": "sep_token",
    "mask": "mask_token",
}
_OPTIONS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
_NORMALIZER = ("lowercase", "strip_accents", "handle_chinese_chars")
_BERT = ("BertTokenizer", "BertTokenizerFast")
_NO_CLASS_OF_ITS_OWN = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")
_LONGEST_WORD = 100


def read_text_format(directory: Path, max_positions: int) -> Preprocessor | None:
    """The preprocessor of a directory, or None where it has no WordPiece vocabulary.

    As in transformers, `tokenizer.json` gives the vocabulary where it exists, but how a text is
    normalised stands in `tokenizer_config.json`, or is as for an uncased model. Only where that
    file names no class of its own does `tokenizer.json` say it. A text is cut at the model's
    own maximal length. That there is another tokenizer than BERT's is logged as a warning.

    Raises:
        CheckpointError: if a file is damaged.
        InputError: if the vocabulary cannot be used.
    """
    options, tokenizer = _read(directory / OPTIONS), _read(directory / TOKENIZER)
    named = options | _read(directory / SPECIAL_TOKENS)
    special = {
        ours: _content(directory, theirs, named[theirs])
        for ours, theirs in _SPECIAL_TOKENS.items()
        if named.get(theirs) is not None
    }
    model, normalizer = _part(tokenizer, "model"), _part(tokenizer, "normalizer")
    kind = options.get("tokenizer_class")
    complete = kind in _NO_CLASS_OF_ITS_OWN
    if not complete and kind not in (None, *_BERT):
        return _without(f"{directory / OPTIONS} names the class {kind!r}")
    if model.get("type", "WordPiece") != "WordPiece":
        return _without(f"{directory / TOKENIZER} is of type {model['type']!r}")
    if complete and normalizer.get("type") != "BertNormalizer":
        return _without(f"{directory / TOKENIZER} has the normalizer {normalizer.get('type')!r}")
    if tokenizer:
        vocabulary = Vocabulary(_pieces(directory / TOKENIZER, model), **special)
    elif (directory / VOCABULARY).exists():
        vocabulary = Vocabulary.from_file(directory / VOCABULARY, **special)
    else:
        return None
    source, names = (normalizer, _NORMALIZER) if complete else (options, _OPTIONS)
    limit = model.get("max_input_chars_per_word") if complete else None
    wordpiece = WordPiece(
        vocabulary,
        lowercase=_flag(directory, source, names[0], True),
        strip_accents=_flag(directory, source, names[1], None),
        split_cjk=_flag(directory, source, names[2], True),
        max_characters_per_word=limit if isinstance(limit, int) else _LONGEST_WORD,
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
    usual = wordpiece.max_characters_per_word == _LONGEST_WORD
    vocabulary.save(directory / VOCABULARY)
    write_json(special, directory / SPECIAL_TOKENS)
    write_json(
        {
            # With the former, transformers takes no other limit than its own.
            "tokenizer_class": _BERT[0] if usual else _NO_CLASS_OF_ITS_OWN[0],
            "do_lower_case": wordpiece.lowercase,
            "strip_accents": wordpiece.strip_accents,
            "tokenize_chinese_chars": wordpiece.split_cjk,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            "model_max_length": preprocessor.sequence_length,
            **special,
        },
        directory / OPTIONS,
    )
    write_json(_tokenizer(wordpiece), directory / TOKENIZER)


def _without(reason: str) -> Preprocessor | None:
    logger.warning("%s, not BERT's WordPiece: the model has no preprocessor.", reason)
    return None


def _flag(directory: Path, source: dict[str, Any], name: str, default: bool | None) -> Any:
    value = source.get(name)
    if not isinstance(value, bool | None):
        raise CheckpointError(
            f"{directory}: the tokenizer's {name} is {value!r}, not true or false."
        )
    return default if value is None else value


def _part(tokenizer: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in `tokenizer.json`; an empty one where it is missing."""
    value = tokenizer.get(name)
    return value if isinstance(value, dict) else {}


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _content(directory: Path, name: str, token: Any) -> str:
    """A special token stands as a string or as an object with its content."""
    token = token.get("content") if isinstance(token, dict) else token
    if not isinstance(token, str):
        raise CheckpointError(f"{directory}: the tokenizer's {name} is {token!r}, not a string.")
    return token


def _pieces(path: Path, model: dict[str, Any]) -> list[str]:
    """The vocabulary of a `tokenizer.json`, in the order of its ids."""
    ids = model.get("vocab")
    if not isinstance(ids, dict):
        raise CheckpointError(f"{path} holds no WordPiece vocabulary.")
    pieces = {index: piece for piece, index in ids.items() if isinstance(index, int)}
    if sorted(pieces) != list(range(len(ids))):
        raise CheckpointError(f"{path}: the ids of the vocabulary are not 0, 1, 2, ...")
    return [pieces[index] for index in range(len(pieces))]


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
