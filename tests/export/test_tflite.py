"""Properties that only TFLite files for ids have."""

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from keras_bert import InputError, export
from keras_bert.export._tflite.convert import tflite_runner
from keras_bert.export._tflite.quantization import with_mask_value
from keras_bert.export.quantization import kept_float
from keras_bert.families import FAMILIES
from tests.marks import others_swept

from .conftest import TASKS, make_model, random_ids
from .test_formats import OTHERS, SMALL


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return make_model(vocabulary_size=2000, arguments={"num_labels": 4})


def input_shapes(path):
    details = Interpreter(model_path=str(path)).get_signature_runner().get_input_details()
    return {tuple(detail["shape_signature"]) for detail in details.values()}


@pytest.mark.parametrize(
    ("quantize", "largest", "size"),
    [("none", 1e-5, 1.1), ("float16", 5e-3, 0.6), ("dynamic", 0.1, 0.45)],
)
def test_quantization(quantize, largest, size, model, tmp_path):
    path = tmp_path / "a.tflite"
    export.tflite(model, path, quantize=quantize)
    assert input_shapes(path) == {(-1, -1)}
    ids = random_ids(200, 16, 2000)
    expected = np.asarray(model(ids))
    logits = tflite_runner(path)(ids)["logits"]
    assert np.abs(logits - expected).max() <= largest
    assert (logits.argmax(-1) == expected.argmax(-1)).mean() >= 0.97
    weights = 4 * sum(int(np.prod(weight.shape)) for weight in model.weights)
    assert path.stat().st_size <= size * weights


@pytest.mark.parametrize(
    ("batch_size", "shape"),
    [(None, (1, 24)), pytest.param(3, (3, 24), marks=pytest.mark.slow)],
)
def test_fixed_shape(batch_size, shape, model, tmp_path):
    path = tmp_path / "a.tflite"
    export.tflite(model, path, sequence_length=24, batch_size=batch_size)
    assert input_shapes(path) == {shape}
    ids = random_ids(5, 24, 2000)
    np.testing.assert_allclose(tflite_runner(path)(ids)["logits"], model(ids), rtol=0, atol=1e-5)


def test_signature_and_operators(model, tmp_path):
    export.tflite(model, tmp_path / "a.tflite")
    interpreter = Interpreter(model_path=str(tmp_path / "a.tflite"))
    signature = interpreter.get_signature_list()["serving_default"]
    assert signature == {
        "inputs": ["padding_mask", "segment_ids", "token_ids"],
        "outputs": ["logits", "scores"],
    }
    names = {operator["op_name"] for operator in interpreter._get_ops_details()}
    assert not [name for name in names if name.startswith("Flex") or name == "CUSTOM"]


# Full int8


def types_of_results(path):
    """The types that operators of a file give, by the layers that they are in."""
    interpreter = Interpreter(model_path=str(path))
    details = {detail["index"]: detail for detail in interpreter.get_tensor_details()}
    return [
        (details[index]["name"], np.dtype(details[index]["dtype"]).name)
        for operator in interpreter._get_ops_details()
        if operator["op_name"] not in ("QUANTIZE", "DEQUANTIZE", "DELEGATE", "CAST", "NEG")
        for index in operator["outputs"]
    ]


def error(path, model, ids):
    """Mean difference of logits, as a share of their deviation."""
    expected = np.asarray(model(ids))
    return np.abs(tflite_runner(path)(ids)["logits"] - expected).mean() / expected.std()


def test_int8_keeps_layers_float_on_request(model, tmp_path):
    options = {"quantize": "int8", "representative": random_ids(40, 16, 2000, seed=5)}
    options["sequence_length"] = 16
    export.tflite(model, tmp_path / "all.tflite", **options)
    kept = ["embeddings", "*layer_norm", "layer_*/add", "layer_0/attention", "pooler", "classifier"]
    export.tflite(model, tmp_path / "some.tflite", keep_float=kept, **options)
    everything = types_of_results(tmp_path / "all.tflite")
    assert {kind for name, kind in everything if "layer_0" in name} == {"int8"}
    some = types_of_results(tmp_path / "some.tflite")
    assert {kind for name, kind in some if "attention_" in name.split(";")[0]} == {"float32"}
    assert {kind for name, kind in some if "intermediate" in name} == {"int8"}
    ids = random_ids(64, 16, 2000)
    errors = [error(tmp_path / f"{name}.tflite", model, ids) for name in ("some", "all")]
    assert errors[0] < 0.7 * errors[1] < 0.7
    weights = 4 * sum(int(np.prod(weight.shape)) for weight in model.weights)
    assert (tmp_path / "all.tflite").stat().st_size < 0.45 * weights


