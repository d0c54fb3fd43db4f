"""Exported files have the kernels with the adapters' products, and no factors."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import export
from keras_bert.layers.lora import adapted_layers
from tests.marks import others_swept

from .conftest import make_model, random_ids
from .test_formats import FORMATS

FACTOR = "lora_kernel"


def adapted(preprocessor, quantize=None):
    labels = {"labels": ["no", "yes", "mäßig"]}
    model = make_model(arguments=labels, preprocessor=preprocessor)
    if quantize:
        model.quantize(quantize)
    model.enable_lora(2, ("query", "output"), lora_alpha=3.0)
    generator = np.random.default_rng(0)
    for layer in adapted_layers(model):
        layer.lora_kernel_b.assign(generator.normal(0, 0.2, layer.lora_kernel_b.shape))
    return model


@pytest.mark.parametrize("format", others_swept(FORMATS, quick=3))
def test_exports_are_merged(format, preprocessor, tmp_path):
    model, ids = adapted(preprocessor), random_ids(4, 9)
    model.predict(ids, verbose=0)  # which compiles a function with the adapters
    before, weights = np.asarray(model(ids)), model.get_weights()
    write, runner = FORMATS[format]
    path = tmp_path / ("1" if format == "saved_model" else f"a.{format}")
    write(model, path)
    np.testing.assert_allclose(runner(path)(ids)["logits"], before, atol=1e-5)
    plain = np.asarray(make_model(arguments={"labels": ["a", "b", "c"]})(ids))
    assert np.abs(plain - before).max() > 1e-3
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    assert not [file for file in files if FACTOR.encode() in file.read_bytes()]
    # The model itself is as it was, and trains on as LoRA.
    assert len(adapted_layers(model)) == 3
    np.testing.assert_array_equal(np.asarray(model(ids)), before)
    for value, weight in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(value, weight)


def test_a_saved_model_stores_no_factors(preprocessor, tmp_path):
    model = adapted(preprocessor)
    export.saved_model(model, tmp_path / "1")
    names = tf.train.list_variables(str(tmp_path / "1" / "variables" / "variables"))
    stored = sum(int(np.prod(shape)) for name, shape in names if name.startswith("weights/"))
    plain = make_model(arguments={"labels": ["a", "b", "c"]})
    assert stored == plain.count_params()


def test_a_base_of_int8_is_exported_as_float32(preprocessor, tmp_path):
    """Only the rounding of activations to int8 is missing in the file."""
    model, ids = adapted(preprocessor, "int8"), random_ids(4, 9)
    export.onnx(model, tmp_path / "a.onnx")
    found = FORMATS["onnx"][1](tmp_path / "a.onnx")(ids)["logits"]
    np.testing.assert_allclose(found, np.asarray(model(ids)), atol=0.03)
    assert model.encoder.encoder_layers[0].attention.query._kernel.dtype == "int8"
