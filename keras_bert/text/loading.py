"""A tokenizer from its files, whatever its kind."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from keras_bert.errors import InputError
from keras_bert.text.preprocessor import CONFIG_NAME, Preprocessor
from keras_bert.text.tokenizer import Tokenizer, tokenizer_class

_ROLES = ("pad", "unknown", "cls", "separator", "mask")
_USUAL = (  # special tokens by role: of BERT, RoBERTa, ALBERT
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
    ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
)


def load_tokenizer(
    path: str | os.PathLike, *, special_tokens: Mapping[str, str] | None = None, **options: Any
) -> Tokenizer:
    """Opens a tokenizer of any kind.

    Args:
        path: `vocab.txt` (WordPiece); `vocab.json` with `merges.txt` beside it (byte pairs); a
            file `*.model` (SentencePiece); a directory with one of them; or the directory of a
            saved preprocessor or model.
        special_tokens: role to token, as of `Vocabulary`; by default those of BERT, RoBERTa or
            ALBERT, whichever the file has.
        **options: further arguments of the tokenizer, such as `lowercase` of `WordPiece`.

    Raises:
        InputError: if there is no such file, it is damaged or has other special tokens, or the
            tokenizer has no such option.

    Example:
        >>> tokenizer = load_tokenizer("vocab.txt", lowercase=False)
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist: expected a tokenizer's file or directory.")
    if (path / CONFIG_NAME).is_file():
        if special_tokens or options:
            raise InputError(
                f"{path} says itself how its tokenizer splits text: leave out "
                f"{', '.join([*options, *['special_tokens'] * bool(special_tokens)])}."
            )
        return Preprocessor.load(path).tokenizer
    file = _file_of(path) if path.is_dir() else path
    kind = _kind_of(file)
    try:
        return _LOADERS[kind](file, special_tokens, options)
    except TypeError as error:
        raise InputError(f"{file}: {tokenizer_class(kind).__name__} got {error}.") from None


def usual_special_tokens(tokens: Collection[str]) -> dict[str, str]:
    """Special tokens by role: the first usual ones that are all, but for the mask, among `tokens`.

    If no usual ones are, returns BERT's special tokens.
    """
    found = (usual for usual in _USUAL if all(token in tokens for token in usual[:4]))
    return dict(zip(_ROLES, next(found, _USUAL[0]), strict=True))


def _file_of(directory: Path) -> Path:
    models = sorted(directory.glob("*.model"))
    for file in (directory / "vocab.txt", directory / "vocab.json", *models):
        if file.is_file():
            return file
    raise InputError(
        f"{directory} holds no tokenizer: expected vocab.txt, vocab.json with merges.txt, or "
        "a SentencePiece *.model."
    )


def _kind_of(file: Path) -> str:
    return {".json": "byte_pair", ".model": "sentencepiece"}.get(file.suffix, "wordpiece")


def _wordpiece(file: Path, special: Mapping[str, str] | None, options: dict[str, Any]) -> Tokenizer:
    from keras_bert.text.files import read_lines
    from keras_bert.text.vocabulary import Vocabulary
    from keras_bert.text.wordpiece.tokenizer import WordPiece

    special = special or usual_special_tokens(set(read_lines(file)))
    return WordPiece(Vocabulary.from_file(file, **special), **options)


def _byte_pair(file: Path, special: Mapping[str, str] | None, options: dict[str, Any]) -> Tokenizer:
    from keras_bert.text.byte_pair.files import TOKENS_NAME, read_tokens
    from keras_bert.text.byte_pair.tokenizer import BytePair

    if file.name != TOKENS_NAME:
        raise InputError(f"{file} must be called {TOKENS_NAME}, with merges.txt beside it.")
    special = special or usual_special_tokens(set(read_tokens(file)))
    return BytePair.load(file.parent, special_tokens=special, **options)


def _sentencepiece(
    file: Path, special: Mapping[str, str] | None, options: dict[str, Any]
) -> Tokenizer:
    from keras_bert.text.sentencepiece.model import SentencePieceModel
    from keras_bert.text.sentencepiece.tokenizer import SentencePiece

    model = file.read_bytes()
    try:
        pieces = set(SentencePieceModel.from_bytes(model).pieces)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    special = special or usual_special_tokens(pieces)
    if special.get("mask", "[MASK]") not in pieces:  # which only the model of the network knows
        options = {"last_tokens": [special.get("mask", "[MASK]")], **options}
    return SentencePiece(model, special_tokens=special, **options)


_LOADERS = {"wordpiece": _wordpiece, "byte_pair": _byte_pair, "sentencepiece": _sentencepiece}
