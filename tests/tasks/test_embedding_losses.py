"""Against formulas in NumPy that were written down independently."""

import keras
import numpy as np
import pytest

import keras_bert as kb
from keras_bert.tasks.embedding_losses import (
    ContrastiveLoss,
    CosineSimilarityLoss,
    PairLabelLoss,
    unit_length,
)
from tests.jax_backend import run_on_jax
from tests.layers.test_encoder import padded_batch, random_encoder


def vectors(batch=5, group=2, size=8, seed=0):
    return np.random.default_rng(seed).normal(size=(batch, group, size)).astype("float32")


def cosine(u, v):
    u, v = u.astype("float64"), v.astype("float64")
    return float(u @ v / np.sqrt((u @ u) * (v @ v)))


def test_cosine_similarity():
    x, scores = vectors(), np.array([0, 1, 0.5, 0.2, 0.9], "float32")
    squares = [(cosine(u, v) - s) ** 2 for (u, v), s in zip(x, scores, strict=True)]
    assert float(CosineSimilarityLoss()(scores, x)) == pytest.approx(np.mean(squares), abs=1e-6)
    column = scores[:, None]  # not [B, B] by broadcasting
    assert float(CosineSimilarityLoss()(column, x)) == pytest.approx(np.mean(squares), abs=1e-6)
    weights = np.array([1, 0, 2, 0, 0.5], "float32")
    expected = np.sum(squares * weights) / 5
    assert float(CosineSimilarityLoss()(scores, x, weights)) == pytest.approx(expected, abs=1e-6)


def contrastive(x, numbers, scale, symmetric):
    """One anchor at a time."""
    losses = []
    for i, group in enumerate(x):
        wrong = [g[1] for j, g in enumerate(x) if numbers[j] != numbers[i]]
        wrong += [negative for g in x for negative in g[2:]]
        scores = [scale * cosine(group[0], y) for y in [group[1], *wrong]]
        loss = -np.log(np.exp(scores[0]) / np.sum(np.exp(scores)))
        if symmetric:
            wrong = [g[0] for j, g in enumerate(x) if numbers[j] != numbers[i]]
            scores = [scale * cosine(group[1], y) for y in [group[0], *wrong]]
            loss = (loss - np.log(np.exp(scores[0]) / np.sum(np.exp(scores)))) / 2
        losses.append(loss)
    return np.mean(losses)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("group", [2, 3, 5])
@pytest.mark.parametrize("numbers", [[0, 1, 2, 3, 4], [7, 2, 7, 2, 7], [3, 3, 3, 3, 3]])
def test_contrastive(numbers, group, symmetric):
    x = vectors(group=group)
    for scale in (1.0, 20.0):
        actual = ContrastiveLoss(scale=scale, symmetric=symmetric)(np.array(numbers), x)
        assert float(actual) == pytest.approx(
            contrastive(x, numbers, scale, symmetric), abs=1e-6, rel=1e-6
        )


def test_contrastive_is_cross_entropy_over_the_batch():
    """The usual way to write it, from a library of its own."""
    x = vectors(batch=6)
    u, v = (y / np.linalg.norm(y, axis=1, keepdims=True) for y in (x[:, 0], x[:, 1]))
    expected = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(
        np.arange(6), 20 * u @ v.T
    )
    assert float(ContrastiveLoss()(np.arange(6), x)) == pytest.approx(float(expected), abs=1e-5)


def test_a_batch_of_one_is_no_lesson():
    assert float(ContrastiveLoss()(np.zeros(1), vectors(batch=1))) == 0


def test_extremes_are_finite():
    for x in (np.zeros((3, 2, 4)), np.ones((3, 2, 4)), 1e-8 * vectors(3), 1e8 * vectors(3)):
        for loss in (ContrastiveLoss(symmetric=True), CosineSimilarityLoss()):
            assert np.isfinite(loss(np.arange(3), x.astype("float32")))
    tiny = unit_length(1e-8 * vectors())
    np.testing.assert_allclose(np.linalg.norm(tiny, axis=-1), 1, atol=1e-5)


def test_softmax_on_both_vectors_and_their_difference():
    model = kb.TextEmbedder(random_encoder(), objective="softmax", labels=["no", "so", "yes"])
    inputs = padded_batch()
    pairs = {name: np.stack([value, value[::-1]], 1) for name, value in inputs.items()}
    model.compile("sgd", model.default_loss())
    targets = np.array([2, 0, 1])
    kernel, bias = (np.asarray(w, "float64") for w in model.pair_classifier.weights)
    assert kernel.shape == (3 * 24, 3)
    x = np.asarray(model(pairs), "float64")
    losses = []
    for (u, v), target in zip(x, targets, strict=True):
        logits = np.concatenate([u, v, abs(u - v)]) @ kernel + bias
        losses.append(-np.log(np.exp(logits[target]) / np.exp(logits).sum()))
    assert model.evaluate(pairs, targets, verbose=0) == pytest.approx(np.mean(losses), abs=1e-6)
    assert model(inputs).shape == (3, 24)


def test_losses_are_serializable():
    for loss in (
        ContrastiveLoss(scale=3.0, symmetric=True),
        CosineSimilarityLoss(),
        PairLabelLoss(),
    ):
        again = keras.losses.deserialize(keras.losses.serialize(loss))
        assert again.get_config() == loss.get_config()


# Texts of the same half of the vocabulary are to be alike.
LEARN = """
import sys
import keras, numpy as np
import keras_bert as kb

keras.utils.set_random_seed(0)
size = dict(vocabulary_size=50, hidden_size=16, num_layers=1, num_heads=2, intermediate_size=16)
rng = np.random.default_rng(0)
high = rng.integers(0, 2, (128, 2))
ids = (rng.integers(5, 27, (128, 2, 6)) + 23 * high[..., None]).astype("int32")
same = (high[:, 0] == high[:, 1]).astype("int32")
pairs = np.stack([high[:, 0], high[:, 0]], 1)
together = (rng.integers(5, 27, (128, 2, 6)) + 23 * pairs[..., None]).astype("int32")
for objective, x, y in (
    ("cosine", ids, same), ("softmax", ids, same), ("contrastive", together, high[:, 0])
):
    labels = ["other", "same"] if objective == "softmax" else None
    config = kb.EncoderConfig(**size, hidden_dropout=0.0, attention_dropout=0.0)
    model = kb.TextEmbedder(kb.Encoder(config), objective=objective, labels=labels)
    model.compile(keras.optimizers.Adam(3e-3), model.default_loss())
    inputs = {"token_ids": x}
    losses = model.fit(inputs, y, epochs=15, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0], (objective, losses)
    u, v = np.moveaxis(np.asarray(model.predict({"token_ids": ids}, verbose=0)), 1, 0)
    cosines = (u * v).sum(-1)
    if objective != "softmax":
        assert cosines[same == 1].mean() > cosines[same == 0].mean() + 0.3, objective
"""


@pytest.mark.slow
def test_learning():
    exec(LEARN, {})


@pytest.mark.sweep
def test_learning_on_jax():
    run_on_jax("assert __import__('keras').backend.backend() == 'jax'\n" + LEARN)
