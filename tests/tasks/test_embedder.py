import math
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from keras_bert.tasks.embedder import quantize_vectors
from tests.layers.test_encoder import padded_batch, random_encoder

POOLINGS = ("mean", "first", "last", "weighted", "max", "pooled", "attention")


def expected_vectors(model, inputs, normalize):
    """By hand, in NumPy."""
    outputs = model.encoder(inputs)
    x = np.asarray(outputs["sequence_output"], "float64")
    mask = inputs["padding_mask"][..., None].astype("float64")
    if model.pooling == "attention":
        mask = mask * np.exp(x @ np.asarray(model.text_pooling.score.kernel))
    last = inputs["padding_mask"].sum(1) - 1
    if model.pooling == "weighted":
        mask = mask * np.arange(1, x.shape[1] + 1)[:, None]
    vectors = {
        "last": lambda: x[np.arange(len(x)), last],
        "max": lambda: np.stack([row[: end + 1].max(0) for row, end in zip(x, last, strict=True)]),
        "pooled": lambda: np.asarray(outputs["pooled_output"], "float64"),
        "first": lambda: x[:, 0],
    }.get(model.pooling, lambda: (x * mask).sum(1) / mask.sum(1))()
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalize else vectors


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_vectors_by_hand(pooling, normalize):
    model = kb.TextEmbedder(random_encoder(), pooling=pooling, normalize=normalize)
    inputs = padded_batch()
    actual = model(inputs)
    assert keras.backend.standardize_dtype(actual.dtype) == "float32"
    np.testing.assert_allclose(actual, expected_vectors(model, inputs, normalize), atol=1e-5)


