import keras
import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from keras_bert.errors import InputError
from keras_bert.finetuning import Recipe, fine_tune
from keras_bert.finetuning.regularization import r_drop, symmetric_divergence
from tests.finetuning import tiny


def divergence(first, second):
    p, q = softmax(first, axis=-1), softmax(second, axis=-1)
    return (rel_entr(p, q) + rel_entr(q, p)).sum(axis=-1)


def logits(seed, shape):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def test_symmetric_divergence():
    first, second = logits(0, (4, 5, 3)), logits(1, (4, 5, 3))
    np.testing.assert_allclose(
        symmetric_divergence(first, second), divergence(first, second), rtol=1e-5
    )


def test_the_loss_is_the_mean_of_two_passes_and_their_divergence():
    model = tiny.classifier()
    model.compile("sgd", model.default_loss())
    x = {name: np.asarray(value) for name, value in model.preprocessor(["good", "bad"]).items()}
    y, weights, first = np.array([1, 0]), np.array([1.0, 0.5]), logits(0, (2, 2))
    seeds = [layer.seed_generator.state for layer in model._flatten_layers() if has_seed(layer)]
    before = [state.numpy() for state in seeds]
    second = keras.ops.convert_to_numpy(model(x, training=True))
    for state, value in zip(seeds, before, strict=True):
        state.assign(value)
    with r_drop(model, 3.0):
        loss = float(model.compute_loss(x, y, first, weights, training=True))
    cross_entropy = [
        (-np.log(softmax(z, axis=-1))[[0, 1], y] * weights).mean() for z in (first, second)
    ]
    expected = np.mean(cross_entropy) + 3.0 / 2 * (divergence(first, second) * weights).mean()
    assert loss == pytest.approx(expected, rel=1e-5)
    # Afterwards the model is as it was.
    assert float(model.compute_loss(x, y, first, weights)) == pytest.approx(cross_entropy[0])


def has_seed(layer):
    return getattr(layer, "seed_generator", None) is not None


def test_tokens_without_a_target_do_not_count():
    from keras_bert.finetuning.regularization import _divergence

    targets = np.array([[0, -1, 1], [-1, -1, -1]])
    first, second = logits(0, (2, 3, 4)), logits(1, (2, 3, 4))
    expected = divergence(first, second)[[0, 0], [0, 2]].mean()
    value = _divergence(targets, first, second, weights=np.ones((2, 1), "float32"))
    assert float(value) == pytest.approx(expected, rel=1e-5)


def test_training_with_r_drop_learns():
    recipe = Recipe(epochs=8, batch_size=8, learning_rate=1e-2, r_drop=0.5)
    data = tiny.opinions()
    result = fine_tune(tiny.classifier(), data, data, recipe=recipe, verbose=0)
    assert result.validation["accuracy"] > 0.95


def test_what_has_no_distribution_is_refused():
    model = tiny.classifier(labels=["score"], problem_type="regression")
    data = tiny.examples(["good", "bad"], ["1", "0.5"])
    with pytest.raises(InputError, match="r_drop is 1.0, but .*, which this SequenceClassifier"):
        fine_tune(model, data, recipe=Recipe(r_drop=1.0), verbose=0)
