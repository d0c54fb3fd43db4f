"""Properties that only ONNX files have."""

import json
import re
from collections import Counter

import keras
import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession, SessionOptions

from keras_bert import InputError, export
from keras_bert.checkpoints.variables import named_variables
from keras_bert.layers.configured import ACTIVATION_FUNCTIONS

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


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory):
    """An encoder, its file, and what onnxruntime makes of the file."""
    model = make_model("encoder", num_layers=2)
    path = tmp_path_factory.mktemp("onnx") / "a.onnx"
    export.onnx(model, path)
    options = SessionOptions()
    options.optimized_model_filepath = str(path.with_name("optimized.onnx"))
    InferenceSession(path, options, providers=["CPUExecutionProvider"])
    optimized = onnx.load(options.optimized_model_filepath)
    return model, onnx.load(path).graph, Counter(node.op_type for node in optimized.graph.node)


def test_nothing_is_left_of_the_conversion(two_layers):
    _, graph, _ = two_layers
    assert Counter(node.op_type for node in graph.node) == {
        "MatMul": 18,  # segments, then by layer Q, K, V, logits, context, output, 2; pooler
        "LayerNormalization": 5,
        "Erf": 2,
        "Softmax": 2,
        "Tanh": 1,
        "Add": 23,  # 2 in the embeddings; by layer 6 biases, mask, 2 residuals, in GELU; pooler
        "Div": 2,  # GELU
        "Mul": 5,  # GELU, and the mask
        "Reshape": 10,  # tokens as one matrix, by layer heads and back, as a batch of texts
        "Transpose": 8,
        "Gather": 2,  # tokens; the first of them
        "OneHot": 1,  # segments
        "Shape": 1,  # of the inputs, for all
        "Concat": 2,
        "Slice": 2,  # positions
        "Cast": 3,
        "Sub": 1,  # the mask
        "Unsqueeze": 2,
    }


def test_onnxruntime_makes_large_operators_of_it(two_layers):
    """Not `SkipLayerNormalization`, which takes thrice as long as its parts."""
    _, _, nodes = two_layers
    fused = {"Gemm": 12, "Gelu": 2, "LayerNormalization": 5, "Softmax": 2}
    assert {name: nodes[name] for name in fused} == fused
    assert nodes["MatMul"] == 5  # segments, logits and contexts
    assert not {"Erf", "ReduceMean", "Sqrt", "SkipLayerNormalization", "Div"} & set(nodes)
    assert sum(nodes.values()) < 75


def test_names_are_those_of_the_model(two_layers):
    model, graph, _ = two_layers
    constants = {constant.name for constant in graph.initializer}
    names = set(named_variables(model))
    assert names <= constants
    assert all(re.fullmatch(r"constant_\d+", name) for name in constants - names)
    nodes = {node.name for node in graph.node}
    assert len(nodes) == len(graph.node)
    assert {
        "encoder/embeddings/Gather",
        "encoder/layer_0/attention/query/MatMul",
        "encoder/layer_1/attention/Softmax",
        "encoder/layer_1/intermediate/Erf",
        "encoder/layer_1/output_layer_norm/LayerNormalization",
    } <= nodes
    assert not re.search(r"_\d+/|__\d|Tensordot|strided", "".join(nodes).replace("layer_", ""))


def test_a_tied_embedding_is_stored_once(tmp_path):
    model = make_model("masked_lm", vocabulary_size=5000)
    export.onnx(model, tmp_path / "a.onnx")
    weights = 4 * sum(int(np.prod(weight.shape)) for weight in model.weights)
    assert (tmp_path / "a.onnx").stat().st_size < 1.1 * weights


def test_two_outputs_that_are_the_same(tmp_path):
    model = make_model(arguments={"num_labels": 1, "problem_type": "regression"})
    export.onnx(model, tmp_path / "a.onnx")  # which compares the answers
    outputs = onnx.load(tmp_path / "a.onnx").graph.output
    assert sorted(output.name for output in outputs) == ["logits", "scores"]


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
