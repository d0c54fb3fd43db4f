import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from keras_bert.errors import InputError
from keras_bert.metrics import METRICS, measure

SETS = 1000


@pytest.fixture(autouse=True)
def _references_warn_about_constant_inputs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def f1(average):
    return lambda y, p: sklearn.metrics.f1_score(y, p, average=average, zero_division=0)


LABELS = {
    "accuracy": sklearn.metrics.accuracy_score,
    "macro_f1": f1("macro"),
    "micro_f1": f1("micro"),
    "matthews": sklearn.metrics.matthews_corrcoef,
}
INDICATORS = {name: LABELS[name] for name in ("accuracy", "macro_f1", "micro_f1")}
NUMBERS = {
    "pearson": lambda y, p: scipy.stats.pearsonr(y, p).statistic,
    "spearman": lambda y, p: scipy.stats.spearmanr(y, p).statistic,
}


def random_sets(draw):
    for seed in range(SETS):
        generator = np.random.default_rng(seed)
        size = int(generator.integers(2, 40))
        yield draw(generator, size), draw(generator, size)


def labels(generator, size):
    return generator.integers(0, generator.integers(1, 6), size)


def binary(generator, size):
    return generator.integers(0, 2, size)


def indicators(generator, size):
    return (generator.random((size, 4)) < generator.random()).astype(int)


def numbers(generator, size):
    values = generator.normal(size=size) * 10.0 ** generator.integers(-6, 6)
    return np.round(values, generator.integers(0, 4))  # with ties


@pytest.mark.parametrize(
    ("draw", "references"),
    [
        (labels, LABELS),
        (binary, LABELS | {"f1": f1("binary")}),
        (indicators, INDICATORS),
        (numbers, NUMBERS),
    ],
)
def test_every_metric_equals_its_reference(draw, references):
    for targets, predictions in random_sets(draw):
        found = measure(list(references), targets, predictions)
        for name, reference in references.items():
            np.testing.assert_allclose(
                found[name], reference(targets, predictions), rtol=0, atol=1e-9, err_msg=name
            )


def test_matthews_of_many_examples():
    targets = np.arange(1_000_000) % 2
    predictions = np.where(np.arange(1_000_000) % 10 < 2, 1 - targets, targets)  # 2 of 10 wrong
    assert METRICS["matthews"](targets, predictions) == pytest.approx(0.6)


def test_every_metric_has_a_reference():
    assert set(METRICS) == {*LABELS, *NUMBERS, "f1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["accurracy"], [1], [1]), "Did you mean 'accuracy'"),
        ((["accuracy"], [1, 0], [1]), r"shape \[1\], but the targets \[2\]"),
        ((["accuracy"], [], []), "no examples"),
    ],
)
def test_what_cannot_be_measured(arguments, message):
    with pytest.raises(InputError, match=message):
        measure(*arguments)
