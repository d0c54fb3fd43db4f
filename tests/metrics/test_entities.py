"""Entity scores against seqeval."""

import warnings

import numpy as np
import pytest
import seqeval.metrics
from seqeval.scheme import IOB2, IOBES

from keras_bert import InputError
from keras_bert.metrics.entities import entity_averages, entity_report, entity_scores
from keras_bert.tasks.entities import spans_of

SCHEMES = {"iob2": IOB2, "bioes": IOBES}


def random_tags(generator, prefixes, count):
    """Lists of tags, some of them empty."""
    labels = ("PER", "LOC", "X-Y")[: generator.integers(1, 4)]
    tags = ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in labels)]
    lengths = generator.integers(0, 15, count)
    outside = generator.random()
    weights = [outside] + [(1 - outside) / (len(tags) - 1)] * (len(tags) - 1)
    return [generator.choice(tags, length, p=weights).tolist() for length in lengths]


def random_pair(seed, prefixes):
    """Returns random tags, and predictions that agree with some of them."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 8))
    targets = random_tags(generator, prefixes, count)
    others = [tag for tags in random_tags(generator, prefixes, count) for tag in tags] or ["O"]
    predictions = [list(sentence) for sentence in targets]
    for sentence in predictions:
        for word in range(len(sentence)):
            if generator.random() < 0.3:
                sentence[word] = str(generator.choice(others))
    return targets, predictions


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_to_seqeval(scheme, strict):
    prefixes = "BI" if scheme == "iob2" else "BIES"
    options = {"mode": "strict", "scheme": SCHEMES[scheme]} if strict else {}
    for seed in range(500 if strict else 1000):
        targets, predictions = random_pair(seed, prefixes)
        reading = scheme if strict else None
        spans = [[spans_of(tags, reading) for tags in x] for x in (targets, predictions)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about ratios without denominators
            report = (
                seqeval.metrics.classification_report(
                    targets, predictions, output_dict=True, zero_division=0, **options
                )
                if any(map(any, spans))
                else {}
            )
        averages = [report.pop(f"{name} avg", {}) for name in ("micro", "macro", "weighted")]
        expected = {
            name: averages[0].get(key, 0)
            for name, key in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score"))
        }
        assert entity_scores(*spans) == pytest.approx(expected, abs=1e-12)
        for found, average in zip(entity_averages(*spans).values(), averages, strict=True):
            values = average.values() or [0, 0, 0, 0]
            assert list(found.values()) == pytest.approx(list(values), abs=1e-12)
        found = entity_report(*spans)
        assert list(found) == list(report)
        for label, row in found.items():
            assert list(row.values()) == pytest.approx(list(report[label].values()), abs=1e-12)


def test_by_hand():
    targets = [[("PER", 0, 2), ("LOC", 3, 4)], [("PER", 0, 1)]]
    predictions = [[("PER", 0, 2), ("LOC", 3, 5)], [("LOC", 0, 1)]]
    assert entity_scores(targets, predictions) == {"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3}
    assert entity_report(targets, predictions) == {
        "LOC": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1},
        "PER": {"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 2},
    }
    with pytest.raises(InputError, match="predictions for 1 texts, but targets for 2"):
        entity_scores(targets, [[]])
