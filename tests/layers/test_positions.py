"""Rotary positions, a bias by distance, and windows of attention."""

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.families import FAMILIES
from keras_bert.layers.positions import bucket_of_distances, rotated, rotation
from tests.jax_backend import run_on_jax
from tests.layers.test_encoder import padded_batch, random_encoder

WINDOW = {**FAMILIES["modernbert"].TRAITS, "attention_window": 2, "global_interval": 2}


def test_rotation_is_a_product_of_complex_numbers():
    x = np.random.default_rng(0).normal(size=(2, 5, 3, 8)).astype("float32")
    positions = np.array([[0, 1, 2, 3, 4], [7, 0, 100, 8000, 2]])
    pairs = x[..., :4] + 1j * x[..., 4:]  # Su et al. 2021, equation 14, with d and d + D/2 paired
    angles = positions[:, :, None, None] * 160000.0 ** (-np.arange(4) / 4)
    expected = pairs * np.exp(1j * angles)
    actual = np.asarray(rotated(x, rotation(positions, 8, 160000.0)))
    np.testing.assert_allclose(actual[..., :4], expected.real, atol=5e-4)
    np.testing.assert_allclose(actual[..., 4:], expected.imag, atol=5e-4)


def test_buckets_are_those_of_transformers():
    """From `MPNetEncoder.relative_position_bucket`: the first distance in each bucket."""
    first = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    found = bucket_of_distances(32, 128)
    assert [found[128 - distance] for distance in first] == [*range(16)]
    assert [found[128 + distance] for distance in first[1:]] == [*range(17, 32)]
    steps = np.flatnonzero(np.diff(found)) + 1 - 128
    assert [*steps] == [1 - d for d in first[:0:-1]] + first[1:]


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_attend_to_what_a_full_matrix_with_a_mask_attends_to(length, packed):
    encoder = random_encoder(**WINDOW)
    rng = np.random.default_rng(length)
    documents = np.sort(rng.integers(0, 3, (3, length)))[:, ::-1].astype("int32")
    documents[0] = 1
    inputs = {
        "token_ids": rng.integers(0, 50, (3, length)).astype("int32"),
        "padding_mask": np.minimum(documents, 1),
    }
    if packed:
        inputs["document_ids"] = documents
    tokens = inputs["padding_mask"] == 1
    in_blocks = encoder(inputs)
    full = encoder(inputs, return_attentions=True)  # [B, N, T, T] is computed as a whole
    difference = np.abs(in_blocks["sequence_output"] - full["sequence_output"])[tokens]
    assert difference.max(initial=0) <= 1e-5
    far = np.abs(np.subtract.outer(np.arange(length), np.arange(length))) > 2
    for layer, attention in enumerate(full["attentions"]):
        to_far = np.where(far, np.asarray(attention), 0).max(axis=(1, 3))[tokens]
        assert (to_far.max(initial=0) > 0) == (layer % 2 == 0 and length > 3)


def test_windows_on_jax(tmp_path):
    encoder, inputs = random_encoder(**WINDOW), padded_batch()
    kb.save(encoder, tmp_path / "model")
    np.savez(tmp_path / "inputs.npz", **inputs)
    run_on_jax(PROGRAM, str(tmp_path))
    tokens = inputs["padding_mask"] == 1
    expected = np.asarray(encoder(inputs)["sequence_output"])
    actual = np.load(tmp_path / "outputs.npy")
    np.testing.assert_allclose(actual[tokens], expected[tokens], atol=2e-5)


PROGRAM = """
import sys
import numpy as np
import keras_bert as kb

encoder = kb.load(sys.argv[1] + "/model")
outputs = encoder(dict(np.load(sys.argv[1] + "/inputs.npz")))
np.save(sys.argv[1] + "/outputs.npy", np.asarray(outputs["sequence_output"]))
"""
