"""SQuAD's scores against an independent transcription of the official definitions.

The transcription follows the published definitions step by step, in percent, question by
question; what it shares with the package is nothing but the texts.
"""

import collections
import re
import string

import numpy as np
import pytest

from keras_bert import InputError
from keras_bert.metrics.squad import answer_scores, best_threshold, normalized, squad_scores

SETS = 1000


def official_normalize(text):
    text = "".join(char for char in text.lower() if char not in set(string.punctuation))
    text = re.compile(r"\b(a|an|the)\b", re.UNICODE).sub(" ", text)
    return " ".join(text.split())


def official_f1(prediction, truth, version):
    prediction, truth = official_normalize(prediction).split(), official_normalize(truth).split()
    common = collections.Counter(prediction) & collections.Counter(truth)
    same = sum(common.values())
    if version == 2 and (not prediction or not truth):
        return int(prediction == truth)
    if same == 0:
        return 0
    precision, recall = same / len(prediction), same / len(truth)
    return 2 * precision * recall / (precision + recall)


def official_scores(predictions, answers, version):
    exact, f1 = [], []
    for prediction, truths in zip(predictions, answers, strict=True):
        if version == 2:
            truths = [truth for truth in truths if official_normalize(truth)]
            if not truths:
                truths = [""]
        exact.append(
            max(int(official_normalize(prediction) == official_normalize(t)) for t in truths)
        )
        f1.append(max(official_f1(prediction, t, version) for t in truths))
    return exact, f1


def official_threshold(predictions, scores, no_answer, has_answer):
    current = best = sum(1 for has in has_answer if not has)
    threshold = 0.0
    for index in sorted(range(len(no_answer)), key=lambda index: no_answer[index]):
        wrong = -1 if predictions[index] else 0
        current += scores[index] if has_answer[index] else wrong
        if current > best:
            best, threshold = current, no_answer[index]
    return 100.0 * best / len(scores), threshold


WORDS = [
    "the",
    "The",
    "a",
    "An",
    "cat",
    "Cat.",
    "dog",
    "dog's",
    "42",
    "1,000",
    "—",
    "été",
    "...",
    "A",
]
SEPARATORS = [" ", "  ", "\t", "-", "\u00a0", ""]


def random_text(generator):
    words = generator.choice(WORDS, generator.integers(0, 5))
    return "".join(str(word) + str(generator.choice(SEPARATORS)) for word in words)


def random_questions(seed, version):
    """Predictions and answers: some equal, some share words, some are empty."""
    generator = np.random.default_rng(seed)
    predictions, answers = [], []
    for _ in range(generator.integers(1, 20)):
        impossible = version == 2 and generator.random() < 0.4
        truths = (
            [] if impossible else [random_text(generator) for _ in range(generator.integers(1, 4))]
        )
        same = truths and generator.random() < 0.5
        predictions.append(truths[0] if same else random_text(generator))
        answers.append(truths)
    if version == 2:
        predictions.append("")
        answers.append([])
    return predictions, answers


@pytest.mark.parametrize("version", [1, 2])
def test_scores_equal_the_official_definitions(version):
    for seed in range(SETS):
        predictions, answers = random_questions(seed, version)
        expected = official_scores(predictions, answers, version)
        np.testing.assert_allclose(answer_scores(predictions, answers), expected, atol=1e-12)
        found = squad_scores(predictions, answers)
        has = np.array([bool(truths) for truths in answers])
        groups = {"": np.ones_like(has)}
        if version == 2:
            groups |= {"has_answer_": has, "no_answer_": ~has}
        for prefix, group in groups.items():
            for name, values in zip(("exact_match", "f1"), np.array(expected, float), strict=True):
                if group.any() and (prefix, name) != ("no_answer_", "exact_match"):
                    assert found.pop(prefix + name) == pytest.approx(values[group].mean())
        assert not found


def test_best_threshold_equals_the_official_search():
    for seed in range(SETS):
        predictions, answers = random_questions(seed, 2)
        no_answer = np.random.default_rng(seed).random(len(answers))
        has = [bool(truths) for truths in answers]
        for scores in official_scores(predictions, answers, 2):
            best, threshold = official_threshold(predictions, scores, no_answer, has)
            found = best_threshold(
                np.array(scores), no_answer, np.array([*map(bool, predictions)]), np.array(has)
            )
            assert found == (pytest.approx(best / 100), threshold)


def test_the_best_threshold_gives_the_score_that_it_promises():
    """Also where null scores are below 0 or equal: by trying every threshold."""
    for seed in range(300):
        generator = np.random.default_rng(seed)
        size = int(generator.integers(1, 12))
        null_scores = generator.integers(-3, 3, size).astype(float)
        has, answered = generator.random((2, size)) < 0.6
        scores = np.where(answered, generator.random(size), 0) * has

        def score(threshold):
            given = null_scores <= threshold  # noqa: B023
            return np.where(has, scores * given, ~(given & answered)).mean()  # noqa: B023

        found, threshold = best_threshold(scores, null_scores, answered, has)
        assert score(threshold) == pytest.approx(found)
        assert found == pytest.approx(max(score(limit) for limit in (-9.0, *null_scores)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat's an A-team.", "cats ateam"),
        ("a.m.", "am"),
        ("an the a", ""),
        ("«Théâtre»\u00a0the end", "«théâtre» end"),
        ("", ""),
    ],
)
def test_normalization_by_hand(text, expected):
    assert normalized(text) == expected


def test_what_cannot_be_measured():
    with pytest.raises(InputError, match="2 predictions, but 1 questions"):
        squad_scores(["a", "b"], [["a"]])
    with pytest.raises(InputError, match="no questions"):
        squad_scores([], [])
