"""SentencePiece in Hugging Face's files: ALBERT, XLM-R, CamemBERT, DeBERTa-v2 and -v3."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.atomic import replace_file
from keras_bert.checkpoints.text_format.files import (
    GENERIC,
    TOKENIZER,
    OtherTokenizerError,
    TextFiles,
    model_tokens,
)
from keras_bert.errors import CheckpointError, InputError
from keras_bert.text.sentencepiece.model import SPACE, PieceType, SentencePieceModel
from keras_bert.text.sentencepiece.tokenizer import DIGIT_COMMA, PENALTY, SentencePiece

FILES = ("spiece.model", "sentencepiece.bpe.model", "spm.model")


class PieceLayout(NamedTuple):
    """Layout of the vocabulary that a transformers class makes from a model file's pieces.

    The vocabulary is `first_tokens`, and then the pieces without the first `skipped_pieces`.
    """

    first_tokens: tuple[str, ...] = ()
    skipped_pieces: int = 0


_LAYOUTS = {
    "xlm-roberta": PieceLayout(("<s>", "<pad>", "</s>", "<unk>"), 3),
    "camembert": PieceLayout(("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1),
}
_STEPS: dict[
    str, list[dict[str, Any]]
] = {  # steps of normalization, and their form in tokenizer.json
    "quotes": [
        {"type": "Replace", "pattern": {"String": quotes}, "content": '"'}
        for quotes in ("``", "''")
    ],
    "nfkd": [{"type": "NFKD"}],
    "nfc": [{"type": "NFC"}],
    "strip_accents": [{"type": "StripAccents"}],
    "lowercase": [{"type": "Lowercase"}],
    "single_spaces": [
        {"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "}
    ],
}
_EXTRA_SPACES: list[dict[str, Any]] = [  # same as remove_extra_whitespaces
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
]
_METASPACE_ALONE = "deberta-v2"  # family whose class splits text only with Metaspace


def read(files: TextFiles) -> SentencePiece:
    """Reads the tokenizer of a directory.

    As in transformers, `tokenizer.json` takes precedence over the model file. The model file is
    then used only if its pieces are in the vocabulary.
    """
    return _read_tokenizer(files) if files.tokenizer else _read_model_file(files)


def _model_file(files: TextFiles) -> tuple[bytes, SentencePieceModel] | None:
    paths = [path for name in FILES if (path := files.directory / name).is_file()]
    if not paths:
        return None
    content = paths[0].read_bytes()
    try:
        return content, SentencePieceModel.from_bytes(content)
    except InputError as error:
        raise CheckpointError(f"{paths[0]}: {error}") from None


def _read_model_file(files: TextFiles) -> SentencePiece:
    found = _model_file(files)
    assert found is not None  # `_kind` found its file
    content, model = found
    name = getattr(files.family, "TRAITS", {}).get("family")
    if files.options.get("split_by_punct"):
        raise OtherTokenizerError(f"{files.directory} splits at punctuation (split_by_punct)")
    normalization: list[str] = []
    if name == "albert":
        keep_accents = files.flag(files.options, "keep_accents", False)
        normalization += ["quotes", *([] if keep_accents else ["nfkd", "strip_accents"])]
    if files.flag(files.options, "do_lower_case", name == "albert"):
        normalization.append("lowercase")
    layout = _LAYOUTS.get(str(name), PieceLayout())
    tokens = [*layout.first_tokens, *model.pieces[layout.skipped_pieces :]]
    ids = {token: index for index, token in enumerate(tokens)}
    special = files.special_tokens("sentencepiece", ids)
    last = files.with_added(ids, special["mask"])[len(tokens) :]
    return _tokenizer(
        files,
        content,
        special,
        layout,
        last,
        normalization=normalization,
        split_digit_commas=name == "albert",
        **_added_tokens(files, ids, special, model),
    )


def _read_tokenizer(files: TextFiles) -> SentencePiece:
    where, part = files.directory / TOKENIZER, files.part("model")
    try:
        pieces, scores = zip(*part["vocab"], strict=True)
        unknown = int(part["unk_id"])
        unknown_token = pieces[unknown]
    except (IndexError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{where} holds no vocabulary of pieces and scores.") from None
    ids = {piece: index for index, piece in enumerate(pieces)}
    special = {"unknown": unknown_token} | files.special_tokens("sentencepiece", ids)
    tokens = files.with_added(ids, special["mask"])
    normalization, character_map = _normalization(files)
    byte_fallback = bool(part.get("byte_fallback"))
    options: dict[str, Any] = {"normalization": normalization, "byte_fallback": byte_fallback}
    found = _model_file(files)
    options |= _added_tokens(files, ids, special, None if found is None else found[1])
    start = None if found is None else _find(tokens, found[1].pieces)
    if found is not None and start is not None:
        (content, model), (place, skipped) = found, start
        end = place + len(model.pieces) - skipped
        # In transformers' files, the scores include the penalty.
        options["split_digit_commas"] = any(
            DIGIT_COMMA.search(piece) and score > scores[ids[piece]] + PENALTY / 2
            for piece, score in zip(model.pieces[skipped:], model.scores[skipped:], strict=True)
        )
        layout = PieceLayout(tuple(tokens[:place]), skipped)
        return _tokenizer(files, content, special, layout, tokens[end:], **options)
    model = SentencePieceModel.from_pieces(
        pieces,
        scores,
        unknown_id=unknown,
        control=[piece for piece in pieces if piece in special.values()],
        character_map=character_map,
        byte_fallback=byte_fallback,
        add_dummy_prefix=_has_prefix(files),
    )
    last = tokens[len(pieces) :]
    return _tokenizer(files, model.to_bytes(), special, PieceLayout(), last, **options)


def _tokenizer(
    files: TextFiles,
    model: bytes,
    special: dict[str, str],
    layout: PieceLayout,
    last: Sequence[str],
    **options: Any,
) -> SentencePiece:
    return SentencePiece(
        model,
        special_tokens=special,
        first_tokens=layout.first_tokens,
        skipped_pieces=layout.skipped_pieces,
        last_tokens=last,
        mask_takes_space=files.mask_takes_space(special["mask"], default=False),
        **options,
    )


def _added_tokens(
    files: TextFiles,
    ids: dict[str, int],
    special: dict[str, str],
    model: SentencePieceModel | None,
) -> dict[str, Any]:
    """Returns the `SentencePiece` arguments for added tokens.

    Unused tokens of a class and user-defined pieces are not added tokens.
    """
    name = getattr(files.family, "TRAITS", {}).get("family")
    unused = _LAYOUTS.get(str(name), PieceLayout()).first_tokens
    found = () if model is None else _user_defined(model)
    added = files.added_tokens(ids, {*special.values(), *unused, *found})
    if not added:
        return {}
    if files.complete:
        steps = {step.get("type"): step for step in files.steps("pre_tokenizer")}
    else:
        steps = {} if name == _METASPACE_ALONE else {"WhitespaceSplit": {}}
    if steps.get("Metaspace", {}).get("prepend_scheme") == "first":
        raise OtherTokenizerError(
            f"{files.directory / TOKENIZER} has added tokens with the prepend_scheme 'first'"
        )
    return {"added_tokens": added, "space_before_added": "WhitespaceSplit" not in steps}


def _user_defined(model: SentencePieceModel) -> list[str]:
    """Returns the user-defined pieces, which the model never splits."""
    typed = zip(model.pieces, model.types, strict=True)
    return [piece for piece, kind in typed if kind == PieceType.USER_DEFINED]


def _find(tokens: Sequence[str], pieces: Sequence[str]) -> tuple[int, int] | None:
    """Finds the pieces in the vocabulary, if some of the first pieces may be skipped.

    Returns:
        The index of the first piece that is not skipped, and the number of skipped pieces. None if
        the pieces are not in the vocabulary.
    """
    tokens, pieces = tuple(tokens), tuple(pieces)
    for skipped in range(min(10, len(pieces))):
        if pieces[skipped] in tokens:
            place, count = tokens.index(pieces[skipped]), len(pieces) - skipped
            if tokens[place : place + count] == pieces[skipped:]:
                return place, skipped
    return None


def _normalization(files: TextFiles) -> tuple[list[str], bytes]:
    """Returns the steps of the normalizer in `tokenizer.json`, and its compiled character map."""
    ours, character_map = [], None
    for step in files.steps("normalizer"):
        name = next((n for n, theirs in _STEPS.items() if step in theirs), None)
        if step.get("type") == "Precompiled":
            character_map = base64.b64decode(step.get("precompiled_charsmap") or "")
        elif name and character_map is None:
            ours += [name] * (name not in ours)
        elif not _is_about_spaces(step):
            raise OtherTokenizerError(
                f"{files.directory / TOKENIZER} has the normalizer {step.get('type')!r}"
            )
    return ours, character_map or b""


def _is_about_spaces(step: dict[str, Any]) -> bool:
    spaces = {"Regex": " {2,}"}
    return step.get("type") == "Strip" or (
        step.get("pattern") == spaces and step.get("content") in (" ", SPACE)
    )


def _has_prefix(files: TextFiles) -> bool:
    """Returns whether a space is put before each text."""
    steps = {step.get("type"): step for step in files.steps("pre_tokenizer")}
    metaspace = steps.pop("Metaspace", None)
    if metaspace is None or set(steps) - {"WhitespaceSplit"}:
        raise OtherTokenizerError(
            f"{files.directory / TOKENIZER} has the pre_tokenizer {sorted(map(str, steps))}"
        )
    scheme = metaspace.get("prepend_scheme")
    return scheme != "never" if scheme else bool(metaspace.get("add_prefix_space", True))


def write(tokenizer: SentencePiece, directory: Path) -> dict[str, Any]:
    """Writes the model file, and returns options for `tokenizer_config.json`.

    Raises:
        InputError: if the model is not a unigram model.
        StorageError: if a file cannot be written.
    """
    if SentencePieceModel.from_bytes(tokenizer.model).kind != "unigram":
        raise InputError(
            "Only unigram models of SentencePiece can be written as tokenizer.json, but this model "
            "is of another kind; set model.preprocessor = None."
        )
    name = FILES[1] if tokenizer.first_tokens else FILES[2] if tokenizer.last_tokens else FILES[0]
    replace_file(directory / name, tokenizer.model)
    return {"tokenizer_class": GENERIC}


def describe(tokenizer: SentencePiece) -> dict[str, Any]:
    """Returns the parts of `tokenizer.json` that depend on the kind of tokenizer."""
    model = SentencePieceModel.from_bytes(tokenizer.model)
    scores = dict.fromkeys(model_tokens(tokenizer), 0.0)
    for piece, score in list(zip(model.pieces, model.scores, strict=True))[
        tokenizer.skipped_pieces :
    ]:
        penalty = PENALTY if tokenizer.split_digit_commas and DIGIT_COMMA.search(piece) else 0.0
        scores[piece] = score - penalty
    steps = [step for name in tokenizer.normalization for step in _STEPS[name]]
    if model.character_map:
        encoded = base64.b64encode(model.character_map).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": encoded})
    if model.remove_extra_whitespaces:
        strip = _EXTRA_SPACES[0] | {"strip_left": not tokenizer.space_before_added}
        steps = [strip, *steps, _EXTRA_SPACES[1]]
    metaspace = {"type": "Metaspace", "replacement": SPACE, "split": True}
    metaspace["prepend_scheme"] = "always" if model.add_dummy_prefix else "never"
    alone = tokenizer.space_before_added or not tokenizer.added_tokens
    split = [{"type": "WhitespaceSplit"}, metaspace]
    return {
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": metaspace if alone else {"type": "Sequence", "pretokenizers": split},
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.vocabulary.unknown_id,
            "vocab": [[token, score] for token, score in scores.items()],
            "byte_fallback": tokenizer.byte_fallback,
        },
        "added_tokens": _user_defined(model),
    }
