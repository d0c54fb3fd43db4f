"""Keras' JAX backend, in a process of its own: the backend is chosen once."""

import os
import subprocess
import sys

import numpy as np

import keras_bert as kb

# A classifier learns which token stands in one place, too.
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
keras.utils.set_random_seed(1)
classifier = kb.SequenceClassifier(kb.Encoder(config), labels=["no", "yes"])
ids = np.random.default_rng(0).integers(5, 50, (64, 8)).astype("int32")
labels = (ids[:, 3] > 27).astype("int32")
classifier.compile(keras.optimizers.Adam(1e-3), classifier.default_loss())
fit = {"epochs": 40, "batch_size": 16, "verbose": 0}
losses = classifier.fit({"token_ids": ids}, labels, **fit).history["loss"]
assert losses[-1] < 0.5 * losses[0], losses
assert "keras_bert.text" not in sys.modules
"""


def outputs_on_jax(model, inputs, folder):
    """Returns the outputs of the saved model on the JAX backend."""
    kb.save(model, folder / "model")
    np.savez(folder / "inputs.npz", **inputs)
    run_on_jax(PROGRAM, str(folder))
    return np.load(folder / "outputs.npz")


def run_on_jax(program, *arguments):
    subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        check=True,
        timeout=300,
    )
