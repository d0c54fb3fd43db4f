"""Byte-level byte-pair encoding in Hugging Face's files: RoBERTa, DeBERTa, ModernBERT, EuroBERT."""

from pathlib import Path
from typing import Any

from keras_bert.checkpoints.text_format.files import (
    GENERIC,
    TOKENIZER,
    OtherTokenizerError,
    TextFiles,
    model_tokens,
)
from keras_bert.errors import CheckpointError
from keras_bert.text.byte_pair.splitting import PATTERNS
from keras_bert.text.byte_pair.tokenizer import (
    MERGES_NAME,
    TOKENS_NAME,
    BytePair,
    read_merges_beside,
    read_tokens,
    write_merges,
    write_tokens,
)
from keras_bert.text.vocabulary import Vocabulary

FILES = (TOKENS_NAME,)
_UNSUPPORTED = ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")


def read(files: TextFiles) -> BytePair:
    """Reads the tokenizer from `tokenizer.json`, or from `vocab.json` and `merges.txt`."""
    pattern, byte_level = "gpt2", dict[str, Any]()
    if files.tokenizer:
        _check(files)
        pattern, byte_level = _words(files)
        ids, merges = _model(files)
    elif getattr(files.family, "TEXT", {}).get("pattern", pattern) != pattern:
        raise OtherTokenizerError(f"{files.directory} has {TOKENS_NAME} without {TOKENIZER}")
    else:
        path = files.directory / TOKENS_NAME
        ids = {token: index for index, token in enumerate(read_tokens(path))}
        merges = read_merges_beside(path, ids, files.special_tokens("byte_pair", ids).values())
    special = files.special_tokens("byte_pair", ids)
    tokens = files.with_added(ids, special["mask"])
    source = byte_level if files.complete and files.tokenizer else files.options
    prefix = files.flag(source, "add_prefix_space", False)
    return BytePair(
        Vocabulary(tokens, **special),
        merges,
        add_prefix_space=prefix,
        normalization="nfc" if _normalizers(files) else "",
        pattern=pattern,
        ignore_merges=files.flag(files.part("model"), "ignore_merges", False),
        mask_takes_space=files.mask_takes_space(special["mask"], default=True),
        added_tokens=files.added_tokens(ids, special.values()),
    )


def _words(files: TextFiles) -> tuple[str, dict[str, Any]]:
    """Returns the name of the pattern that splits texts into words, and the step of the bytes."""
    steps = files.steps("pre_tokenizer")
    types = [step.get("type") for step in steps]
    if types == ["ByteLevel"] and steps[0].get("use_regex") is not False:
        return "gpt2", steps[0]
    if types == ["Split", "ByteLevel"] and steps[1].get("use_regex") is False:
        found = [name for name, pattern in PATTERNS.items() if steps[0] == _split(pattern)]
        if found and not steps[1].get("add_prefix_space"):
            return found[0], steps[1]
    raise OtherTokenizerError(f"{files.directory / TOKENIZER} has the pre_tokenizer {steps}")


def _split(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}}
    return split | {"behavior": "Isolated", "invert": False}


def _check(files: TextFiles) -> None:
    where, model = files.directory / TOKENIZER, files.part("model")
    if _normalizers(files) not in ([], ["NFC"]):
        raise OtherTokenizerError(f"{where} has the normalizer {_normalizers(files)}")
    other = [name for name in _UNSUPPORTED if model.get(name)]
    if other:
        raise OtherTokenizerError(f"{where} has {other[0]} {model[other[0]]!r}")


def _normalizers(files: TextFiles) -> list[Any]:
    return [step.get("type") for step in files.steps("normalizer")]


def _model(files: TextFiles) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns vocabulary and merges of `tokenizer.json`, where merges are strings or pairs."""
    model = files.part("model")
    try:
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        return dict(model["vocab"]), [(first, second) for first, second in pairs]
    except (KeyError, AttributeError, TypeError, ValueError):
        raise CheckpointError(
            f"{files.directory / TOKENIZER} holds no byte-pair vocabulary with merges."
        ) from None


def write(tokenizer: BytePair, directory: Path) -> dict[str, Any]:
    """Writes `vocab.json` and `merges.txt`, and returns options for `tokenizer_config.json`."""
    write_tokens(directory / TOKENS_NAME, model_tokens(tokenizer))
    write_merges(directory / MERGES_NAME, tokenizer.merges)
    return {"tokenizer_class": GENERIC, "add_prefix_space": tokenizer.add_prefix_space}


def describe(tokenizer: BytePair) -> dict[str, Any]:
    """Returns the parts of `tokenizer.json` that depend on the kind of tokenizer."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": tokenizer.add_prefix_space}
    byte_level |= {"trim_offsets": True, "use_regex": True}
    pre_tokenizer = byte_level
    if tokenizer.pattern != "gpt2":
        steps = [_split(PATTERNS[tokenizer.pattern]), byte_level | {"use_regex": False}]
        pre_tokenizer = {"type": "Sequence", "pretokenizers": steps}
    return {
        "normalizer": {"type": "NFC"} if tokenizer.normalization else None,
        "pre_tokenizer": pre_tokenizer,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": tokenizer.vocabulary.unknown,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "ignore_merges": tokenizer.ignore_merges,
            "vocab": {token: index for index, token in enumerate(model_tokens(tokenizer))},
            "merges": [" ".join(merge) for merge in tokenizer.merges],
        },
    }
