"""What is particular to ONNX files."""

import json

import keras
import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession

from keras_bert import InputError, export
from keras_bert.layers.activations import ACTIVATION_FUNCTIONS

from .conftest import make_model, random_ids


def test_names_axes_and_metadata(classifier, tmp_path):
    export.onnx(classifier, tmp_path / "a.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "a.onnx"), full_check=True)
    session = InferenceSession(tmp_path / "a.onnx", providers=["CPUExecutionProvider"])
    assert {i.name: (i.shape, i.type) for i in session.get_inputs()} == dict.fromkeys(
        ("token_ids", "segment_ids", "padding_mask"), (["batch", "sequence"], "tensor(int32)")
    )
    shapes = {output.name: output.shape for output in session.get_outputs()}
    assert shapes == {"logits": ["batch", 3], "scores": ["batch", 3]}
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["labels"]) == list(classifier.labels)


def test_an_older_opset(tmp_path):
    model = make_model("encoder")
    export.onnx(model, tmp_path / "a.onnx", opset=14)
    versions = {o.domain: o.version for o in onnx.load(tmp_path / "a.onnx").opset_import}
    assert versions[""] == 14
    session = InferenceSession(tmp_path / "a.onnx", providers=["CPUExecutionProvider"])
    ids = random_ids(3, 9)
    (found,) = session.run(["sequence_output"], ids)
    np.testing.assert_allclose(found, model(ids)["sequence_output"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("relative_positions", [0, 8])
def test_a_single_head(relative_positions, tmp_path):
    """tf2onnx makes a reshape of what it finds to be transposed, and a wrong one."""
    model = make_model("encoder", num_heads=1, relative_positions=relative_positions)
    export.onnx(model, tmp_path / "a.onnx")  # which compares the answers


def test_dense_layers_are_single_products(tmp_path):
    model = make_model("encoder")
    export.onnx(model, tmp_path / "a.onnx")
    nodes = [node.op_type for node in onnx.load(tmp_path / "a.onnx").graph.node]
    assert nodes.count("MatMul") == 10  # segments, Q, K, V, logits, context, output, 2, pooler
    assert nodes.count("Reshape") == 8  # segments, tokens as one matrix, heads, and back


def test_a_tied_embedding_is_stored_once(tmp_path):
    model = make_model("masked_lm", vocabulary_size=5000)
    export.onnx(model, tmp_path / "a.onnx")
    weights = 4 * sum(int(np.prod(weight.shape)) for weight in model.weights)
    assert (tmp_path / "a.onnx").stat().st_size < 1.1 * weights


def test_an_operator_that_onnx_lacks_leaves_nothing_behind(tmp_path, monkeypatch):
    """TensorFlow's exact GELU becomes Erfc, which tf2onnx writes although ONNX has none."""
    path = tmp_path / "a.onnx"
    path.write_text("an earlier file")
    monkeypatch.setitem(ACTIVATION_FUNCTIONS, "gelu", lambda x: keras.ops.gelu(x, False))
    with pytest.raises(InputError, match="ONNX.*nothing was written"):
        export.onnx(make_model(), path)
    assert path.read_text() == "an earlier file"
    assert [file.name for file in tmp_path.iterdir()] == ["a.onnx"]


def test_an_opset_that_is_not_possible(classifier, tmp_path):
    with pytest.raises(InputError, match="opset is 99; it can be 14 to 18"):
        export.onnx(classifier, tmp_path / "a.onnx", opset=99)
