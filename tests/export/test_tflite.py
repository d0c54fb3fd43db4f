"""What is particular to TFLite files."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from keras_bert import InputError, export
from keras_bert.export.tflite import fixed_length, tflite_runner

from .conftest import make_model, random_ids


@pytest.fixture(scope="module")
def model():
    return make_model(vocabulary_size=2000, arguments={"num_labels": 4})


@pytest.mark.parametrize(
    ("quantize", "largest", "size"),
    [("none", 1e-5, 1.1), ("float16", 5e-3, 0.6), ("dynamic", 0.1, 0.45)],
)
def test_quantization(quantize, largest, size, model, tmp_path):
    path = tmp_path / "a.tflite"
    export.tflite(model, path, quantize=quantize)
    ids = random_ids(200, 16, 2000)
    expected = np.asarray(model(ids))
    logits = tflite_runner(path)(ids)["logits"]
    assert np.abs(logits - expected).max() <= largest
    assert (logits.argmax(-1) == expected.argmax(-1)).mean() >= 0.97
    weights = 4 * sum(int(np.prod(weight.shape)) for weight in model.weights)
    assert path.stat().st_size <= size * weights


def test_fixed_length(model, tmp_path):
    path = tmp_path / "a.tflite"
    export.tflite(model, path, sequence_length=24)
    details = Interpreter(model_path=str(path)).get_signature_runner().get_input_details()
    assert {tuple(detail["shape"]) for detail in details.values()} == {(1, 24)}
    assert fixed_length(path) == 24
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantize": "int4"}, "no quantization 'int4'"),
        ({"sequence_length": 0}, "sequence_length is 0"),
        ({"sequence_length": 65}, "1 to 64 tokens"),
    ],
)
def test_arguments_that_are_not_possible(arguments, message, model, tmp_path):
    with pytest.raises(InputError, match=message):
        export.tflite(model, tmp_path / "a.tflite", **arguments)
    assert not list(tmp_path.iterdir())
