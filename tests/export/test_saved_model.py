"""SavedModels: from text, in processes that know nothing of this package."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.eager import context
from tensorflow.python.util._pywrap_util_port import IsMklEnabled

from keras_bert import InputError, Preprocessor, SequenceClassifier, export
from keras_bert.checkpoints.text_format import read_text_format
from keras_bert.export._saved_model import convert
from keras_bert.families import FAMILIES
from keras_bert.layers import attention, fused
from tests.marks import others_swept
from tests.text.test_loading import FILES, byte_pair, sentencepiece

from .conftest import HARD_TEXTS, make_model, random_ids

FIXTURES = Path(__file__).parent.parent / "fixtures"
STRANGER = """
import sys
import numpy as np, tensorflow as tf, tensorflow_text
signatures = tf.saved_model.load(sys.argv[1]).signatures
texts = open(sys.argv[2], "rb").read().split(b"\\xff")
one = signatures["serving_default"](text=tf.constant(texts))
two = signatures["text_pair"](text=tf.constant(texts), text_pair=tf.constant(texts[::-1]))
none = signatures["serving_default"](text=tf.zeros([0], tf.string))
assert "keras_bert" not in sys.modules
np.savez(sys.argv[3], one=one["logits"], two=two["logits"], none=none["scores"],
         score=one["score"], scores=one["scores"], label=one["label"].numpy().astype("S"),
         labels=one["labels"].numpy().astype("S"))
