"""Every loss against NumPy in double precision, on fixed logits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.objectives import losses

ROWS, LENGTH, CLASSES = 3, 7, 11


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def logits(rng):
    return rng.normal(0, 3, (ROWS, LENGTH, CLASSES)).astype("float32")


@pytest.fixture(scope="module")
def weights(rng):
    return rng.integers(0, 2, (ROWS, LENGTH)).astype("float32")


def log_softmax(x):
    x = x.astype("float64")
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def assert_sums(sums, each, right, weights):
    sums = keras.ops.convert_to_numpy(sums)
    assert sums.dtype == np.float32
    mean = (each * weights).sum() / weights.sum()
    np.testing.assert_allclose(sums[0] / sums[2], mean, rtol=1e-6, atol=1e-6)
    assert sums[1] == (right * weights).sum()
    assert sums[2] == weights.sum()


def test_cross_entropy(rng, logits, weights):
    labels = rng.integers(0, CLASSES, (ROWS, LENGTH)).astype("int32")
    labels[0] = logits[0].argmax(-1)
    each = -np.take_along_axis(log_softmax(logits), labels[..., None], -1)[..., 0]
    sums = losses.cross_entropy(logits, labels, weights)
    assert_sums(sums, each, logits.argmax(-1) == labels, weights)


def test_cross_entropy_of_one_label_per_example(rng):
    logits = rng.normal(size=(ROWS, 2)).astype("float32")
    labels, weights = np.array([0, 1, 1], "int32"), np.array([1, 1, 0], "float32")
    each = -log_softmax(logits)[np.arange(ROWS), labels]
    sums = losses.cross_entropy(logits, labels, weights)
    assert_sums(sums, each, logits.argmax(-1) == labels, weights)


def test_binary_cross_entropy(rng, weights):
    logits = rng.normal(0, 30, (ROWS, LENGTH)).astype("float32")
    labels = rng.integers(0, 2, (ROWS, LENGTH)).astype("int32")
    x = logits.astype("float64")
    each = np.logaddexp(0, x) - labels * x
    sums = losses.binary_cross_entropy(logits, labels, weights)
    assert_sums(sums, each, (logits > 0) == labels, weights)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_soft_targets(rng, logits, weights, temperature):
    teacher = rng.normal(0, 3, logits.shape).astype("float32")
    ours, theirs = (log_softmax(x.astype("float64") / temperature) for x in (logits, teacher))
    each = (np.exp(theirs) * (theirs - ours)).sum(-1) * temperature**2
    sums = losses.soft_targets(logits, teacher, weights, temperature)
    assert_sums(sums, each, 0, weights)
    nothing = losses.soft_targets(logits, logits, weights, temperature)
    assert abs(float(nothing[0])) < 1e-6


def test_cosine(rng, logits, weights):
    teacher = rng.normal(0, 3, logits.shape).astype("float32")
    x, y = logits.astype("float64"), teacher.astype("float64")
    each = 1 - (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))
    assert_sums(losses.cosine(logits, teacher, weights), each, 0, weights)


def test_extreme_logits_have_finite_losses_and_gradients():
    logits = tf.constant([[-1e4, 0.0, 1e4]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = losses.binary_cross_entropy(logits, tf.constant([[1, 1, 0]]), tf.ones([1, 3]))[0]
    assert float(loss) == pytest.approx(2e4 + np.log(2), rel=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, logits), [[-1.0, -0.5, 1.0]], atol=1e-6)
