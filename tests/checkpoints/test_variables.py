"""Weights that come from elsewhere are the model's own."""

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints.variables import aligned
from tests.checkpoints.test_google import google_encoder


@pytest.mark.parametrize("format", ["native", "huggingface", "google"])
def test_training_a_loaded_model_leaves_its_files_alone(format, tmp_path):
    encoder = google_encoder(hidden_size=64, vocabulary_size=64)
    kb.save(encoder, tmp_path / "model", format=format)
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    loaded = kb.load(tmp_path / "model")
    for one, two in zip(loaded.weights, encoder.weights, strict=True):
        one.assign_add(np.ones(one.shape, "float32"))
        np.testing.assert_allclose(one, np.asarray(two) + 1, rtol=0, atol=1e-6)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}


@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (2, 3, 4)])
def test_aligned(shape):
    for dtype in ("float32", "float16", "int64"):
        array = aligned(shape, dtype)
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.ctypes.data % 64 == 0
        assert array.flags.writeable
