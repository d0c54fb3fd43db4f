"""ONNX files run in OpenVINO, too, with the outputs of ONNX's reference evaluator."""

import numpy as np
import pytest

from keras_bert import export
from tests.marks import others_slow

from .conftest import make_model, random_ids
from .test_onnx_quantization import DIFFERENCES, evaluate

openvino = pytest.importorskip("openvino")


@pytest.mark.parametrize("quantize", others_slow(["none", "float16", "dynamic"]))
def test_the_same_answers(quantize, tmp_path):
    model = make_model("pretraining", num_layers=2)
    export.onnx(model, tmp_path / "a.onnx", quantize=quantize)
    core = openvino.Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}  # not bfloat16
    compiled = core.compile_model(core.read_model(tmp_path / "a.onnx"), "CPU", exact)
    allowed = {"none": 1e-5, **DIFFERENCES}[quantize]
    for batch, length in ((3, 20), (1, 1), (2, 64)):
        ids = random_ids(batch, length)
        found = {name: compiled(ids)[name] for name in ("mlm_logits", "nsp_logits")}
        for name, expected in evaluate(str(tmp_path / "a.onnx"), ids).items():
            assert found[name].shape == expected.shape
            assert np.abs(found[name] - expected).max() <= allowed * max(1, np.abs(expected).max())
