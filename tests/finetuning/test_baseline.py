import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.finetuning import Recipe, evaluate, fine_tune, label_names
from keras_bert.finetuning.baseline import fit_baseline, frozen_vectors, logistic_regression
from tests.finetuning import tiny

QUICK = Recipe(epochs=2, batch_size=8, learning_rate=5e-3)


def clouds(labels=5, count=400, size=12):
    """Vectors around a center for each label, so that many lie on the wrong side."""
    rng = np.random.default_rng(0)
    centers, ids = rng.normal(size=(labels, size)), rng.integers(0, labels, count)
    vectors = centers[ids] + rng.normal(size=(count, size))
    return vectors.astype("float32"), ids.astype("int32")


@pytest.mark.parametrize("c", [0.01, 1.0, 30.0])
def test_one_label_as_scikit_learn(c):
    vectors, ids = clouds()
    found = logistic_regression(vectors, ids, 5, c).logits(vectors)
    expected = LogisticRegression(C=c, tol=1e-8, max_iter=10_000).fit(vectors, ids)
    shares = np.exp(found) / np.exp(found).sum(axis=1, keepdims=True)
    # The search ends where the gradient is at most 1e-5, at another point on each processor.
    np.testing.assert_allclose(shares, expected.predict_proba(vectors), atol=5e-3)


@pytest.mark.parametrize("c", [0.01, 1.0, 30.0])
def test_several_labels_as_scikit_learn(c):
    vectors, ids = clouds()
    several = np.eye(5, dtype="float32")[ids]
    several[::3, 2] = 1
    found = logistic_regression(vectors, several, 5, c).logits(vectors)
    one = LogisticRegression(C=c, tol=1e-8, max_iter=10_000)
    expected = OneVsRestClassifier(one).fit(vectors, several)
    np.testing.assert_allclose(
        1 / (1 + np.exp(-found)), expected.predict_proba(vectors), atol=1.5e-2
    )


def test_the_start_does_not_matter():
    vectors, ids = clouds()
    start = logistic_regression(vectors, ids, 5, 0.001)
    one, two = (logistic_regression(vectors, ids, 5, 1.0, start=s) for s in (None, start))
    np.testing.assert_allclose(one.logits(vectors), two.logits(vectors), atol=2e-2)


def test_vectors_that_are_no_numbers_end_the_search():
    """They come from a model with a damaged weight. The loss of the training tells the user."""
    vectors = np.full((6, 3), np.nan, np.float32)
    found = logistic_regression(vectors, np.array([0, 1] * 3), 2, 1.0)
    np.testing.assert_array_equal(found.kernel, np.zeros((3, 2)))


def test_scaled_and_shifted_vectors_give_the_same_baseline():
    vectors, ids = clouds()

    def right(found):
        return float((found.logits(vectors).argmax(1) == ids).mean())

    found = fit_baseline(vectors, ids, 5, right)
    moved = 100 * vectors + 7
    other = fit_baseline(moved, ids, 5, lambda f: float((f.logits(moved).argmax(1) == ids).mean()))
    # The logits are between -25 and 25; rounding ends one search earlier than the other.
    np.testing.assert_allclose(other.logits(moved), found.logits(vectors), atol=0.25)
    assert right(found) > 0.8


def mean_vectors(model, texts):
    inputs = model.preprocessor(list(texts))
    states = np.asarray(model.encoder(inputs)["sequence_output"])
    mask = np.asarray(inputs["padding_mask"])[..., np.newaxis]
    return (states * mask).sum(axis=1) / mask.sum(axis=1)


def test_vectors_are_means_of_tokens():
    model, data = tiny.classifier(), tiny.opinions(8)
    expected = mean_vectors(model, data.texts)
    np.testing.assert_allclose(frozen_vectors(model, data), expected, atol=1e-5)


def test_vectors_of_pairs():
    model = tiny.classifier()
    data = tiny.examples(["the film", "a book"], ["good", "bad"], ["was good", "was bad"])
    u, v = (mean_vectors(model, texts) for texts in (data.texts, data.pairs))
    expected = np.concatenate([u, v, np.abs(u - v)], axis=1)
    np.testing.assert_allclose(frozen_vectors(model, data), expected, atol=1e-5)