def test_int8_from_texts_of_any_length(classifier, tmp_path):
    texts = ["the good film", "the bad film was bad!", "", "x y z"] * 8
    export.tflite(classifier, tmp_path / "a.tflite", quantize="int8", representative=texts)
    assert input_shapes(tmp_path / "a.tflite") == {(-1, -1)}
    ids = {name: np.asarray(x) for name, x in classifier.preprocessor(texts[:3]).items()}
    scores = tflite_runner(tmp_path / "a.tflite")(ids)["scores"]
    np.testing.assert_allclose(scores, classifier.scores(classifier(ids)), rtol=0, atol=0.1)


@pytest.mark.parametrize("task", TASKS)
def test_a_copy_with_another_mask_value(task):
    model = make_model(task)
    copy = with_mask_value(model, -100.0)
    assert (copy.config.mask_value, model.config.mask_value) == (-100.0, -1e4)
    for ours, theirs in zip(copy.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("layer", "place", "found"),
    [
        ("layer_1", "a/encoder/layer_1/add", True),
        ("layer_1", "a/encoder/layer_1_2/add", True),
        ("layer_1", "a/encoder/layer_11/add", False),
        ("layer_*/output", "a/layer_3_1/output_1/MatMul", True),
        ("layer_*/output", "a/layer_3_1/attention_1/output_1/MatMul", False),
        ("*layer_norm", "a/layer_3/output_layer_norm_1/mul", True),
    ],
)
def test_layers_by_parts_of_names(layer, place, found):
    places = {"of the place": [place], "of others": [layer.replace("*", "any") + "/kernel"]}
    assert ("of the place" in kept_float([layer], places)) is found


@pytest.mark.slow
@pytest.mark.parametrize("family", others_swept(OTHERS))
def test_int8_of_every_family(family, tmp_path):
    task, changes = OTHERS[family]
    model = make_model(task, **FAMILIES[family].TRAITS | SMALL | changes)
    options = {"quantize": "int8", "representative": random_ids(16, 12), "sequence_length": 12}
    export.tflite(model, tmp_path / "a.tflite", **options)
    assert "int8" in {kind for _, kind in types_of_results(tmp_path / "a.tflite")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantize": "int4"}, "no quantization 'int4'"),
        ({"quantize": None}, "no quantization None. Did you mean 'none'"),
        ({"sequence_length": 0}, "sequence_length is 0"),
        ({"sequence_length": 65}, "1 to 64 tokens"),
        ({"batch_size": 2}, "give a sequence_length, too"),
        ({"batch_size": 0, "sequence_length": 8}, "batch_size is 0"),
        ({"quantize": "int8"}, "some hundred typical texts"),
        ({"quantize": "int8", "representative": ["a"]}, "has no preprocessor"),
        ({"quantize": "int8", "representative": {"ids": [[1]]}}, "need 'token_ids'"),
        ({"quantize": "int8", "representative": random_ids(0, 3)}, "There are no texts"),
        ({"representative": ["a"]}, "representative is only for quantize='int8'"),
        ({"quantize": "dynamic", "keep_float": ["layer_0"]}, "lets no layer be chosen"),
        ({"quantize": "int8", "keep_float": "layer_0"}, "must be a list"),
        (
            {"quantize": "int8", "representative": random_ids(2, 8), "keep_float": ["head"]},
            "no such layer. It has .*attention.*layer_0",
        ),
    ],
)
def test_arguments_that_are_not_possible(arguments, message, model, tmp_path):
    with pytest.raises(InputError, match=message):
        export.tflite(model, tmp_path / "a.tflite", **arguments)
    assert not list(tmp_path.iterdir())
