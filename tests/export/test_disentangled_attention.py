"""Disentangled attention in every format; its graph needs no operator that LiteRT lacks."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from keras_bert import export
from tests.marks import others_swept

from .conftest import make_model, random_ids
from .test_formats import FORMATS

DISENTANGLED = {
    "position_input": False,
    "num_segments": 0,
    "pooler": False,
    "relative_positions": 64,
}
CONFIGURATIONS = {
    "one row for each distance": {**DISENTANGLED, "key_bias": False},
    "buckets, shared keys, convolution": {
        **DISENTANGLED,
        "position_buckets": 16,
        "shared_position_keys": True,
        "relative_layer_norm": True,
        "convolution_size": 3,
    },
}


PAIRS = [(name, kind) for name in reversed(CONFIGURATIONS) for kind in FORMATS]


@pytest.mark.parametrize(("config", "kind"), others_swept(PAIRS, quick=1 + len(FORMATS)))
def test_artifact_equals_the_model(config, kind, tmp_path):
    write, load = FORMATS[kind]
    model = make_model("encoder", **CONFIGURATIONS[config])
    write(model, tmp_path / "artifact")
    run = load(tmp_path / "artifact")
    for batch, length in ((1, 1), (3, 12), (2, 100)):
        ids = random_ids(batch, length)
        del ids["segment_ids"]
        expected = model(ids)["sequence_output"]
        actual = run(ids)["sequence_output"]
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


def test_no_flex_operators(tmp_path):
    model = make_model("encoder", **CONFIGURATIONS["buckets, shared keys, convolution"])
    export.tflite(model, tmp_path / "a.tflite")
    interpreter = Interpreter(str(tmp_path / "a.tflite"))
    operators = {details["op_name"] for details in interpreter._get_ops_details()}
    assert {"BATCH_MATMUL", "SLICE", "SOFTMAX"} <= operators
    assert not [name for name in operators if name.startswith("Flex") or name == "CUSTOM"]


@pytest.mark.parametrize("kind", others_swept(FORMATS))
def test_enhanced_mask_decoder(kind, tmp_path):
    write, load = FORMATS[kind]
    config = CONFIGURATIONS["buckets, shared keys, convolution"]
    model = make_model("masked_lm", {"enhanced": True}, **config)
    write(model, tmp_path / "artifact")
    run = load(tmp_path / "artifact")
    for batch, length in ((1, 1), (3, 12)):
        ids = random_ids(batch, length)
        del ids["segment_ids"]
        np.testing.assert_allclose(run(ids)["logits"], model(ids), rtol=0, atol=1e-5)
