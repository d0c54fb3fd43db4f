"""The encoder and its heads on Keras' JAX backend, where TensorFlow is not needed."""

import os
import subprocess
import sys

import numpy as np

import keras_bert as kb
from tests.layers.test_encoder import padded_batch, random_encoder

# A process of its own: Keras' backend is chosen once. The model learns which token stands first.
PROGRAM = """
import sys
import keras, numpy as np
import keras_bert as kb

assert keras.backend.backend() == "jax"
directory = sys.argv[1]
model = kb.load(directory + "/model")
inputs = dict(np.load(directory + "/inputs.npz"))
outputs = model(inputs)
np.savez(directory + "/outputs.npz", **{n: np.asarray(x) for n, x in outputs.items()})

config = model.config.replace(
    **{"hidden_dropout": 0.0, "layer_groups": 1, "position_offset": 2, "num_segments": 1},
    **{"embedding_size": 8, "classifier_activation": "gelu"},
)
classifier = kb.SequenceClassifier(kb.Encoder(config), labels=["no", "yes"])
ids = np.random.default_rng(0).integers(5, 50, (64, 8)).astype("int32")
labels = (ids[:, 3] > 27).astype("int32")
classifier.compile(keras.optimizers.Adam(3e-3), classifier.default_loss())
fit = {"epochs": 20, "batch_size": 16, "verbose": 0}
losses = classifier.fit({"token_ids": ids}, labels, **fit).history["loss"]
assert losses[-1] < 0.5 * losses[0], losses
assert "keras_bert.text" not in sys.modules
"""


def test_same_outputs_and_a_training_step(tmp_path):
    model, inputs = kb.PretrainingModel(random_encoder()), padded_batch()
    kb.save(model, tmp_path / "model")
    np.savez(tmp_path / "inputs.npz", **inputs)
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        check=True,
        timeout=300,
    )
    outputs = np.load(tmp_path / "outputs.npz")
    for name, expected in model(inputs).items():
        np.testing.assert_allclose(outputs[name], expected, atol=2e-5)
