"""Tokenizers' files against ids that transformers made; see tests/fixtures/text_format/make.py."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints.text_format import read_text_format, write_text_format
from tests.fixtures.text_format.make import write

REFERENCE = json.loads(
    (Path(__file__).parent.parent / "fixtures" / "text_format" / "reference.json").read_text()
)


def ids_of(preprocessor, texts):
    inputs = preprocessor.with_length(256)(texts)
    rows = zip(np.asarray(inputs["token_ids"]), np.asarray(inputs["padding_mask"]), strict=True)
    return [ids[mask == 1].tolist() for ids, mask in rows]


@pytest.mark.parametrize(
    "case", REFERENCE["cases"], ids=[json.dumps(c["case"]) for c in REFERENCE["cases"]]
)
def test_equals_transformers(case, shared_data, tmp_path, caplog):
    write(shared_data / "vocabs", tmp_path, *case["case"])
    preprocessor = read_text_format(tmp_path, 512)
    assert ids_of(preprocessor, REFERENCE["texts"]) == case["ids"]
    (tmp_path / "again").mkdir()
    write_text_format(preprocessor, tmp_path / "again")
    again = read_text_format(tmp_path / "again", 512)
    assert again.get_config() == preprocessor.get_config()
    (tmp_path / "again" / "vocab.txt").unlink()
    assert read_text_format(tmp_path / "again", 512).get_config() == preprocessor.get_config()
    assert not caplog.records


def small(**options):
    vocabulary = kb.Vocabulary(["<pad>", "<unk>", "<s>", "</s>", "<mask>", "a", "##b"], **SPECIAL)
    return kb.Preprocessor(kb.WordPiece(vocabulary, **options), sequence_length=20)


SPECIAL = dict(pad="<pad>", unknown="<unk>", cls="<s>", separator="</s>", mask="<mask>")


def test_added_tokens_beside_a_vocabulary(tmp_path):
    write_text_format(small(), tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "added_tokens.json").write_text('{"ab": 7}')
    preprocessor = read_text_format(tmp_path, 512)
    assert preprocessor.vocabulary.tokens == (*small().vocabulary.tokens, "ab")
    assert ids_of(preprocessor, ["ab a"]) == [[2, 7, 5, 3]]
    (tmp_path / "added_tokens.json").write_text('{"ab": 8}')
    with pytest.raises(kb.CheckpointError, match="are not 0, 1, 2"):
        read_text_format(tmp_path, 512)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lowercase": False, "strip_accents": True},
        {"lowercase": True, "strip_accents": False, "split_cjk": False},
        {"max_characters_per_word": 7},
    ],
)
def test_round_trip(options, tmp_path):
    write_text_format(small(**options), tmp_path)
    assert read_text_format(tmp_path, 512).get_config() == small(**options).get_config()
    assert read_text_format(tmp_path, 8).sequence_length == 8


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapanese"),
        ("tokenizer.json", {"model": {"type": "BPE"}}, "is of type 'BPE'"),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "PreTrainedTokenizerFast"},
            "has the normalizer 'NFC'",
        ),
    ],
)
def test_other_tokenizers_are_mentioned(name, changes, message, tmp_path, caplog):
    write_text_format(small(), tmp_path)
    values = json.loads((tmp_path / name).read_text())
    (tmp_path / name).write_text(json.dumps(values | changes))
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "NFC"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with caplog.at_level(logging.WARNING):
        assert read_text_format(tmp_path, 512) is None
    assert message in caplog.text


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("tokenizer_config.json", {"do_lower_case": "no"}, "do_lower_case is 'no', not true or"),
        ("special_tokens_map.json", {"cls_token": 3}, "cls_token is 3, not a string"),
        ("special_tokens_map.json", {"cls_token": "[CLS]"}, r"has no \[CLS\]"),
        ("tokenizer.json", {"model": {"vocab": {"a": 0, "b": 2}}}, "are not 0, 1, 2"),
        ("tokenizer.json", {"model": {"vocab": ["a"]}}, "holds no WordPiece vocabulary"),
    ],
)
def test_damage_is_named(name, changes, message, tmp_path):
    write_text_format(small(), tmp_path)
    values = json.loads((tmp_path / name).read_text())
    (tmp_path / name).write_text(json.dumps(values | changes))
    with pytest.raises(kb.InputError, match=message):
        read_text_format(tmp_path, 512)
