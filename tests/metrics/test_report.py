"""The report of a model's scores by label, and its table."""

import dataclasses
import json
import unicodedata
from collections import Counter

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import finetuning
from keras_bert.finetuning.examples import TaggedExamples
from keras_bert.metrics.entities import entity_averages, entity_report
from keras_bert.metrics.report import Report, confused_pairs
from tests.finetuning import tiny

metrics = pytest.importorskip("sklearn.metrics")

LABELS = ["card_payment_not_recognised_in_the_shop_of_the_person_a", "", "x", "neutral", "a\nb\x07"]
LABELS += ["日本語のラベルはとても長いですからここで切りますよねほんとうに", "שלום", "good"]
LABELS += [LABELS[0].replace("person", "people")]


def columns_of(line):
    """Columns of a line in a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in line
    )


def guesses(labels, size=400, right=0.7, seed=0):
    rng = np.random.default_rng(seed)
    targets = [labels[i] for i in rng.integers(0, len(labels), size)]
    others = [labels[i] for i in rng.integers(0, len(labels), size)]
    predictions = [a if rng.random() < right else b for a, b in zip(targets, others, strict=True)]
    return targets, predictions


def report_of(targets, predictions, most=10):
    spans = [[[(label, 0, 0)] for label in labels] for labels in (targets, predictions)]
    confused = confused_pairs(targets, predictions, most)
    scores = {"loss": 1.25, "accuracy": 0.7, "macro_f1": 0.6}
    return Report(len(targets), scores, entity_report(*spans), entity_averages(*spans), confused)


@pytest.mark.parametrize("labels", [LABELS, [f"label_{i}" for i in range(150)], ["a", "b"]])
def test_the_scores_are_those_of_scikit_learn(labels):
    targets, predictions = guesses(labels)
    report = report_of(targets, predictions)
    expected = metrics.classification_report(
        targets, predictions, output_dict=True, zero_division=0
    )
    assert report.averages["micro"]["f1"] == pytest.approx(expected.pop("accuracy"))
    found = report.labels | {f"{k} avg": v for k, v in report.averages.items() if k != "micro"}
    assert found.keys() == expected.keys()
    for name, scores in found.items():
        assert list(scores.values()) == pytest.approx(list(expected[name].values()))


@pytest.mark.parametrize("labels", [LABELS, [f"label_{i}" for i in range(150)], ["a", "b"]])
def test_the_table_fits_a_terminal(labels):
    report = report_of(*guesses(labels))
    lines = str(report).split("\n")
    assert max(map(columns_of, lines)) <= 80
    assert lines[0] == "400 examples: loss 1.2500, accuracy 0.7000, macro_f1 0.6000"
    start, end = 3, 3 + len(report.labels)
    numbers = [tuple(map(float, line.split()[-4:])) for line in lines[start:end]]
    for found, scores in zip(numbers, report.labels.values(), strict=True):
        assert found == pytest.approx(tuple(scores.values()), abs=5e-4)
    # Every name stands in columns of the same width, so that the numbers are aligned.
    assert len({columns_of(line) for line in lines[2:end]}) == 1
    pairs = lines[end + 6 :]
    assert len(pairs) == len(report.confused)
    for line, pair in zip(pairs, report.confused, strict=True):
        assert line.split()[-2:] == [str(pair["count"]), str(pair["support"])]
    assert len({columns_of(line) for line in lines[end + 5 :]}) == 1


def test_labels_that_begin_alike_stay_apart():
    lines = str(report_of(*guesses(LABELS))).split("\n")[3 : 3 + len(LABELS)]
    assert len({tuple(line.split()[:-4]) for line in lines}) == len(LABELS)
    assert [line for line in lines if "…" in line] != []


def test_the_most_confused_pairs_by_hand():
    targets = ["a", "a", "a", "b", "b", "c", "c", "c", "c"]
    predictions = ["b", "b", "a", "a", "b", "a", "a", "b", "c"]
    expected = [("a", "b", 2, 3), ("c", "a", 2, 4), ("b", "a", 1, 2), ("c", "b", 1, 4)]
    keys = ("label", "predicted", "count", "support")
    assert confused_pairs(targets, predictions) == [
        dict(zip(keys, row, strict=True)) for row in expected
    ]
    assert len(confused_pairs(targets, predictions, 3)) == 3
    assert str(report_of(["a"], ["a"])).endswith("No label was confused with another.")


def test_texts():
    model, examples = tiny.classifier(labels=["bad", "good", "so"]), tiny.opinions()
    report = finetuning.report(model, examples, most_confused=1)
    assert report.metrics == finetuning.evaluate(model, examples)
    predictions = finetuning.predict(model, examples)
    assert report.labels == finetuning.label_report(model, examples, predictions)
    pairs = Counter(
        (right, found["label"])
        for right, found in zip(examples.labels, predictions, strict=True)
        if right != found["label"]
    )
    (pair,) = report.confused
    assert pair["count"] == max(pairs.values()) == pairs[pair["label"], pair["predicted"]]
    assert json.loads(json.dumps(report.to_dict())) == {
        "examples": 64,
        **report.metrics,
        "labels": report.labels,
        "averages": report.averages,
        "confused": report.confused,
    }


def test_texts_with_several_labels_have_no_pairs():
    model = tiny.classifier(problem_type="multi_label")
    examples = tiny.opinions()
    examples = dataclasses.replace(examples, labels=(("bad", "good"), ()) * 32)
    report = finetuning.report(model, examples)
    assert report.confused is None
    assert "confused" not in str(report)
    found = [set(each["labels"]) for each in finetuning.predict(model, examples)]
    expected = metrics.precision_recall_fscore_support(
        [["bad" in labels, "good" in labels] for labels in examples.labels],
        [["bad" in labels, "good" in labels] for labels in found],
        average="macro",
        zero_division=0,
    )
    assert list(report.averages["macro"].values())[:3] == pytest.approx(expected[:3])


def test_entities_and_the_words_that_are_confused():
    model = kb.TokenClassifier(
        tiny.encoder(),
        labels=["O", "B-X", "I-X", "B-Y", "I-Y"],
        scheme="iob2",
        preprocessor=tiny.preprocessor(),
    )
    bias = model.head.logits.bias
    model.head.logits.kernel.assign(np.zeros(model.head.logits.kernel.shape))
    bias.assign([0.0, 0, 0, 5, 0])  # every word is a Y of its own
    examples = TaggedExamples(
        path="a",
        lines=(1, 2),
        texts=("the film", "good"),
        words=(((0, 3), (4, 8)), ((0, 4),)),
        tags=(("O", "B-X"), ("B-Y",)),
    )
    report = finetuning.report(model, examples)
    assert report.labels["Y"] == {
        "precision": pytest.approx(1 / 3),
        "recall": 1.0,
        "f1": 0.5,
        "support": 1,
    }
    assert report.confused == [
        {"label": "O", "predicted": "Y", "count": 1, "support": 1},
        {"label": "X", "predicted": "Y", "count": 1, "support": 1},
    ]


def test_models_without_labels():
    model = tiny.classifier(labels=None, num_labels=1, problem_type="regression")
    with pytest.raises(kb.InputError, match="labels to texts or words, but this Seq"):
        finetuning.report(model, tiny.opinions())
