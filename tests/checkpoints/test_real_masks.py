"""Real models fill masks in texts as transformers does; see tests/real_masks.py."""

import json

import pytest

import keras_bert as kb
from tests.fewest_tokens import fewest_tokens
from tests.real_masks import REFERENCE, masked, ours


@pytest.mark.parametrize(
    "folder",
    [
        "albert-reactions",
        pytest.param("roberta-antibody", marks=pytest.mark.private_data),
    ],
)
def test_masks_are_filled_from_text(folder, shared_data):
    right = [token for _, token in masked(folder)]
    filled, theirs = ours(folder, shared_data), json.loads(REFERENCE.read_text())[folder]
    assert filled == theirs
    assert len(right) >= 200
    assert sum(a == b for a, b in zip(filled, right, strict=True)) > 0.8 * len(right)


def test_fewest_tokens():
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokenizer = fewest_tokens(kb.Vocabulary([*special, "C", "l", "Cl", "[nH]", "[", "n"]))
    tokens = tokenizer.vocabulary.tokens
    ids = tokenizer.tokenize(["CCl[nH]C", "C Cl\n[nH] C", "C[nж", "", "[PAD]"]).to_list()
    expected = ["C", "Cl", "[nH]", "C"]
    assert [[tokens[i] for i in row] for row in ids[:3]] == [
        expected,
        expected,
        ["C", "[", "n", "[UNK]"],
    ]
    assert ids[3] == []
    assert not tokenizer.is_continuation.any()  # it knows no spaces
    assert not set(ids[4]) & {0, 2, 3, 4}
    _, starts, ends = tokenizer.tokenize_with_offsets(["CCl[MASK]"], allow_special_tokens=True)
    assert (starts.to_list(), ends.to_list()) == ([[0, 1, 3]], [[1, 3, 9]])
