"""ONNX files with smaller weights.

Differences are measured with ONNX's reference evaluator; onnxruntime must give the same answers.
"""

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from keras_bert import InputError, export
from keras_bert.export._onnx import quantization as onnx_quantization
from keras_bert.export._onnx.convert import onnx_runner
from keras_bert.families import FAMILIES
from tests.marks import others_swept

from .conftest import make_model, random_ids
from .test_formats import OTHERS, SMALL

SIZES = {"float16": 0.53, "dynamic": 0.32}  # of float32; rows as narrow as these cost more
DIFFERENCES = {"float16": 5e-3, "dynamic": 0.1}


class OneHot(OpRun):
    """ONNX's OneHot on the last axis; the evaluator's own refuses a depth of shape [1]."""

    def _run(self, indices, depth, values, axis=-1):
        assert axis == -1
        return (values[(indices[..., None] == np.arange(depth.item())).astype(int)],)


def evaluate(proto, inputs):
    evaluator = ReferenceEvaluator(proto, new_ops=[OneHot])
    return dict(zip(evaluator.output_names, evaluator.run(None, dict(inputs)), strict=True))


@pytest.fixture(scope="module")
def masked_lm():
    """Its embeddings are its output matrix, and much of its size."""
    return make_model("masked_lm", vocabulary_size=3000, intermediate_size=512, num_layers=2)


@pytest.fixture(scope="module")
def files(masked_lm, tmp_path_factory):
    directory = tmp_path_factory.mktemp("quantized")
    for name in ("none", "float16", "dynamic"):
        export.onnx(masked_lm, directory / f"{name}.onnx", quantize=name)
    return {path.stem: path for path in directory.iterdir()}


@pytest.mark.parametrize("name", SIZES)
def test_size_and_difference(name, files):
    assert files[name].stat().st_size < SIZES[name] * files["none"].stat().st_size
    ids = random_ids(16, 33, vocabulary_size=3000)
    texts = [{key: rows[[i]] for key, rows in ids.items()} for i in range(16)]
    expected, actual, runtime = (
        np.concatenate([run(text)["logits"] for text in texts])[ids["padding_mask"].astype(bool)]
        for run in (
            lambda text: evaluate(str(files["none"]), text),
            lambda text: evaluate(str(files[name]), text),
            onnx_runner(files[name]),
        )
    )
    bound = DIFFERENCES[name] * np.abs(expected).max()
    assert 0 < np.abs(actual - expected).max() < bound
    # On processors without VNNI, too, where onnxruntime adds two products in 16 bits. A value in
    # the middle of two integers may be rounded to either, which changes many values of the text.
    difference = np.abs(runtime - actual)
    assert np.median(difference) < 1e-5
    assert difference.max() < bound
    empty = {key: np.zeros((0, 5), "int32") for key in ids}
    assert onnx_runner(files[name])(empty)["logits"].shape == (0, 5, 3000)


def test_every_matrix_is_stored_once_in_int8(files):
    """An embedding that is also the output matrix has a scale for every row, for both uses."""
    graph = onnx.load(files["dynamic"]).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    table = stored["encoder/embeddings/token_embedding:int8"]
    assert table.data_type == TensorProto.INT8
    assert list(stored["encoder/embeddings/token_embedding:scale"].dims) == [3000]
    integers = numpy_helper.to_array(table).astype(int)
    neighbors = np.abs(integers[:, :-1] + integers[:, 1:])
    assert neighbors.max() <= 128  # 255 * 128 fits into 16 bits
    assert (np.maximum(np.abs(integers).max(1), neighbors.max(1)) >= 126).all()
    wide = [t.name for t in graph.initializer if t.data_type == 1 and min([*t.dims, 0][:2]) >= 16]
    assert wide == ["encoder/embeddings/position_embedding"]  # which is added, not multiplied
    nodes = [node.op_type for node in graph.node]
    assert nodes.count("MatMulInteger") == 14  # 6 a layer, the head's layer and its outputs
    # Once for Q, K and V; normalized values with one scale, others with one for each row.
    assert (nodes.count("DynamicQuantizeLinear"), nodes.count("QuantizeLinear")) == (5, 5)


def test_rows_do_not_spoil_one_another():
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(64, 32)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 32])],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 18)
    proto = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    model = onnx_ir.from_proto(proto)
    onnx_quantization.store(model, "dynamic", ["w"], [])
    stored = onnx_ir.to_proto(model)
    x = generator.normal(size=(5, 64)) * np.array([[1e-3], [1], [0], [1e3], [1e6]])
    y = evaluate(stored, {"x": x.astype("float32")})["y"]
    expected = x @ weights
    size = np.linalg.norm(expected, axis=1, keepdims=True) + 1e-30
    assert 1e-4 < np.abs((y - expected) / size).max() < 0.01
    session = onnxruntime.InferenceSession(stored.SerializeToString())
    assert session.run(None, {"x": np.zeros((0, 64), "float32")})[0].shape == (0, 32)


@pytest.mark.parametrize("name", others_swept(["dynamic", "float16"]))
def test_layers_that_stay_as_they_are(name, masked_lm, tmp_path):
    keep = ("layer_0/attention", "*embedding*", "output")
    export.onnx(masked_lm, tmp_path / "a.onnx", quantize=name, keep_float=keep)
    graph = onnx.load(tmp_path / "a.onnx").graph
    floats = {t.name for t in graph.initializer if t.data_type == 1 and len(t.dims) == 2}
    kept = {f"encoder/layer_0/attention/{part}/kernel" for part in ("query", "key", "value")}
    kept |= {
        f"encoder/layer_{i}/{part}output/kernel" for i in (0, 1) for part in ("attention/", "")
    }
    assert kept | {"encoder/embeddings/token_embedding"} <= floats
    assert "encoder/layer_1/attention/query/kernel" not in floats


def test_what_is_not_possible(tmp_path):
    model = make_model()
    with pytest.raises(InputError, match="no quantization 'int4'.*none, float16, dynamic"):
        export.onnx(model, tmp_path / "a.onnx", quantize="int4")
    with pytest.raises(InputError, match="keep_float names 'layer_7'.*attention_layer_norm"):
        export.onnx(model, tmp_path / "a.onnx", quantize="dynamic", keep_float=["layer_7"])
    with pytest.raises(InputError, match="keep_float is only for quantized files"):
        export.onnx(model, tmp_path / "a.onnx", keep_float=["layer_0"])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("family", others_swept(OTHERS))
def test_every_family(family, name, tmp_path):
    task, changes = OTHERS[family]
    model = make_model(task, **FAMILIES[family].TRAITS | SMALL | changes)
    export.onnx(model, tmp_path / "a.onnx", quantize=name)  # which compares the answers
    kinds = {tensor.data_type for tensor in onnx.load(tmp_path / "a.onnx").graph.initializer}
    assert {"float16": TensorProto.FLOAT16, "dynamic": TensorProto.INT8}[name] in kinds
