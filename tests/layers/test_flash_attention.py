"""Attention as one kernel: JAX alone has it, and on CPUs computes the same without one."""

import pytest

from tests.jax_backend import run_on_jax

pytest.importorskip("jax")

PROGRAM = """
import jax
import keras
import numpy as np
from keras_bert.config import EncoderConfig
from keras_bert.layers import attention
from keras_bert.layers.encoder import Encoder

assert not attention.has_flash_attention()  # here, on a CPU
on = {"gpu": True, "tpu": False}
for kind, expected in on.items():
    keras.distribution.list_devices = lambda: [f"{kind}:0"]
    assert attention.has_flash_attention() == expected
keras.distribution.list_devices = lambda: ["gpu:0"]
keras.config.disable_flash_attention()
assert not attention.has_flash_attention()

sizes = dict(vocabulary_size=20, hidden_size=8, num_heads=2, intermediate_size=16, num_layers=2)
encoder = Encoder(EncoderConfig(**sizes, attention_dropout=0.0, hidden_dropout=0.0))
calls = []
kernel = keras.ops.dot_product_attention


def counted(*arguments, **options):
    calls.append(1)
    return kernel(*arguments, **options)


keras.ops.dot_product_attention = counted
rng = np.random.default_rng(0)
ids, mask = rng.integers(5, 20, (2, 6)), np.array([[1] * 6, [1] * 4 + [0] * 2])
rows = np.array([[1, 1, 1, 2, 2, 2], [1, 1, 2, 2, 0, 0]])
frozen = [v.value for v in encoder.non_trainable_variables]


def loss(values, inputs):
    outputs, _ = encoder.stateless_call(values, frozen, inputs, training=True)
    return ((outputs["sequence_output"] * mask[..., None]) ** 3).sum()


for extra in ({}, {"padding_mask": mask}, {"document_ids": rows}):
    inputs = {"token_ids": ids.astype("int32")}
    inputs |= {name: value.astype("int32") for name, value in extra.items()}
    results = []
    for enabled in (False, True):
        (keras.config.enable_flash_attention if enabled else keras.config.disable_flash_attention)()
        calls.clear()
        values = [v.value for v in encoder.trainable_variables]
        results.append(jax.value_and_grad(loss)(values, inputs))
        assert len(calls) == 2 * enabled
    (plain, gradients), (fused, others) = results
    np.testing.assert_allclose(fused, plain, rtol=1e-5)
    for gradient, other in zip(gradients, others):
        np.testing.assert_allclose(other, gradient, atol=1e-5)

assert len(encoder(inputs, return_attentions=True)["attentions"]) == 2
assert encoder(inputs, return_attentions=True)["attentions"][0].shape == (2, 2, 6, 6)
changed = {**inputs, "padding_mask": mask}
del changed["document_ids"]
before = np.asarray(encoder(changed)["sequence_output"])[1, :4]
calls.clear()
changed["token_ids"] = np.where(mask, ids, 7).astype("int32")
assert (changed["token_ids"] != ids).any()
after = np.asarray(encoder(changed)["sequence_output"])[1, :4]
np.testing.assert_allclose(after, before, atol=1e-6)
assert calls
"""


@pytest.mark.slow
def test_same_outputs_and_gradients_and_padding_is_not_seen():
    run_on_jax(PROGRAM)
