"""KerasHub opens what `tests.parity.write` wrote, and computes the same.

The environment's PARITY names the directory.
"""

import os
from pathlib import Path

import keras_hub
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.parity.write import TEXTS

CLASSES = {
    "encoder": "BertBackbone",
    "classifier": "BertTextClassifier",
    "masked-lm": "BertMaskedLM",
}


@pytest.mark.parametrize("name", CLASSES)
def test_preset(name):
    folder = str(Path(os.environ["PARITY"], "keras-hub", name))
    model = getattr(keras_hub.models, CLASSES[name]).from_preset(folder)
    tensors = load_file(Path(folder, "reference.safetensors"))
    inputs = {n[6:]: x for n, x in tensors.items() if n.startswith("input.")}
    if name == "masked-lm":
        inputs["mask_positions"] = np.tile(np.arange(9, dtype="int32"), (3, 1))
    outputs = model(inputs)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    for key, actual in outputs.items():
        np.testing.assert_allclose(actual, tensors[f"output.{key}"], rtol=0, atol=1e-5)
    kind = keras_hub.models.BertTextClassifierPreprocessor
    batch = kind.from_preset(folder, sequence_length=20)(np.array(TEXTS))
    for key, value in batch.items():
        assert np.array_equal(value, tensors[f"texts.{key}"]), key
