"""Rotary positions, a bias by distance, and windows of attention."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.families import FAMILIES
from keras_bert.layers import attention, fused
from keras_bert.layers.positions import bucket_of_distances, rotated, rotation
from tests.jax_backend import run_on_jax
from tests.layers.test_encoder import SMALL, padded_batch, random_encoder

WINDOW = {**FAMILIES["modernbert"].TRAITS, "attention_window": 2, "global_interval": 2}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bias_buckets": 2}, "bias_buckets is 2, but must be 0 or an even number from 4 to 256"),
        ({"attention_window": 2, "global_interval": 2}, "need rotary positions; set rotary_base"),
        (
            {"attention_window": 2, "rotary_base": 1e4, "bias_buckets": 8},
            "attention_window cannot be combined with bias_buckets",
        ),
        ({"rotary_base": 1e4, "relative_positions": 4}, "heads of even width and no relative"),
        ({"rotary_base": 1e4, "num_heads": 8}, "the width is 3"),
        ({"prediction_head": True}, "prediction_head needs a classifier_activation"),
        ({"pre_norm": True, "layer_groups": 1}, "pre_norm cannot be combined with layer_groups"),
        ({"num_heads": 4, "num_key_value_heads": 3}, "choose a divisor of 4"),
        ({"num_heads": 4, "num_key_value_heads": 2, "relative_positions": 4}, "num_key_value"),
        ({"embedding_size": 8, "masked_lm_transform": False}, "embedding_size 8 must equal hidden"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields, message):
    with pytest.raises(kb.InputError, match=message):
        kb.EncoderConfig(**SMALL | fields)


def test_only_distances_count_for_rotary_positions():
    encoder = random_encoder(**WINDOW)
    ids = np.arange(8, dtype="int32")[np.newaxis]
    outputs = [
        encoder({"token_ids": ids + 5, "position_ids": ids + first})["sequence_output"]
        for first in (0, 37)
    ]
    np.testing.assert_allclose(*outputs, atol=2e-5)


@pytest.mark.parametrize(("remat", "longest"), [(False, 1024), (True, 1024), (False, 4), (True, 4)])
def test_gradients_of_blocks_are_those_of_the_full_matrix(remat, longest, monkeypatch):
    """The backward pass of texts of more than `longest` tokens attends again."""
    monkeypatch.setattr(attention, "_LONG", longest)
    encoder = kb.Encoder(random_encoder(**WINDOW).config, remat=remat)
    rng = np.random.default_rng(0)
    for variable in encoder.weights:
        variable.assign(rng.normal(0.0, 0.3, variable.shape))
    inputs = {"token_ids": rng.integers(0, 50, (2, 9)).astype("int32")}
    weights, gradients = encoder.trainable_variables, []
    for full in (False, True):
        with tf.GradientTape() as tape:
            outputs = encoder(inputs, training=True, return_attentions=full)["sequence_output"]
            loss = tf.reduce_sum(outputs * tf.sin(tf.reshape(tf.range(432.0), (2, 9, 24))))
        gradients.append(tape.gradient(loss, [weight.value for weight in weights]))
    for weight, blocks, matrix in zip(weights, *gradients, strict=True):
        np.testing.assert_allclose(blocks, matrix, atol=1e-3, rtol=1e-4, err_msg=weight.path)


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
    for layer, probabilities in enumerate(full["attentions"]):
        to_far = np.where(far, np.asarray(probabilities), 0).max(axis=(1, 3))[tokens]
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


@pytest.mark.parametrize(
    ("fields", "remat", "device"),
    [
        ({"rotary_base": 1e4}, False, "CPU"),
        ({"rotary_base": 1e4}, False, "GPU"),
        ({"rotary_base": 1e4}, True, "CPU"),
        ({"bias_buckets": 8}, False, "CPU"),
        ({"num_key_value_heads": 2}, False, "CPU"),
    ],
)
def test_long_texts_attend_in_parts(fields, remat, device, monkeypatch):
    """The same outputs and gradients as at once, with packed documents, padding and a rest."""
    no_dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    encoder = kb.Encoder(random_encoder(**fields, **no_dropout).config, remat=remat)
    visible = [tf.config.PhysicalDevice(f"/physical_device:{device}:0", device)]
    monkeypatch.setattr(
        tf.config, "get_visible_devices", lambda kind=device: visible if kind == device else []
    )
    rng = np.random.default_rng(0)
    for variable in encoder.weights:
        variable.assign(rng.normal(0.0, 0.3, variable.shape))
    token_ids = rng.integers(0, 50, (2, 11)).astype("int32")
    documents = np.array([[1] * 7 + [2] * 4, [1] * 9 + [0] * 2], "int32")
    weights, calls, in_parts_of = encoder.trainable_variables, [], attention._in_parts
    monkeypatch.setattr(attention, "_in_parts", lambda *x: calls.append(1) or in_parts_of(*x))
    for more in ({"padding_mask": (documents > 0).astype("int32")}, {"document_ids": documents}):
        found = []
        for longest in (1024, 4):
            monkeypatch.setattr(attention, "_LONG", longest)
            for module in (attention, fused):
                monkeypatch.setattr(module, "_QUERIES", longest)
            calls.clear()

            @tf.function(autograph=False)
            def step(inputs):
                with tf.GradientTape() as tape:
                    output = encoder(inputs, training=True)["sequence_output"]
                    loss = tf.reduce_sum(output[:, :7] ** 3)
                gradients = tape.gradient(loss, [weight.value for weight in weights])
                return [output, *(x for x in gradients if x is not None)]

            found.append(step({"token_ids": tf.constant(token_ids), **more}))
            assert bool(calls) == (longest == 4)
        assert len(found[0]) == len(found[1])
        for at_once, in_parts in zip(*found, strict=True):
            np.testing.assert_allclose(in_parts, at_once, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("fields", [WINDOW, {"rotary_base": 1e4}], ids=["windows", "parts"])
def test_long_texts_have_dropout_on_their_probabilities(fields, monkeypatch):
    monkeypatch.setattr(attention, "_LONG", 4)
    inputs, found = padded_batch(), []
    for rate in (0.0, 0.5):
        encoder = random_encoder(**fields | {"hidden_dropout": 0.0, "attention_dropout": rate})
        found.append(np.asarray(encoder(inputs, training=True)["sequence_output"]))
    assert np.abs(found[0] - found[1]).max() > 0.01
