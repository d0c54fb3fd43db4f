"""Added tokens of every kind of tokenizer, against transformers; see make_added_tokens.py."""

import json
import re
import shutil

import pytest

import keras_bert as kb
from keras_bert.checkpoints.text_format import read_text_format, write_text_format
from tests.fixtures.text_format.make_added_tokens import (
    HERE,
    SENTENCEPIECE,
    TOKENS,
    older_files,
    texts_for,
)
from tests.marks import others_swept

REFERENCE = json.loads((HERE / "added_tokens.json").read_text("utf-8"))
CASES = REFERENCE["cases"]
ADDED = {token["content"] for token in TOKENS}
IDEOGRAPH = re.compile("[\u4e00-\u9fff]")


# Elsewhere transformers gives added tokens more or less of the white space beside them.
EXACT = ["electra", "distilbert", "roberta", "albert", "xlm-roberta", "camembert"]


def outer(text, start, end):
    return start, end


def inner(text, start, end):
    """The span without the white space at its ends."""
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())


# One of each kind of tokenizer; DeBERTa v2 keeps white space otherwise than the others.
@pytest.fixture(
    scope="module",
    params=others_swept(CASES, quick=("distilbert", "roberta", "albert", "deberta-v2")),
)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def preprocessor(name):
    return read_text_format(HERE / "added" / name, 512)


@pytest.fixture(scope="module")
def texts(name):
    return texts_for(name, REFERENCE["texts"])


def test_ids_and_offsets_equal_transformers(name, preprocessor, texts):
    case, tokenizer = CASES[name], preprocessor.tokenizer
    pieces = [x.to_list() for x in tokenizer.tokenize_with_offsets(texts)]
    assert pieces[0] == case["ids"]
    assert tokenizer.tokenize(texts).to_list() == case["ids"]
    added = {tokenizer.vocabulary.id_of(token) for token in ADDED}
    compared, place = 0, outer if name in EXACT else inner
    for text, *row, offsets in zip(texts, *pieces, case["offsets"], strict=True):
        # transformers puts spaces around ideographs, and counts them as the ideograph
        if tokenizer.kind == "wordpiece" and IDEOGRAPH.search(text):
            continue
        for token, *span, expected in zip(*row, offsets, strict=True):
            if token in added:
                assert place(text, *span) == place(text, *expected), text
                compared += 1
    assert compared > 100


def test_pairs_equal_transformers(name, preprocessor, texts):
    inputs = preprocessor((texts[:40], texts[40:80]))
    rows = zip(inputs["token_ids"].numpy(), inputs["padding_mask"].numpy(), strict=True)
    assert [ids[mask == 1].tolist() for ids, mask in rows] == CASES[name]["pairs"]


@pytest.mark.parametrize(
    "manner", ["added_tokens.json", "added_tokens_decoder", "additional_special_tokens"]
)
def test_files_of_earlier_releases(name, manner, texts, tmp_path):
    directory = shutil.copytree(HERE / "kinds" / name, tmp_path / name)
    for file, content in older_files(name, CASES[name]["added"])[manner].items():
        (directory / file).write_text(json.dumps(content))
    tokenizer = read_text_format(directory, 512).tokenizer
    assert tokenizer.tokenize(texts[:80]).to_list() == CASES[name][manner]


def test_round_trip(name, preprocessor, texts, tmp_path):
    write_text_format(preprocessor, tmp_path)
    shutil.copy(HERE / "added" / name / "config.json", tmp_path)
    assert json.loads((tmp_path / "added_tokens.json").read_text("utf-8"))["<e1>"] > 0
    if name in SENTENCEPIECE:
        written = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
        strip = written["normalizer"]["normalizers"][0]
        # transformers would lose the space between the text's beginning and an added token
        assert strip["strip_left"] == (name != "deberta-v2")
        assert ("pretokenizers" in written["pre_tokenizer"]) == (name != "deberta-v2")
    again = read_text_format(tmp_path, 512)
    assert again.get_config() == preprocessor.get_config()
    if preprocessor.tokenizer.kind != "sentencepiece":
        (tmp_path / "tokenizer.json").unlink()
        older = read_text_format(tmp_path, 512).tokenizer
        assert older.get_config() == preprocessor.tokenizer.get_config()
    preprocessor.save(tmp_path / "native")
    native = kb.Preprocessor.load(tmp_path / "native")
    assert native.get_config() == preprocessor.get_config()
    restored = kb.Preprocessor.from_config(preprocessor.get_config())
    assert restored.tokenizer.tokenize(texts).to_list() == CASES[name]["ids"]


def test_special_tokens_stay_text_unless_allowed(name, preprocessor):
    tokenizer = preprocessor.tokenizer
    mask, e1 = (tokenizer.vocabulary.id_of(t) for t in (tokenizer.vocabulary.mask, "<e1>"))
    text = f"the {tokenizer.vocabulary.mask}<e1> sat"
    assert mask not in tokenizer.tokenize([text]).to_list()[0]
    assert e1 in tokenizer.tokenize([text]).to_list()[0]
    allowed = tokenizer.tokenize([text], allow_special_tokens=True).to_list()[0]
    assert allowed[allowed.index(mask) + 1] == e1
