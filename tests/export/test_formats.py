"""Every task in every format gives the Keras model's numbers."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import export
from keras_bert.export._onnx.convert import onnx_runner
from keras_bert.export._tflite.convert import tflite_runner
from keras_bert.export.signatures import TASK_OUTPUTS
from keras_bert.families import FAMILIES
from keras_bert.tasks.registry import TASKS as REGISTRY
from tests.marks import others_swept

from .conftest import TASKS, make_model, random_ids

SHAPES = [(1, 1), (4, 33), (2, 64), (7, 2)]
OUTPUTS = {
    "encoder": {"sequence_output": ("N", "T", 64), "pooled_output": ("N", 64)},
    "classifier": {"logits": ("N", 3), "scores": ("N", 3)},
    "embedder": {"embedding": ("N", 64)},
    "masked_lm": {"logits": ("N", "T", 66)},
    "multiple_choice": {"logits": ("N",)},
    "next_sentence": {"logits": ("N", 2)},
    "pretraining": {"mlm_logits": ("N", "T", 66), "nsp_logits": ("N", 2)},
    "replaced_token": {"logits": ("N", "T")},
    "span_classifier": {"start_logits": ("N", "T"), "end_logits": ("N", "T")},
    "token_classifier": {"logits": ("N", "T", 3)},
}


def saved_model_runner(path):
    signature = tf.saved_model.load(str(path)).signatures["ids"]
    return lambda inputs: signature(**{name: tf.constant(v) for name, v in inputs.items()})


FORMATS = {
    "saved_model": (export.saved_model, saved_model_runner),
    "tflite": (export.tflite, tflite_runner),
    "onnx": (export.onnx, onnx_runner),
}


def keras_outputs(task, model, ids):
    """Returns the outputs of the Keras model, under the names that artifacts use."""
    if task == "multiple_choice":
        return {"logits": model({name: v[:, None] for name, v in ids.items()})[:, 0]}
    results = model(ids, training=False)
    if task == "classifier":
        return {"logits": results, "scores": tf.nn.softmax(results)}
    name = "embedding" if task == "embedder" else "logits"
    return results if isinstance(results, dict) else {name: results}


@pytest.fixture(scope="module")
def models():
    return {task: make_model(task) for task in TASKS}


def test_the_table_of_outputs_knows_every_task():
    assert set(OUTPUTS) == set(TASKS)
    assert set(TASK_OUTPUTS) == set(REGISTRY)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "task",
    others_swept(TASKS, quick=("classifier", "pretraining")),
)
def test_artifact_equals_the_model(task, kind, models, tmp_path):
    write, load = FORMATS[kind]
    write(models[task], tmp_path / f"a.{kind}")
    run = load(tmp_path / f"a.{kind}")
    for batch, length in SHAPES:
        ids = random_ids(batch, length)
        expected = keras_outputs(task, models[task], ids)
        actual = run(ids)
        sizes = {"N": batch, "T": length}
        assert {name: tuple(value.shape) for name, value in actual.items()} == {
            name: tuple(sizes.get(axis, axis) for axis in axes)
            for name, axes in OUTPUTS[task].items()
        }
        for name, value in expected.items():
            np.testing.assert_allclose(actual[name], value, rtol=0, atol=1e-5)
    empty = {name: np.zeros((0, 5), "int32") for name in ids}
    if (kind, task) == ("tflite", "encoder"):  # LiteRT cannot hand out what ends in a Reshape
        with pytest.raises(ValueError, match="Invalid tensor size"):
            run(empty)
    else:
        assert all(len(value) == 0 for value in run(empty).values())


CONFIGURATIONS = {
    "no segments": {"num_segments": 0, "activation": "relu", "mask_value": -100.0},
    "no pooler": {"activation": "gelu_tanh", "pooler": False, "embedding_size": 24},
}
PAIRS = [(name, kind) for name in CONFIGURATIONS for kind in FORMATS]


@pytest.mark.parametrize(("name", "kind"), others_swept(PAIRS, quick=1 + len(FORMATS)))
def test_other_configurations(name, kind, tmp_path):
    write, load = FORMATS[kind]
    config = CONFIGURATIONS[name]
    model = make_model("encoder", **config)
    write(model, tmp_path / f"a.{kind}")
    ids = random_ids(3, 12)
    if config.get("num_segments") == 0:
        del ids["segment_ids"]
    expected = model(ids)["sequence_output"]
    actual = load(tmp_path / f"a.{kind}")(ids)["sequence_output"]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


SMALL = {"vocabulary_size": 66, "hidden_size": 24, "num_layers": 2, "num_heads": 2}
SMALL |= {"intermediate_size": 32, "max_positions": 32}
OTHERS = {  # a family with what is special about it to the task with the most of it
    "roberta": ("classifier", {}),
    "distilbert": ("classifier", {}),
    "albert": ("pretraining", {"embedding_size": 8, "num_layers": 4, "layer_groups": 2}),
    "electra": ("replaced_token", {"embedding_size": 8}),
    "deberta": ("token_classifier", {}),
    "deberta-v2": ("classifier", {"convolution_size": 3, "position_buckets": 16}),
    "mpnet": ("classifier", {}),
    "gte": ("masked_lm", {}),
    "jina_embeddings_v3": ("classifier", {}),
    "nomic_bert": ("masked_lm", {}),
    "modernbert": ("span_classifier", {"attention_window": 2, "global_interval": 2}),
    "eurobert": ("classifier", {"num_key_value_heads": 1}),
}


@pytest.mark.parametrize("family", others_swept(OTHERS, quick=("roberta", "modernbert")))
def test_every_family_in_every_format(family, tmp_path):
    task, changes = OTHERS[family]
    model = make_model(task, **FAMILIES[family].TRAITS | SMALL | changes)
    ids = random_ids(3, 12)
    expected = {n: np.asarray(x) for n, x in keras_outputs(task, model, ids).items()}
    if model.config.num_segments <= 1:
        del ids["segment_ids"]
    for kind, (write, load) in FORMATS.items():
        write(model, tmp_path / f"a.{kind}")
        actual = load(tmp_path / f"a.{kind}")(ids)
        for name, value in expected.items():
            np.testing.assert_allclose(actual[name], value, rtol=0, atol=1e-5, err_msg=kind)