"""


def predicted(model, texts):
    return np.array(model.predict_rows(model.rows(texts)))


def to_bytes(text):
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


@pytest.fixture(scope="module")
def exported(classifier, tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved") / "1"
    export.saved_model(classifier, directory, logits=True)
    return directory


def test_texts_in_a_fresh_process(classifier, exported, tmp_path):
    (tmp_path / "texts").write_bytes(b"\xff".join(map(to_bytes, HARD_TEXTS)))
    subprocess.run(
        [sys.executable, "-c", STRANGER, exported, tmp_path / "texts", tmp_path / "out.npz"],
        check=True,
        cwd=tmp_path,
    )
    found = np.load(tmp_path / "out.npz")
    expected = predicted(classifier, HARD_TEXTS)
    np.testing.assert_allclose(found["one"], expected, rtol=0, atol=1e-5)
    pairs = predicted(classifier, (HARD_TEXTS, HARD_TEXTS[::-1]))
    np.testing.assert_allclose(found["two"], pairs, rtol=0, atol=1e-5)
    assert found["none"].shape == (0, 3)
    answers = classifier.predict_text(HARD_TEXTS)
    assert [label.decode() for label in found["label"]] == [a["label"] for a in answers]
    np.testing.assert_allclose(found["score"], [a["score"] for a in answers], atol=1e-5)
    assert [name.decode() for name in found["labels"][0]] == list(classifier.labels)


def test_invalid_utf8_is_no_error(exported):
    signature = tf.saved_model.load(str(exported)).signatures["serving_default"]
    scores = signature(text=tf.constant([b"\xff\xfe bad \xc3", b"good"]))["scores"]
    assert np.isfinite(scores).all()


def ask_c_api(directory, texts, **options):
    """Answer of TensorFlow's C API, in a process that does not import TensorFlow."""
    file = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    signature = file.meta_graphs[0].signature_def["serving_default"]
    request = {
        "directory": str(directory),
        "text": signature.inputs["text"].name,
        "scores": signature.outputs["scores"].name,
        "texts": texts,
    }
    result = subprocess.run(
        [sys.executable, Path(__file__).with_name("c_api.py")],
        input=json.dumps(request | options),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


SHORT_TEXTS = [text for text in HARD_TEXTS if len(text) < 100 and "\ud800" not in text]


def test_the_loader_of_tensorflow_serving(classifier, exported):
    reply = ask_c_api(exported, SHORT_TEXTS)
    expected = tf.nn.softmax(predicted(classifier, SHORT_TEXTS)).numpy()
    np.testing.assert_allclose(reply["scores"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", others_swept(["modernbert", "eurobert"]))
def test_newer_encoders_in_the_loader(family, tmp_path, monkeypatch):
    """Their tokenizers, and texts that are long enough to attend in parts."""
    preprocessor = read_text_format(FIXTURES / "text_format" / family, 160)
    size = len(preprocessor.vocabulary)
    traits = FAMILIES[family].TRAITS | {"vocabulary_size": size, "max_positions": 160}
    arguments = {"num_labels": 3, "pooling": "mean"}  # so that every part counts
    model = make_model("classifier", arguments, preprocessor.with_length(160), **traits)
    texts = [
        "The cat sat on the mat.",
        "a zebra,  don't 1234567\n\n(the end) " * 4,
        "caf\u00e9 " * 90,
    ]
    expected = tf.nn.softmax(predicted(model, texts)).numpy()
    monkeypatch.setattr(attention, "_LONG", 64)
    export.saved_model(model, tmp_path / "1")
    found = ask_c_api(tmp_path / "1", texts)["scores"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_many_callers_at_once(classifier, exported):
    reply = ask_c_api(exported, SHORT_TEXTS, callers=32, requests=1000)
    expected = tf.nn.softmax(predicted(classifier, SHORT_TEXTS)).numpy()
    np.testing.assert_allclose(reply["scores"], expected, rtol=0, atol=1e-5)
    assert reply["difference"] <= 1e-5
    before, after = reply["resident"]
    assert after - before < 0.05 * before, reply["resident"]


def test_files(classifier, exported):
    vocabulary = (exported / "assets" / "vocab.txt").read_text("utf-8").splitlines()
    assert tuple(vocabulary) == classifier.preprocessor.vocabulary.tokens
    description = json.loads((exported / "assets.extra" / "keras_bert.json").read_text("utf-8"))
    assert description["labels"] == list(classifier.labels)


@pytest.mark.parametrize(
    ("problem_type", "strings"),
    [
        ("single_label", {"label", "score", "labels"}),
        ("multi_label", {"labels"}),
        ("regression", set()),
    ],
)
@pytest.mark.parametrize("logits", [False, True])
def test_outputs_of_each_kind_of_classifier(problem_type, strings, logits, preprocessor, tmp_path):
    arguments = {"num_labels": 2, "problem_type": problem_type}
    model = make_model(arguments=arguments, preprocessor=preprocessor)
    export.saved_model(model, tmp_path / "1", logits=logits)
    outputs = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"](
        text=tf.constant(["good", "bad"])
    )
    assert set(outputs) == {"scores", *strings, *(["logits"] if logits else [])}
    expected = model.scores(predicted(model, ["good", "bad"]))
    np.testing.assert_allclose(outputs["scores"], expected, rtol=0, atol=1e-5)


BYTE_PAIR = {"tokenizer": byte_pair(), "separators_in_pair": 2, "num_segments": 1}
SENTENCEPIECE = {"tokenizer": sentencepiece(with_mask=False, last_tokens=["[MASK]"])}


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (BYTE_PAIR, {"position_offset": 1, "num_segments": 1}),
        (SENTENCEPIECE, {"relative_positions": 16, "num_segments": 0}),
    ],
    ids=["byte_pair", "sentencepiece"],
)
def test_other_tokenizers(text, config, tmp_path):
    preprocessor = Preprocessor(sequence_length=32, **text)
    size = len(preprocessor.vocabulary)
    model = make_model(preprocessor=preprocessor, vocabulary_size=size, **config)
    export.saved_model(model, tmp_path / "1", logits=True)
    names = sorted(file.name for file in (tmp_path / "1" / "assets").iterdir())
    assert names == FILES[preprocessor.tokenizer.kind]
    for texts in (HARD_TEXTS, (HARD_TEXTS, HARD_TEXTS[::-1])):
        report = export.verify(model, [tmp_path / "1"], texts, seconds=0)
        assert [row.takes for row in report.rows][1:] == ["ids"]
        assert max(row.difference for row in report.rows) <= 1e-5
        assert {row.agreement for row in report.rows} == {100}


@pytest.mark.parametrize("task", others_swept(["token_classifier", "masked_lm"]))
def test_no_more_tokens_than_the_longest_text_has(task, preprocessor, tmp_path):
    model = make_model(task, preprocessor=preprocessor)
    texts = ["good", "not good at all", ""]
    tokens = model.preprocessor(texts)["padding_mask"].numpy().sum(axis=1)
    assert tokens.max() < model.preprocessor.sequence_length
    export.saved_model(model, tmp_path / "1")
    signature = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    assert signature(text=tf.constant(texts))["logits"].shape[:2] == (3, tokens.max())
    assert signature(text=tf.constant(texts[2:]))["logits"].shape[:2] == (1, 2)
    assert signature(text=tf.zeros([0], tf.string))["logits"].shape[0] == 0
    report = export.verify(model, [tmp_path / "1"], texts, seconds=0)
    assert max(row.difference for row in report.rows) <= 1e-5


def test_without_preprocessor_there_are_only_ids(tmp_path):
    model = make_model("masked_lm")
    export.saved_model(model, tmp_path / "1")
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    assert list(signatures) == ["ids"]
    specification = signatures["ids"].structured_input_signature[1]
    assert set(specification) == set(random_ids(1, 1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bfloat16, large"])
@pytest.mark.parametrize(("hidden_size", "with_text"), [(256, False), (512, True)])
def test_weights_are_stored_once(
    hidden_size, with_text, dtype, preprocessor, tmp_path, monkeypatch
):
    """In bfloat16, kernels are constants, but variables if the graph's file would be too large."""
    dtype, *large = dtype.split(", ")
    if large:
        monkeypatch.setattr(convert, "_LARGEST", 1000)
    model = make_model(
        preprocessor=preprocessor if with_text else None,
        vocabulary_size=8192,
        hidden_size=hidden_size,
        num_layers=4,
        num_heads=4,
        intermediate_size=4 * hidden_size,
        max_positions=512,
    )
    export.saved_model(model, tmp_path / "1", dtype=dtype)
    size = sum(f.stat().st_size for f in (tmp_path / "1").rglob("*") if f.is_file())
    weights = sum(int(np.prod(weight.shape)) for weight in model.weights)
    weights *= {"float32": 4, "bfloat16": 2}[dtype]
    assert weights < size <= 1.05 * weights
    kernels = 2 * 4 * 12 * hidden_size**2  # bytes, in four layers
    has_constants = (tmp_path / "1" / "saved_model.pb").stat().st_size > kernels
    assert has_constants == (dtype == "bfloat16" and not large)


@pytest.mark.parametrize(
    "fields", [{"rotary_base": 1e4}, {"num_key_value_heads": 1}, {}, {"bias_buckets": 8}]
)
def test_long_texts_attend_in_parts(fields, tmp_path, monkeypatch):
    """The same outputs as in Keras below, at and above the limit, which is 64 tokens here."""
    model = make_model("encoder", max_positions=160, **fields)
    inputs = random_ids(2, 150)
    expected = {n: model(random_part(inputs, n))["sequence_output"].numpy() for n in (3, 64, 150)}
    has_loops = []
    monkeypatch.setattr(fused, "_QUERIES", 64)
    for longest in (160, 64):
        monkeypatch.setattr(attention, "_LONG", longest)
        export.saved_model(model, tmp_path / "1")
        has_loops.append(b"While" in (tmp_path / "1/saved_model.pb").read_bytes())
    assert has_loops == [False, "bias_buckets" not in fields]
    ids = tf.saved_model.load(str(tmp_path / "1")).signatures["ids"]
    for length, values in expected.items():
        found = ids(**random_part(inputs, length))["sequence_output"].numpy()
        np.testing.assert_allclose(found, values, atol=2e-5)
    no_texts = {name: values[:0] for name, values in inputs.items()}
    assert ids(**random_part(no_texts, 150))["sequence_output"].shape[0] == 0


def random_part(inputs, length):
    return {name: tf.constant(values[:, :length]) for name, values in inputs.items()}


BFLOAT16_TASKS = {
    "classifier": {"num_labels": 3},
    "token_classifier": {"labels": ["O", "B-A", "I-A"], "crf": True, "scheme": "iob2"},
    "encoder": None,
    "embedder": None,
    "masked_lm": None,
    "span_classifier": None,
}


@pytest.mark.parametrize("task", others_swept(BFLOAT16_TASKS, quick=("token_classifier",)))
def test_bfloat16(task, preprocessor, tmp_path):
    text = None if task == "encoder" else preprocessor
    model = make_model(task, BFLOAT16_TASKS[task], text, num_layers=2)
    signatures = []
    for dtype in ("float32", "bfloat16"):
        export.saved_model(model, tmp_path / dtype, dtype=dtype)
        signatures.append(tf.saved_model.load(str(tmp_path / dtype)).signatures)
    float32, bfloat16 = signatures
    assert [*float32] == [*bfloat16]
    ids = random_ids(4, 12)
    outputs = bfloat16["ids"](**ids)
    for name, expected in float32["ids"](**ids).items():
        assert outputs[name].dtype == expected.dtype
        if expected.dtype.is_floating:
            gap = np.abs(outputs[name] - expected).max()
            assert 1e-6 < gap <= 2**-6 * max(1, np.abs(expected).max())
    for name in {*bfloat16} - {"ids"}:
        columns = {key: tf.constant(["the good film", ""]) for key in inputs_of(bfloat16[name])}
        for key, value in bfloat16[name](**columns).items():
            assert value.dtype in (tf.float32, tf.int32, tf.string), key


FORMS_OF_ATTENTION = {
    "rotary": {"rotary_base": 1e4},
    "DeBERTa": {"relative_positions": 8, "position_buckets": 4},
    "DeBERTa, one head": {"relative_positions": 8, "position_buckets": 4, "num_heads": 1},
    "MPNet": {"bias_buckets": 8},
    "fewer keys": {"rotary_base": 1e4, "num_key_value_heads": 1},
    "ALBERT": {"layer_groups": 1},
}


@pytest.mark.parametrize(
    "fields", others_swept(FORMS_OF_ATTENTION.values(), 1), ids=FORMS_OF_ATTENTION
)
def test_attention_in_bfloat16(fields, tmp_path, monkeypatch):
    """Padding, and texts on both sides of the length at which texts attend in parts."""
    monkeypatch.setattr(attention, "_LONG", 64)
    model = make_model("encoder", num_layers=2, max_positions=160, **fields)
    for weight in model.weights:
        if "query" in weight.path:  # otherwise, small weights hide the scale of the logits
            weight.assign(10 * weight)
    export.saved_model(model, tmp_path / "1", dtype="bfloat16")
    ids = tf.saved_model.load(str(tmp_path / "1")).signatures["ids"]
    for length in (20, 100):
        inputs = random_part(random_ids(3, 100), length)
        found, expected = (f["sequence_output"].numpy() for f in (ids(**inputs), model(inputs)))
        gaps = np.abs(found - expected)[inputs["padding_mask"].numpy() > 0]
        assert 1e-6 < gaps.mean() < 2**-7


def inputs_of(signature):
    return signature.structured_input_signature[1]


@pytest.mark.parametrize("adapted", [False, True])
def test_bfloat16_weights(adapted, preprocessor, tmp_path):
    """Adapters are merged, int8 weights are rounded, and the CRF's variables stay float32."""
    arguments = BFLOAT16_TASKS["token_classifier"]
    model = make_model("token_classifier", arguments, preprocessor)
    plain = make_model("token_classifier", arguments, preprocessor)
    if adapted:
        model.enable_lora(2)
    else:
        model.quantize("int8")
    export.saved_model(model, tmp_path / "1", dtype="bfloat16")
    reader = tf.train.load_checkpoint(str(tmp_path / "1" / "variables" / "variables"))
    variables = reader.get_variable_to_dtype_map()
    stored = [dtype for name, dtype in variables.items() if name.startswith("weights/")]
    crf = [weight for weight in plain.weights if "crf" in weight.path]
    kernels = [weight for weight in plain.weights if weight.name == "kernel"]
    assert stored.count(tf.float32) == len(crf) > 0
    assert stored.count(tf.bfloat16) == len(plain.weights) - len(crf) - len(kernels)
    constants = collections.Counter(
        tuple(axis.size for axis in tensor.tensor_shape.dim)
        for tensor in constants_of(tmp_path / "1")
        if tensor.dtype == tf.bfloat16.as_datatype_enum
    )
    expected = collections.Counter(tuple(kernel.shape) for kernel in kernels)
    assert {shape: constants[shape] for shape in expected} == expected


def constants_of(directory):
    file = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    parts = {field.name: part for field, part in file.meta_graphs[0].graph_def.ListFields()}
    functions = parts["library"].function
    nodes = [node for function in functions for node in function.node_def if node.op == "Const"]
    return [node.attr["value"].tensor for node in nodes]


def test_bfloat16_on_a_processor_without_it(classifier, tmp_path):
    """oneDNN has bfloat16 only with AVX-512. On other processors, TensorFlow uses own kernels."""
    export.saved_model(classifier, tmp_path / "1", logits=True, dtype="bfloat16")
    texts = [text for text in HARD_TEXTS if len(text) < 100]
    (tmp_path / "texts").write_bytes(b"\xff".join(map(to_bytes, texts)))
    subprocess.run(
        [sys.executable, "-c", STRANGER, tmp_path / "1", tmp_path / "texts", tmp_path / "out.npz"],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"},
    )
    expected = predicted(classifier, texts)
    found = np.load(tmp_path / "out.npz")["one"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=2**-6 * max(1, np.abs(expected).max()))


class Scaled(SequenceClassifier):
    def __init__(self, encoder, scale, **options):
        super().__init__(encoder, **options)
        self.scale = scale


class Late(SequenceClassifier):
    def __init__(self, encoder, **options):
        super().__init__(encoder, **options)
        self.late = keras.layers.Dense(3, name="projection")

    def call(self, inputs, training=None):
        return self.late(super().call(inputs, training=training))


def test_what_a_copy_would_lose_is_refused(tmp_path):
    encoder = make_model("encoder")
    quantized = make_model()
    quantized.quantize("int4")
    late = Late(encoder, num_labels=3)
    late(random_ids(1, 4))
    cases = {
        "A Scaled cannot be copied: .*scale.*get_config": Scaled(encoder, 2.0, num_labels=3),
        "has no weight '.*/projection/bias' of this shape": late,
        "no weight .* of this shape.* quantize only to int8": quantized,
    }
    for message, model in cases.items():
        with pytest.raises(InputError, match=message):
            export.saved_model(model, tmp_path / "1", dtype="bfloat16")
    assert not any(tmp_path.iterdir())


def test_only_known_dtypes(classifier, tmp_path):
    with pytest.raises(InputError, match="'float16', but must be one of float32, bfloat16"):
        export.saved_model(classifier, tmp_path / "1", dtype="float16")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(not IsMklEnabled(), reason="this TensorFlow has no oneDNN")
def test_fused_operations(tmp_path):
    """In bfloat16, oneDNN normalizes, attends, and keeps weights in its own arrangement."""
    model = make_model("encoder", num_layers=3)
    export.saved_model(model, tmp_path / "1", dtype="bfloat16")
    signature = tf.saved_model.load(str(tmp_path / "1")).signatures["ids"]
    context.enable_run_metadata()
    try:
        signature(**random_ids(2, 8))
        graphs = context.export_run_metadata().partition_graphs
    finally:
        context.disable_run_metadata()
    nodes = {node.name: node for graph in graphs for node in graph.node}
    found = collections.Counter(node.op for node in nodes.values())
    assert found["_MklLayerNorm"] == 2 * 3
    assert found["_MklFusedBatchMatMulV2"] == 3
    products = [node for node in nodes.values() if node.op == "_MklNativeFusedMatMul"]
    assert len(products) == 6 * 3 + 1  # and the pooler
    assert all(node.attr["is_filter_const"].b for node in products)


def test_replaces_its_own_and_nothing_else(classifier, exported, tmp_path):
    export.saved_model(classifier, exported)
    other = tmp_path / "other"
    other.mkdir()
    (other / "saved_model.pb").write_text("somebody else's")
    with pytest.raises(InputError, match="not empty"):
        export.saved_model(classifier, other)
    assert (other / "saved_model.pb").read_text() == "somebody else's"
    assert not list(tmp_path.glob(".*"))
