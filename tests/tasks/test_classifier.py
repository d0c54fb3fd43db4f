"""Answers of a classifier: several labels with scores, and labels it was not trained on."""

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import finetuning
from tests.finetuning import tiny

TEXTS = ["the film was good", "a book is bad", "", "poor poor film", "the book"]
LABELS = ["d", "b", "c", "a", "e"]


def sharp(**arguments):
    """A classifier with opinions: the scores of its labels differ."""
    model = tiny.classifier(**arguments)
    rng = np.random.default_rng(0)
    for variable in model.head.weights:
        variable.assign(rng.normal(0.0, 2.0, variable.shape))
    return model


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def logits_of(model, texts):
    return np.asarray(model(model.preprocessor(texts)), "float64")


@pytest.mark.parametrize("top_k", [1, 2, 5, 9, None])
def test_the_best_labels_with_their_scores(top_k):
    model = sharp(labels=LABELS)
    found = model.predict_text(TEXTS, 2, top_k=top_k)
    for answer, row in zip(found, softmax(logits_of(model, TEXTS)), strict=True):
        ranked = sorted(zip(row, LABELS, strict=True), reverse=True)[:top_k]
        assert (answer["label"], answer["score"]) == (
            ranked[0][1],
            pytest.approx(ranked[0][0], rel=1e-4),
        )
        if top_k == 1:
            assert answer.keys() == {"label", "score"}
            continue
        assert list(answer["scores"]) == [label for _, label in ranked]
        scores = [score for score, _ in ranked]
        assert list(answer["scores"].values()) == pytest.approx(scores, rel=1e-4)
    assert found == finetuning.predict(
        model, finetuning.TextExamples.from_lines(TEXTS), batch_size=2, top_k=top_k
    )


@pytest.mark.parametrize("top_k", [1, 3, None])
def test_several_labels_of_a_text(top_k):
    model = sharp(labels=LABELS, problem_type="multi_label")
    for answer, logits in zip(
        model.predict_text(TEXTS, top_k=top_k), logits_of(model, TEXTS), strict=True
    ):
        scores = dict(zip(LABELS, 1 / (1 + np.exp(-logits)), strict=True))
        assert answer["labels"] == [label for label in LABELS if scores[label] >= 0.5]
        expected = LABELS if top_k == 1 else sorted(LABELS, key=scores.get, reverse=True)[:top_k]
        assert list(answer["scores"]) == expected
        assert answer["scores"] == pytest.approx(
            {label: scores[label] for label in expected}, rel=1e-4
        )


def test_numbers_have_no_labels():
    model = sharp(labels=None, num_labels=1, problem_type="regression")
    assert model.predict_text(["film"], top_k=1)[0].keys() == {"score"}
    with pytest.raises(kb.InputError, match="top_k is None, but this model predicts numbers"):
        model.predict_text(["film"], top_k=None)


@pytest.mark.parametrize("top_k", [0, -1, 1.5, True, "2"])
def test_what_is_no_number_of_labels(top_k):
    with pytest.raises(kb.InputError, match=r"top_k is .*, but must be 1 or more, or None"):
        tiny.classifier().predict_text(["film"], top_k=top_k)


def test_only_classifiers_rank_labels():
    model = kb.MultipleChoice(tiny.encoder(), preprocessor=tiny.preprocessor())
    examples = finetuning.ChoiceExamples.from_lines(["the\tfilm\tbook"])
    with pytest.raises(kb.InputError, match="top_k is 2, but a MultipleChoice"):
        finetuning.predict(model, examples, top_k=2)


# Names of labels, and the ids of entailment and contradiction in transformers' pipeline.
INFERENCE = {
    "standard": (["contradiction", "entailment", "neutral"], 1, 0),
    "of MNLI": (["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], 0, -1),
    "two labels": (["entailment", "not_entailment"], 0, -1),
    "two labels, turned": (["no", "Entails"], 1, 0),
}
CANDIDATES = ["good film", "bad", "{} book"]


def pipeline(logits, entailment, contradiction, multi_label):
    """The formula of transformers' ZeroShotClassificationPipeline.postprocess."""
    if multi_label or logits.shape[1] == 1:
        both = np.exp(logits[..., [contradiction, entailment]])
        return (both / both.sum(-1, keepdims=True))[..., 1]
    chosen = np.exp(logits[..., entailment])
    return chosen / chosen.sum(-1, keepdims=True)


@pytest.mark.parametrize("kind", INFERENCE)
@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("candidates", [CANDIDATES, CANDIDATES[:1]])
def test_labels_it_was_not_trained_on(kind, multi_label, candidates):
    names, entailment, contradiction = INFERENCE[kind]
    model = sharp(labels=names)
    # The pairs, one by one.
    pairs = [[(text, f"the {label} is") for label in candidates] for text in TEXTS]
    logits = np.array([[logits_of(model, ([a], [b]))[0] for a, b in row] for row in pairs])
    expected = pipeline(logits, entailment, contradiction, multi_label)
    found = kb.zero_shot(
        model, TEXTS, candidates, "the {} is", multi_label=multi_label, batch_size=4
    )
    for answer, row in zip(found, expected, strict=True):
        scores = dict(zip(candidates, row, strict=True))
        assert answer["scores"] == pytest.approx(scores, rel=1e-4)
        assert list(answer["scores"]) == sorted(candidates, key=scores.get, reverse=True)
        if multi_label:
            assert answer["labels"] == [label for label in candidates if scores[label] >= 0.5]
        else:
            assert answer["label"] == max(candidates, key=scores.get)
            assert answer["score"] == answer["scores"][answer["label"]]


def test_contradiction_is_found_by_its_name():
    """transformers would take the first label, whatever its name."""
    model = sharp(labels=["neutral", "contradiction", "entailment"])
    (found,) = kb.zero_shot(model, "the film", ["good"], "{}", multi_label=True)
    logits = logits_of(model, (["the film"], ["good"]))[0]
    assert found["scores"]["good"] == pytest.approx(softmax(logits[1:])[1], rel=1e-4)
    assert kb.zero_shot(model, [], ["good"]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": tiny.encoder}, "A Encoder cannot classify without training"),
        ({"model": lambda: sharp(problem_type="multi_label")}, "cannot classify without training"),
        ({"model": sharp}, r"No label of the model begins with 'entail'; its labels are \['bad'"),
        ({"labels": "good"}, "The labels are 'good', but must be a list"),
        ({"labels": []}, "must be one or more different names"),
        ({"labels": ["a", "a"]}, "must be one or more different names"),
        ({"hypothesis": "a film"}, "The hypothesis is 'a film', but must have {} in place"),
        ({"texts": [3]}, "Texts must be strings"),
        (
            {"model": lambda: sharp(labels=["no", "entailment"], preprocessor=None)},
            "no preprocessor, so it cannot take texts",
        ),
    ],
)
def test_what_cannot_be_classified_without_training(change, message):
    arguments = {"texts": ["the film"], "labels": ["good", "bad"], **change}
    model = arguments.pop("model", lambda: sharp(labels=["no", "entailment"]))()
    with pytest.raises(kb.InputError, match=message):
        kb.zero_shot(model, **arguments)
