"""An embedder's artifacts give its vectors, whatever the pooling."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import export
from tests.marks import others_swept

from .conftest import HARD_TEXTS, make_model, random_ids
from .test_formats import FORMATS


def make_embedder(preprocessor=None, **arguments):
    return make_model("embedder", arguments=arguments, preprocessor=preprocessor)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "arguments",
    others_swept(
        [
            {"projections": [{"units": 48, "activation": "gelu"}, {"units": 30}]},
            {"pooling": "mean"},
            {"pooling": "first", "normalize": False},
            {"pooling": "attention", "projections": [{"units": 7, "activation": "tanh"}]},
        ]
    ),
    ids=str,
)
def test_artifact_equals_the_model(arguments, kind, tmp_path):
    write, load = FORMATS[kind]
    model = make_embedder(**arguments)
    write(model, tmp_path / f"a.{kind}")
    run = load(tmp_path / f"a.{kind}")
    for batch, length in ((1, 1), (5, 33)):
        ids = random_ids(batch, length)
        actual = np.asarray(run(ids)["embedding"])
        assert actual.shape == (batch, model.vector_size)
        np.testing.assert_allclose(actual, model(ids), rtol=0, atol=1e-5)


def test_texts_to_vectors(preprocessor, tmp_path):
    model = make_embedder(preprocessor)
    export.saved_model(model, tmp_path / "1")
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    texts = [text.encode("utf-8", "replace") for text in HARD_TEXTS]
    actual = signatures["serving_default"](text=tf.constant(texts))
    assert set(actual) == {"embedding"}
    np.testing.assert_allclose(actual["embedding"], model.encode(texts), rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(actual["embedding"], axis=1), 1, atol=1e-5)


def test_a_mask_of_zeros_is_finite(tmp_path):
    model = make_embedder()
    export.onnx(model, tmp_path / "a.onnx")
    run = FORMATS["onnx"][1](tmp_path / "a.onnx")
    ids = random_ids(2, 5)
    ids["padding_mask"] *= 0
    assert np.array_equal(run(ids)["embedding"], np.zeros((2, 64)))


def test_the_head_of_pairs_stays_at_home(tmp_path):
    model = make_embedder(objective="softmax", labels=["no", "yes"])
    for kind, (write, load) in FORMATS.items():
        write(model, tmp_path / f"a.{kind}")
        ids = random_ids(2, 9)
        actual = load(tmp_path / f"a.{kind}")(ids)
        np.testing.assert_allclose(actual["embedding"], model(ids), rtol=0, atol=1e-5)
