"""Models that would be different after opening are not saved."""

import keras
import numpy as np
import pytest

import keras_bert as kb
from keras_bert.finetuning import Recipe, fine_tune
from tests.finetuning import tiny
from tests.marks import others_slow
from tests.trees import tree

TEXTS = ["the film was good", "a poor book"]


def adapted(model):
    """Every dense layer gets an adapter that is not zero."""
    for layer in list(model._flatten_layers()):
        if isinstance(layer, keras.layers.Dense):
            layer.enable_lora(2, lora_alpha=3.0)
            layer.lora_kernel_b.assign(np.full(layer.lora_kernel_b.shape, 0.1, "float32"))
    return model


def outputs(model):
    return np.asarray(model(model.preprocessor(TEXTS)))


@pytest.mark.parametrize("format", others_slow(["native", "huggingface", "google"]))
def test_adapters_are_added_to_what_is_saved(format, tmp_path):
    options = {"activation": "gelu_tanh"}  # which Google's code has
    plain, model = tiny.classifier(options), adapted(tiny.classifier(options))
    expected, names = outputs(model), [weight.path for weight in model.weights]
    assert np.abs(expected - outputs(plain)).max() > 1e-2
    kb.save(model, tmp_path / "model", format=format)
    np.testing.assert_allclose(outputs(kb.load(tmp_path / "model")), expected, atol=1e-6)
    assert [weight.path for weight in model.weights] == names
    np.testing.assert_array_equal(outputs(model), expected)


def test_adapters_of_a_convolution(tmp_path):
    encoder = tiny.encoder(family="deberta-v2", convolution_size=3, relative_positions=8)
    encoder.convolution.convolution.enable_lora(2)
    encoder.convolution.convolution.lora_kernel_b.assign_add(np.full((2, 16), 0.1, "float32"))
    batch = tiny.preprocessor()(TEXTS)
    kb.save(encoder, tmp_path / "model")
    expected = encoder(batch)["sequence_output"]
    opened = kb.load(tmp_path / "model")(batch)["sequence_output"]
    np.testing.assert_allclose(opened, expected, atol=1e-6)


@keras.saving.register_keras_serializable(package="test_saveable")
class Doubled(kb.Encoder):
    def call(self, inputs, **options):
        result = super().call(inputs, **options)
        return result | {"pooled_output": 2.0 * result["pooled_output"]}


class Renamed(kb.SequenceClassifier):
    pass


def quantized(mode):
    model = tiny.classifier()
    model.quantize(mode)
    return model


def doubled():
    encoder = Doubled(tiny.encoder().config)
    return kb.SequenceClassifier(encoder, labels=["bad", "good"], preprocessor=tiny.preprocessor())


def with_a_weight_more():
    model = tiny.classifier()
    layer = model.encoder.encoder_layers[0].output_norm
    layer._tracker.unlock()
    layer.extra = layer.add_weight(shape=(3,), name="extra")
    return model


REFUSED = {
    "int8": (lambda: quantized("int8"), "kernel_scale.* quantized, save it before"),
    "float8": (lambda: quantized("float8"), "quantized, save it before"),
    "int4": (lambda: quantized("int4"), "quantized, save it before"),
    "subclass of Encoder": (doubled, "Cannot save a Doubled; .* Register your own class"),
    "subclass of a task": (
        lambda: Renamed(tiny.encoder(), labels=["bad", "good"], preprocessor=tiny.preprocessor()),
        "Cannot save a Renamed",
    ),
    "a weight more": (with_a_weight_more, "extra does not fit its configuration"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_another_model_is_refused_before_anything_is_written(make, message, tmp_path):
    model = make()
    kb.save(tiny.classifier(), tmp_path / "model")
    before = tree(tmp_path)
    for format in ("native", "huggingface", "google", "keras-hub"):
        with pytest.raises(kb.InputError, match=message):
            kb.save(model, tmp_path / "model", format=format)
        with pytest.raises(kb.InputError, match=message):
            kb.save(model, tmp_path / "new", format=format)
    with pytest.raises(kb.InputError, match=message):
        fine_tune(model, tiny.opinions(8), output=tmp_path / "run", verbose=0)
    assert tree(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_way_out_for_a_subclass(tmp_path):
    model = doubled()
    model.save(tmp_path / "model.keras")
    opened = kb.load(tmp_path / "model.keras")
    assert type(opened.encoder) is Doubled
    np.testing.assert_array_equal(outputs(opened), outputs(model))


def test_fine_tuning_writes_adapters_too(tmp_path):
    model = adapted(tiny.classifier())
    recipe = Recipe(epochs=2, batch_size=8, learning_rate=1e-2)
    fine_tune(model, tiny.opinions(), tiny.opinions(20), recipe=recipe, output=tmp_path, verbose=0)
    np.testing.assert_allclose(outputs(kb.load(tmp_path / "model")), outputs(model), atol=1e-6)
