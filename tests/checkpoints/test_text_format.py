"""Tokenizers' files against ids that transformers made; see tests/fixtures/text_format/make.py."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints.text_format import read_text_format, write_text_format
from tests.fixtures.text_format.make import small_vocabularies, write
from tests.marks import others_swept

FIXTURES = Path(__file__).parent.parent / "fixtures" / "text_format"
REFERENCE = json.loads((FIXTURES / "reference.json").read_text())
SMALL = json.loads((FIXTURES / "small.json").read_text())
GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}


def ids_of(preprocessor, texts):
    inputs = preprocessor.with_length(256)(texts)
    rows = zip(np.asarray(inputs["token_ids"]), np.asarray(inputs["padding_mask"]), strict=True)
    return [ids[mask == 1].tolist() for ids, mask in rows]


def name_of(case):
    return json.dumps(case["case"])


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory):
    return small_vocabularies(tmp_path_factory.mktemp("vocabularies"))


@pytest.mark.parametrize("case", SMALL["cases"], ids=name_of)
def test_equals_transformers(case, vocabularies, tmp_path, caplog):
    assert_equal(case, vocabularies, tmp_path, caplog)


@pytest.mark.private_data
@pytest.mark.parametrize("case", others_swept(REFERENCE["cases"], quick=2), ids=name_of)
def test_real_vocabularies_equal_transformers(case, shared_data, tmp_path, caplog):
    assert_equal(case, shared_data / "vocabs", tmp_path, caplog)


def assert_equal(case, vocabularies, tmp_path, caplog):
    write(vocabularies, tmp_path, *case["case"])
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
        ("tokenizer_config.json", GENERIC, "has the normalizer 'NFC'"),
        (
            "config.json",
            {"tokenizer_class": "BertJapaneseTokenizer"},
            "config.json names the class",
        ),
    ],
)
def test_other_tokenizers_are_mentioned(name, changes, message, tmp_path, caplog):
    write_text_format(small(), tmp_path)
    if name == "config.json":
        (tmp_path / "tokenizer_config.json").unlink()
        (tmp_path / name).write_text("{}")
    values = json.loads((tmp_path / name).read_text())
    (tmp_path / name).write_text(json.dumps(values | changes))
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "NFC"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with caplog.at_level(logging.WARNING):
        assert read_text_format(tmp_path, 512) is None
    assert message in caplog.text


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("normalizer", {"clean_text": False}, "has the clean_text False"),
        ("pre_tokenizer", {"type": "Whitespace"}, "has the pre_tokenizer 'Whitespace'"),
        ("model", {"continuing_subword_prefix": "@@"}, "has the continuing_subword_prefix '@@'"),
        (
            "post_processor",
            {"type": "ByteLevel"},
            "has the post_processor [] without <s> A </s>",
        ),
        (
            "post_processor",
            {"single": [{"Sequence": {"id": "A"}}]},
            "['TemplateProcessing'] without",
        ),
    ],
)
def test_parts_of_a_generic_tokenizer_that_are_not_berts(part, changes, message, tmp_path, caplog):
    write_text_format(small(), tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    tokenizer[part] |= changes
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert read_text_format(tmp_path, 512) is not None
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(GENERIC))
    assert read_text_format(tmp_path, 512) is None
    assert message in caplog.text


def test_files_of_another_class_do_not_count(tmp_path):
    """As in transformers, the class decides which files are read."""
    shutil.copytree(FIXTURES / "kinds" / "roberta", tmp_path, dirs_exist_ok=True)
    expected = read_text_format(tmp_path, 512).get_config()
    small().tokenizer.save(tmp_path)
    assert read_text_format(tmp_path, 512).get_config() == expected


def test_only_files_of_another_class(tmp_path):
    write_text_format(small(), tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    with pytest.raises(kb.CheckpointError, match=r"vocab\.txt is not a file of AlbertTokenizer"):
        read_text_format(tmp_path, 512)
    albert = {"model_type": "albert", "tokenizer_class": "BertTokenizer"}
    (tmp_path / "config.json").write_text(json.dumps(albert))
    assert read_text_format(tmp_path, 512).tokenizer.kind == "wordpiece"


def test_a_class_says_whether_a_space_comes_first(tmp_path):
    """As in transformers, `tokenizer.json` says it only where no class does."""
    shutil.copytree(FIXTURES / "kinds" / "roberta-saved", tmp_path, dirs_exist_ok=True)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"]["add_prefix_space"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    for options, expected in (({"tokenizer_class": "RobertaTokenizer"}, False), (GENERIC, True)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
        assert read_text_format(tmp_path, 512).tokenizer.add_prefix_space == expected


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
