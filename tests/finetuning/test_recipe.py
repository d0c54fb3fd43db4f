import dataclasses

import keras
import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.finetuning import Recipe, fine_tune
from keras_bert.finetuning.jobs import classifier, job_of
from tests.finetuning import tiny


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 0},
        {"learning_rate": -1.0},
        {"warmup": 2.0},
        {"layer_decay": 0.0},
        {"patience": 0},
        {"label_smoothing": 1.0},
        {"class_weights": "balance"},
        {"gradient_accumulation_steps": 33, "batch_size": 32},
        {"epochs": 2.5},
        {"warmup": None},
        {"sequence_length": 0},
        {"baseline": "yes"},
        {"batch_size": "8"},
        {"learning_rate": float("nan")},
        {"class_weights": {"good": -1.0}},
        {"class_weights": {"good": float("nan")}},
    ],
)
def test_a_recipe_out_of_range(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} (is|has) .*"):
        Recipe(**options)


def test_numbers_of_numpy():
    recipe = Recipe(batch_size=np.int64(8), seed=np.int32(3), class_weights={"a": np.float32(2)})
    assert (recipe.batch_size, recipe.seed, recipe.class_weights) == (8, 3, {"a": 2.0})
    assert type(recipe.batch_size) is int


def weights(labels, **recipe):
    model, data = tiny.classifier(), tiny.examples(["a"] * len(labels), labels)
    targets = classifier.targets(model, data, None)
    return classifier.weights(model, data, targets, Recipe(**recipe))


def test_weights_of_classes():
    labels = ["good", "good", "bad", "good", "good"]
    assert weights(labels) is None
    expected = compute_sample_weight("balanced", labels)
    np.testing.assert_allclose(weights(labels, class_weights="balanced"), expected, rtol=1e-6)
    assert weights(labels, class_weights={"bad": 3}).tolist() == [1, 1, 3, 1, 1]
    with pytest.raises(InputError, match="'god', which is not a label of the model. Did you mean"):
        weights(labels, class_weights={"god": 3})


def test_smoothed_labels():
    logits = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")
    ids = np.array([0, 1, 1, 0, 0, 1])
    recipe = Recipe(label_smoothing=0.1)
    reference = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    value = classifier.loss(tiny.classifier(), recipe)(ids, logits)
    assert float(value) == pytest.approx(float(reference(np.eye(2)[ids], logits)), rel=1e-5)
    several = tiny.classifier(labels=["a", "b"], problem_type="multi_label")
    reference = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1)
    value = classifier.loss(several, recipe)(np.eye(2)[ids], logits)
    assert float(value) == pytest.approx(float(reference(np.eye(2)[ids], logits)), rel=1e-5)
    numbers = tiny.classifier(labels=["score"], problem_type="regression")
    with pytest.raises(InputError, match="no labels to smooth"):
        classifier.loss(numbers, recipe)
    loss = classifier.SmoothedCrossentropy(0.1)
    assert classifier.SmoothedCrossentropy.from_config(loss.get_config()).smoothing == 0.1


def test_what_only_classifiers_of_texts_can():
    model = kb.TokenClassifier(tiny.encoder(), labels=["O", "B-X"])
    job = job_of(model)
    with pytest.raises(InputError, match="a TokenClassifier cannot smooth labels"):
        job.loss(model, Recipe(label_smoothing=0.1))
    with pytest.raises(InputError, match="classes of a TokenClassifier have no weights"):
        job.weights(model, None, None, Recipe(class_weights="balanced"))


def test_training_stops_when_nothing_gets_better(monkeypatch):
    scores = iter([0.5, 0.7, 0.6, 0.7, 0.9])

    def measure(*arguments):
        return {**classifier.measure(*arguments), "accuracy": next(scores)}

    monkeypatch.setattr(classifier, "JOB", dataclasses.replace(classifier.JOB, measure=measure))
    data = tiny.opinions(8)
    model, recipe = tiny.classifier(), Recipe(epochs=20, batch_size=8, patience=2)
    result = fine_tune(model, data, data, recipe=recipe, verbose=0)
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3, 4]
    assert result.best_epoch == 2


def test_weighted_smoothed_training_learns():
    data = tiny.opinions()
    recipe = Recipe(
        epochs=8,
        batch_size=8,
        learning_rate=1e-2,
        class_weights="balanced",
        label_smoothing=0.1,
        length_buckets=False,
    )
    result = fine_tune(tiny.classifier(), data, data, recipe=recipe, verbose=0)
    assert result.validation["accuracy"] > 0.95
