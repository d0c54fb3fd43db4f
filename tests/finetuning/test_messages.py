import dataclasses

import pytest

from keras_bert.finetuning import Recipe, Result
from keras_bert.finetuning.messages import advice

RECIPE = Recipe(epochs=3, learning_rate=2e-4)


def result(losses, accuracy, best=None, baseline=None, baseline_loss=1.0):
    history = [{"epoch": n, "loss": loss} for n, loss in enumerate(losses, start=1)]
    frozen = {} if baseline is None else {"accuracy": baseline, "loss": baseline_loss}
    return Result(
        best_epoch=len(losses) if best is None else best,
        validation={"accuracy": accuracy},
        history=history,
        baseline={"validation": frozen} if frozen else {},
    )


LABELS = ["a"] * 6 + ["b"] * 4


@pytest.mark.parametrize(
    ("found", "labels", "sentence"),
    [
        (result([1.0, 0.96], 0.8), LABELS, None),
        (result([1.0, 0.96], 0.8, baseline=0.8), LABELS, None),
        (result([1.0, 0.5], 0.8, best=1), LABELS, None),  # validation no longer follows
        (result([1.0], 0.8), LABELS, None),
        (result([1.0, 0.96], 1.0), ["a"] * 2, None),  # all validation examples have one label
        (
            result([1.0, 0.96], 0.6),
            LABELS,
            "Nothing learned yet: always predicting 'a' has an accuracy of 0.6000. Try more epochs "
            "than 3, or a higher learning_rate than 0.0002: 1e-3 suits an encoder that is small or "
            "hardly pretrained.",
        ),
        (
            result([1.0, 0.7], 0.8),
            LABELS,
            "The loss still fell from 1.000 to 0.700 in the last epoch: try more epochs than 3, or "
            "a higher learning_rate than 0.0002.",
        ),
        (
            result([1.0, 0.96], 0.32, baseline=0.87),
            (),
            "The validation accuracy is 0.3200, below 0.8700 of a logistic regression on the "
            "vectors of the model before training: try more epochs than 3, or a higher "
            "learning_rate than 0.0002.",
        ),
        (
            result([1.0, 0.5], 0.87, best=0, baseline=0.87),
            (),
            "No epoch was better than the frozen baseline (accuracy 0.8700), so the model has the "
            "baseline's weights, and its encoder is not trained: try more epochs than 3, or a "
            "higher learning_rate than 0.0002.",
        ),
        (
            result([1.0, 0.2], 0.87, best=0, baseline=0.87),
            (),
            "No epoch was better than the frozen baseline (accuracy 0.8700), so the model has the "
            "baseline's weights, and its encoder is not trained: try a lower learning_rate than "
            "0.0002.",
        ),
        (
            result([1.0, 0.5, 0.1], 0.8, best=2, baseline=0.87),
            (),
            "The validation accuracy is 0.8000, below 0.8700 of a logistic regression on the "
            "vectors of the model before training: try a lower learning_rate than 0.0002.",
        ),
    ],
)
def test_advice(found, labels, sentence):
    assert advice(found, RECIPE, "accuracy", 1000, labels) == sentence


def test_an_accuracy_that_chose_nothing_is_no_reason():
    """With weighted classes, a good model of rare labels has a low accuracy."""
    learned, nothing = (
        dataclasses.replace(found, validation={"accuracy": 0.6, "macro_f1": value})
        for found, value in ((result([1.0, 0.96], 0.6), 0.5), (result([1.0, 0.96], 0.6), 0.375))
    )
    assert advice(learned, RECIPE, "macro_f1", 1000, LABELS) is None
    assert "Nothing learned yet" in advice(nothing, RECIPE, "macro_f1", 1000, LABELS)


def test_one_example_less_than_the_baseline_is_chance():
    found = result([1.0, 0.96], 0.8, baseline=0.9)
    assert advice(found, RECIPE, "accuracy", 10) is None
    assert "below 0.9000" in advice(found, RECIPE, "accuracy", 11)


def test_no_advice_without_validation():
    found = result([1.0, 0.99], 0.0)
    found.validation = {}
    assert advice(found, RECIPE, "accuracy") is None