ACTIVATIONS = {
    "linear": lambda x: x,
    "gelu": lambda x: x * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(x),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_projections_by_hand(activation, tmp_path):
    projections = [{"units": 30, "activation": activation}, {"units": 5, "use_bias": False}]
    model, inputs = kb.TextEmbedder(random_encoder(), projections=projections), padded_batch()
    weights = {name: np.asarray(v, "float64") for name, v in named_variables(model).items()}
    assert [name for name in weights if not name.startswith("encoder/")] == [
        "projection_0/kernel",
        "projection_0/bias",
        "projection_1/kernel",
    ]
    bias = np.linspace(-1, 1, 30)
    model.projection_layers[0].bias.assign(bias)
    x = expected_vectors(model, inputs, normalize=False)
    x = ACTIVATIONS[activation](x @ weights["projection_0/kernel"] + bias)
    x = x @ weights["projection_1/kernel"]
    expected = x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(model(inputs), expected, atol=1e-5)
    groups = {name: np.stack([value, value]) for name, value in inputs.items()}
    np.testing.assert_allclose(model(groups), np.stack([expected, expected]), atol=1e-5)
    if activation == "tanh":
        model.save(tmp_path / "m.keras")
        kb.save(model, tmp_path / "native")
        for path in ("m.keras", "native"):
            loaded = kb.load(tmp_path / path)
            assert loaded.projections == [
                {"units": 30, "activation": "tanh", "use_bias": True},
                {"units": 5, "activation": "linear", "use_bias": False},
            ]
            assert np.array_equal(loaded(inputs), model(inputs))


@pytest.mark.parametrize(
    "projection",
    [
        {},
        {"units": 0},
        {"units": True},
        {"units": 2, "use_bias": 1},
        {"units": 2, "activation": "mish"},
        {"units": 2, "name": "a"},
    ],
)
def test_bad_projections(projection):
    with pytest.raises(kb.InputError, match="A projection is .* but must have units, a whole"):
        kb.TextEmbedder(random_encoder(), projections=[projection])


def test_the_padding_does_not_matter():
    model, inputs = kb.TextEmbedder(random_encoder()), padded_batch()
    short = {name: value[1:2, :5] for name, value in inputs.items()}  # the second has 5 tokens
    np.testing.assert_allclose(model(short)[0], model(inputs)[1], atol=1e-5)


def test_groups_of_texts():
    model, inputs = kb.TextEmbedder(random_encoder()), padded_batch()
    groups = {name: np.stack([value, value[::-1]]) for name, value in inputs.items()}
    actual = np.asarray(model(groups))
    assert actual.shape == (2, 3, 24)
    alone = np.asarray(model(inputs))
    np.testing.assert_allclose(actual, np.stack([alone, alone[::-1]]), atol=1e-5)


def test_a_text_of_zeros_is_no_division_by_zero():
    encoder = random_encoder()
    for name, variable in named_variables(encoder).items():
        if "layer_2/output_layer_norm" in name:  # the last layer's
            variable.assign(np.zeros(variable.shape))
    model = kb.TextEmbedder(encoder)
    assert np.array_equal(model(padded_batch()), np.zeros((3, 24)))
    model.compile("sgd", "mse")
    model.fit(padded_batch(), np.ones((3, 24)), verbose=0)
    assert all(np.isfinite(np.asarray(weight)).all() for weight in model.weights)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_round_trips(pooling, tmp_path):
    model = kb.TextEmbedder(random_encoder(), pooling=pooling, normalize=False)
    inputs = padded_batch()
    model.save(tmp_path / "m.keras")
    kb.save(model, tmp_path / "native")
    for path in ("m.keras", "native"):
        loaded = kb.load(tmp_path / path)
        assert (loaded.pooling, loaded.normalize) == (pooling, False)
        assert np.array_equal(loaded(inputs), model(inputs))


def test_from_and_into_other_tasks(tmp_path, caplog):
    encoder, inputs = random_encoder(), padded_batch()
    kb.save(encoder, tmp_path / "encoder")
    model = kb.load(tmp_path / "encoder", task="embedder")
    np.testing.assert_allclose(model(inputs), kb.TextEmbedder(encoder)(inputs), atol=1e-6)
    assert not caplog.text
    kb.load(tmp_path / "encoder", task="embedder", pooling="attention")
    assert "initialized at random: pooling/score/kernel" in caplog.text
    kb.save(model, tmp_path / "embedder")
    assert isinstance(kb.load(tmp_path / "embedder", task="encoder"), kb.Encoder)
    # The embedder's training does not train the pooler, so a classifier keeps the pooling.
    assert kb.load(tmp_path / "embedder", task="classifier", num_labels=2).pooling == "mean"


def test_bad_arguments():
    with pytest.raises(kb.InputError, match="no pooling 'men'. Did you mean 'mean'"):
        kb.TextEmbedder(random_encoder(), pooling="men")
    with pytest.raises(kb.InputError, match="no pooler"):
        kb.TextEmbedder(random_encoder(pooler=False), pooling="pooled")
    with pytest.raises(kb.InputError, match="has no preprocessor"):
        kb.TextEmbedder(random_encoder()).encode(["a"])


WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij")


@pytest.fixture(scope="module")
def embedder():
    preprocessor = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(WORDS)), sequence_length=16)
    return kb.TextEmbedder(random_encoder(), preprocessor=preprocessor)


def test_encode_keeps_the_order(embedder):
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(WORDS[5:], n)) for n in generator.integers(0, 20, 50)]
    vectors = embedder.encode(texts, batch_size=8)
    assert vectors.shape == (50, 24)
    assert vectors.dtype == "float32"
    for text, vector in zip(texts[::7], vectors[::7], strict=True):
        alone = embedder(embedder.preprocessor([text]))[0]
        np.testing.assert_allclose(vector, alone, atol=2e-6)
    assert embedder.encode([]).shape == (0, 24)
    assert np.array_equal(embedder.encode(tuple(texts)), embedder.encode(texts))  # no pair
    assert embedder.encode(texts[0]).shape == (1, 24)