def run(recipe=QUICK, model=None, data=None):
    model, data = model or tiny.classifier(), data or tiny.opinions()
    return model, fine_tune(model, data, data, data, recipe=recipe, verbose=0)


def test_the_baseline_changes_no_weight():
    with_it, measured = run(QUICK.model_copy(update={"baseline": True}))
    without, other = run(QUICK.model_copy(update={"baseline": False}))
    assert all(map(np.array_equal, with_it.get_weights(), without.get_weights()))
    assert (measured.validation, measured.history) == (other.validation, other.history)
    assert other.baseline == {}
    assert measured.baseline["test"] == measured.baseline["validation"]


def test_the_baseline_is_that_of_scikit_learn():
    model, data = tiny.classifier(), tiny.opinions()
    vectors = mean_vectors(model, data.texts)
    vectors = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0).mean()
    expected = LogisticRegression(C=1e3, max_iter=10_000).fit(vectors, data.labels)
    _, result = run(model=model, data=data)
    assert result.baseline["test"]["accuracy"] == expected.score(vectors, data.labels)


def test_a_head_that_starts_from_the_baseline():
    still = {"baseline_head": True, "learning_rate": 1e-9}
    model = tiny.classifier(pooling="mean", encoder_options=tiny.NO_DROPOUT, dropout=0.0)
    _, result = run(QUICK.model_copy(update=still), model)
    assert result.validation == pytest.approx(result.baseline["validation"], abs=1e-5)


def test_a_training_that_lowers_the_score_keeps_the_baseline(tmp_path):
    model, data, output = tiny.classifier(pooling="mean"), tiny.opinions(), tmp_path / "run"
    recipe = QUICK.model_copy(update={"baseline_head": True, "learning_rate": 1.0, "epochs": 2})
    result = fine_tune(model, data, data, recipe=recipe, output=output, verbose=0)
    assert result.best_epoch == 0
    assert result.validation == result.baseline["validation"]
    for kept in (model, kb.load(output / "model")):
        assert evaluate(kept, data) == pytest.approx(result.validation, abs=1e-5)


def test_an_epoch_as_good_as_the_baseline_with_a_lower_loss_is_better():
    model, data = tiny.classifier(pooling="mean"), tiny.opinions()
    recipe = QUICK.model_copy(update={"baseline_head": True, "learning_rate": 2e-3, "epochs": 6})
    result = fine_tune(model, data, data, recipe=recipe, verbose=0)
    frozen = result.baseline["validation"]
    assert result.validation["accuracy"] == frozen["accuracy"] == 1
    assert result.validation["loss"] < frozen["loss"]
    assert result.best_epoch > 0


def test_several_labels_have_a_baseline():
    opinions = tiny.opinions()
    labels = [
        (label, "cinema") if "film" in text else (label,)
        for text, label in zip(opinions.texts, opinions.labels, strict=True)
    ]
    data = tiny.examples(opinions.texts, labels)
    model = tiny.classifier(labels=label_names(data, "multi_label"), problem_type="multi_label")
    _, result = run(model=model, data=data)
    assert result.baseline["test"]["micro_f1"] > 0.9


@pytest.mark.parametrize(
    ("options", "model", "message"),
    [
        (
            {"baseline": True},
            lambda: tiny.classifier(labels=["x"], problem_type="regression"),
            "baseline is True, but this SequenceClassifier does not choose labels",
        ),
        ({"baseline_head": True}, tiny.classifier, "baseline_head is True, but"),
        (
            {"baseline_head": True, "baseline": False},
            lambda: tiny.classifier(pooling="mean"),
            "baseline_head is True, but",
        ),
    ],
)
def test_what_has_no_baseline(options, model, message):
    with pytest.raises(InputError, match=message):
        run(QUICK.model_copy(update=options), model())


def test_taggers_have_no_baseline():
    model = kb.TokenClassifier(tiny.encoder(), labels=["O"], preprocessor=tiny.preprocessor())
    with pytest.raises(InputError, match="this TokenClassifier does not choose labels"):
        run(Recipe(baseline=True), model)
