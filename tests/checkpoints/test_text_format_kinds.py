"""Tokenizers of every class of transformers, against its ids; see text_format/make_kinds.py."""

import json
import shutil
from pathlib import Path

import pytest

import keras_bert as kb
from keras_bert.checkpoints.text_format import read_text_format, write_text_format
from tests.marks import others_slow

FIXTURES = Path(__file__).parent.parent / "fixtures" / "text_format"
CASES = json.loads((FIXTURES / "kinds.json").read_text())["cases"]


def ids_of(preprocessor, texts):
    inputs = preprocessor.with_length(256)(texts, allow_special_tokens=True)
    rows = zip(inputs["token_ids"].numpy(), inputs["padding_mask"].numpy(), strict=True)
    return [ids[mask == 1].tolist() for ids, mask in rows]


@pytest.mark.parametrize("saved", [False, True], ids=["older files", "tokenizer.json"])
@pytest.mark.parametrize(
    "name", others_slow(CASES, quick=("distilbert", "roberta", "deberta", "albert", "deberta-v2"))
)
def test_equals_transformers(name, saved, tmp_path, caplog):
    case = CASES[name]
    preprocessor = read_text_format(FIXTURES / "kinds" / (f"{name}-saved" if saved else name), 512)
    assert ids_of(preprocessor, case["texts"]) == case["ids"]
    pairs, expected = (case["texts"], case["texts"][::-1]), case["pairs"]
    if name == "deberta" and not saved:
        # transformers 5 takes two separators here, its earlier releases and the authors one
        two = kb.Preprocessor(preprocessor.tokenizer, 512, separators_in_pair=2)
        assert ids_of(two, pairs) == expected
        expected = ids_of(preprocessor, pairs)
    assert ids_of(preprocessor, pairs) == expected
    write_text_format(preprocessor, tmp_path)
    shutil.copy(FIXTURES / "kinds" / name / "config.json", tmp_path)
    again = read_text_format(tmp_path, 512)
    assert again.get_config() == preprocessor.get_config()
    for model in tmp_path.glob("*.model"):
        model.unlink()
    without_model = read_text_format(tmp_path, 512)
    assert ids_of(without_model, pairs) == expected
    assert not caplog.records


@pytest.mark.parametrize("name", ["albert", "roberta", "electra"])
def test_early_files_have_no_type(name, tmp_path):
    shutil.copytree(FIXTURES / "kinds" / f"{name}-saved", tmp_path, dirs_exist_ok=True)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    del tokenizer["model"]["type"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    case = CASES[name]
    assert ids_of(read_text_format(tmp_path, 512), case["texts"]) == case["ids"]


def test_texts_that_would_be_cut_at_the_beginning(tmp_path, caplog):
    shutil.copytree(FIXTURES / "kinds" / "electra-saved", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncation_side": "left"}))
    read_text_format(tmp_path, 512)
    assert "truncation_side 'left' is not supported; long texts are cut at their" in caplog.text


@pytest.mark.parametrize(
    ("name", "part", "value"),
    [
        ("roberta", "added_tokens", [{"id": 1}]),
        ("roberta", "post_processor", {"type": "TemplateProcessing", "pair": 3}),
        ("albert", "post_processor", {"type": "TemplateProcessing", "pair": []}),
        ("roberta", "model", {"type": "BPE", "vocab": {}, "merges": [[1, 2]]}),
        ("albert", "model", {"type": "Unigram", "vocab": [[3, "x"]], "unk_id": 0}),
        ("electra", "model", {"type": ["WordPiece"]}),
    ],
)
def test_json_of_another_shape_is_damage(name, part, value, tmp_path):
    shutil.copytree(FIXTURES / "kinds" / f"{name}-saved", tmp_path, dirs_exist_ok=True)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps({**tokenizer, part: value}))
    with pytest.raises(kb.InputError):
        read_text_format(tmp_path, 512)


@pytest.mark.parametrize("name", ["modernbert", "eurobert"])
def test_newer_byte_pairs_equal_transformers(name, tmp_path):
    """ModernBERT: NFC, added tokens for runs of spaces. EuroBERT: Llama 3's words and template."""
    directory = FIXTURES / name
    reference = json.loads((directory / "reference.json").read_text())
    texts = reference["texts"]
    read = read_text_format(directory, 64)
    write_text_format(read, tmp_path)
    shutil.copy(directory / "config.json", tmp_path)
    for preprocessor in (read, read_text_format(tmp_path, 64)):
        assert ids_of(preprocessor, texts) == reference["ids"]
        assert ids_of(preprocessor, (texts, [texts[0]] * len(texts))) == reference["pairs"]
    ids, starts, ends = read.tokenizer.tokenize_with_offsets(texts, allow_special_tokens=True)
    end = -1 if read.separator_at_end else None
    assert ids.to_list() == [row[1:end] for row in reference["ids"]]
    for text, *spans, expected in zip(
        texts, starts.to_list(), ends.to_list(), reference["offsets"], strict=True
    ):
        found = [text[start:end] for start, end in zip(*spans, strict=True)]
        # The references do not trim spaces, unlike RoBERTa's.
        assert [x.strip() for x in found] == [text[s:e].strip() for s, e in expected[1:end]]


def test_merges_alone_do_not_tell_how_eurobert_splits(tmp_path, caplog):
    write_text_format(read_text_format(FIXTURES / "eurobert", 64), tmp_path)
    shutil.copy(FIXTURES / "eurobert/config.json", tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert read_text_format(tmp_path, 64) is None
    assert "has vocab.json without tokenizer.json, which is not supported" in caplog.text


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("Split", {"behavior": "MergedWithNext"}),
        ("Split", {"pattern": {"Regex": "[a-z]+"}}),
        ("ByteLevel", {"add_prefix_space": True}),
        ("ByteLevel", {"use_regex": True}),
    ],
)
def test_other_splitting_is_not_read(part, value, tmp_path, caplog):
    shutil.copytree(FIXTURES / "eurobert", tmp_path, dirs_exist_ok=True)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    for step in tokenizer["pre_tokenizer"]["pretokenizers"]:
        step.update(value if step["type"] == part else {})
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert read_text_format(tmp_path, 64) is None
    assert "has the pre_tokenizer [{'type': 'Split'" in caplog.text