def test_similarity_is_the_cosine(embedder):
    a, b = ["a b c", "d", "e f"], ["a b", "d"]
    x, y = np.asarray(embedder.encode(a), "float64"), np.asarray(embedder.encode(b), "float64")
    cosines = x @ y.T / np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1))
    np.testing.assert_allclose(embedder.similarity(a, b), cosines, atol=1e-6)
    np.testing.assert_allclose(embedder.similarity(3 * x, b), cosines, atol=1e-6)
    assert embedder.similarity(a, b)[1, 1] == pytest.approx(1, abs=1e-6)
    assert embedder.similarity([], b).shape == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "cosin"}, "no objective 'cosin'. Did you mean 'cosine'"),
        ({"objective": "softmax"}, "labels are None, but the objective 'softmax' needs labels"),
        ({"labels": ["a", "b"]}, r"labels are \['a', 'b'\], but the objective 'softmax'"),
        ({"objective": "softmax", "labels": ["a", "a"]}, "different names"),
        ({"objective": "cosine", "score_range": (5, 0)}, "score_range is"),
    ],
)
def test_bad_objectives(arguments, message):
    with pytest.raises(kb.InputError, match=message):
        kb.TextEmbedder(random_encoder(), **arguments)


def test_the_head_of_pairs_belongs_to_training(tmp_path, caplog):
    model = kb.TextEmbedder(random_encoder(), objective="softmax", labels=["no", "yes"])
    kb.save(model, tmp_path / "model")
    loaded = kb.load(tmp_path / "model")
    assert loaded.labels == ("no", "yes")
    vectors = np.asarray(model(padded_batch()))[None, :2]
    assert np.array_equal(loaded.pair_logits(vectors), model.pair_logits(vectors))
    without = kb.load(tmp_path / "model", objective="contrastive", labels=None)
    assert np.array_equal(without(padded_batch()), model(padded_batch()))
    scores = kb.TextEmbedder(random_encoder(), objective="cosine", score_range=(1, 5))
    kb.save(scores, tmp_path / "scores")
    assert kb.load(tmp_path / "scores").score_range == (1.0, 5.0)


GENUINE = Path(__file__).parent.parent / "fixtures" / "sentence_transformers"


@pytest.mark.parametrize("precision", ["int8", "uint8", "binary", "ubinary"])
def test_precisions_are_those_of_sentence_transformers(precision):
    tensors = load_file(GENUINE / "precision.safetensors")
    for name, ranges in ((precision, None), (f"{precision} in ranges", tensors["ranges"])):
        if name in tensors:
            found = quantize_vectors(tensors["numbers"], precision, ranges)
            assert found.dtype == tensors[name].dtype
            assert np.array_equal(found, tensors[name])


def test_encode_in_a_precision(embedder, caplog):
    texts = ["a b c", "d", "e f"]
    vectors = embedder.encode(texts)
    assert vectors.dtype == "float32"
    int8 = embedder.encode(texts, precision="int8")
    assert np.array_equal(int8, quantize_vectors(vectors, "int8"))
    assert "ranges for int8 come from only 3 vectors" in caplog.text
    caplog.clear()
    ranges = [[-1] * 5, [1] * 5]
    part = embedder.encode(texts[:1], precision="uint8", ranges=ranges, dimensions=5)
    np.testing.assert_allclose(
        (part + 0.5) / 127.5 - 1, embedder.encode(texts[:1], dimensions=5), atol=1 / 254
    )
    assert embedder.encode(texts, precision="ubinary").shape == (3, 3)
    assert embedder.encode([], precision="int8").shape == (0, 24)
    assert embedder.encode([], precision="binary").shape == (0, 3)
    assert "ranges" not in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": "int4"}, "There is no precision 'int4'.*Choose one of float32, int8"),
        ({"precision": "int8"}, "needs the range of each entry, which one vector does not have"),
        ({"precision": "int8", "ranges": [[0] * 3] * 2}, r"shape \[2, 3\], but must have \[2, 24"),
        ({"precision": "binary", "ranges": [[0] * 24] * 2}, "ranges are for int8 and uint8"),
    ],
)
def test_bad_precisions(arguments, message, embedder):
    with pytest.raises(kb.InputError, match=message):
        embedder.encode(["a"], **arguments)
