"""The encoder and its heads on Keras' JAX backend, where TensorFlow is not needed."""

import numpy as np

import keras_bert as kb
from tests.jax_backend import outputs_on_jax
from tests.layers.test_encoder import padded_batch, random_encoder


def test_same_outputs_and_a_training_step(tmp_path):
    model, inputs = kb.PretrainingModel(random_encoder()), padded_batch()
    inputs["document_ids"] = inputs["padding_mask"] * [1, 1, 1, 2, 2, 2, 2, 3, 3]
    outputs = outputs_on_jax(model, inputs, tmp_path)
    for name, expected in model(inputs).items():
        np.testing.assert_allclose(outputs[name], expected, atol=2e-5)
