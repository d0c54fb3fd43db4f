import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.tasks.answers import Answer, Candidates, candidates_of, choose
from keras_bert.text.rows import Rows

QUESTION = 3  # tokens before each window: [CLS], a question of one token, [SEP]


def rows_of(windows, sample_ids, is_max_context):
    """Windows, lists of the characters that each token covers, with a token after them."""
    before, after = [(-1, -1)] * QUESTION, [(-1, -1)]
    spans = [[*before, *window, *after] for window in windows]
    marks = [[False] * QUESTION + most + [False] for most in is_max_context]
    starts, ends = np.array([s for span in spans for s in span], np.int32).reshape(-1, 2).T
    flat = {"starts": starts, "ends": ends, "is_max_context": np.concatenate(marks).astype(bool)}
    flat |= {name: np.zeros(len(starts), np.int32) for name in ("token_ids", "segment_ids")}
    splits = np.cumsum([0, *map(len, spans)])
    return Rows(flat, splits, np.array(sample_ids, np.int32), 0, 100)


def brute_force(rows, outputs, context, sample, n_best, max_tokens):
    """Every start with every end, as `write_predictions` of `run_squad.py` looks at them."""
    found, null = [], math.inf
    for index in np.flatnonzero(rows.sample_ids == sample):
        row = rows.row(index)
        starts, ends = outputs["start_logits"][index], outputs["end_logits"][index]
        null = min(null, starts[0] + ends[0])
        for first in range(len(starts)):
            for last in range(first, len(starts)):
                inside = row["starts"][first] >= 0 and row["starts"][last] >= 0
                if not inside or not row["is_max_context"][first] or last - first >= max_tokens:
                    continue
                text = context[row["starts"][first] : row["ends"][last]]
                found.append((float(starts[first] + ends[last]), text.strip()))
    best = {}
    for score, text in sorted(found, key=lambda pair: -pair[0]):
        if text and text not in best:
            best[text] = score
    return list(best.items())[:n_best], null


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_candidates_are_the_best_of_all_spans(seed, n_best, max_tokens):
    rng = np.random.default_rng(seed)
    contexts, windows, sample_ids, marks = [], [], [], []
    for sample in range(rng.integers(1, 4)):
        # All words differ; tokens cover the space before them.
        words = [f"w{i}" for i in range(rng.integers(0, 15))]
        contexts.append(" ".join(words))
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        tokens = list(zip([0, *ends.tolist()], ends.tolist(), strict=False))
        size = int(rng.integers(1, 6))
        begins = range(0, max(len(tokens), 1), max(size - 1, 1))
        windows += [tokens[begin : begin + size] for begin in begins]
        chosen = [[begin <= i < begin + size for begin in begins] for i in range(len(tokens))]
        best = [int(rng.choice(np.flatnonzero(row))) for row in chosen]
        marks += [
            [best[i] == k for i in range(begin, min(begin + size, len(tokens)))]
            for k, begin in enumerate(begins)
        ]
        sample_ids += [sample] * len(begins)
    rows = rows_of(windows, sample_ids, marks)
    outputs = {
        name: [rng.normal(size=length).astype("float32") for length in rows.lengths]
        for name in ("start_logits", "end_logits")
    }
    found = candidates_of(rows, outputs, contexts, n_best, max_tokens)
    for sample, (context, candidates) in enumerate(zip(contexts, found, strict=True)):
        expected, null = brute_force(rows, outputs, context, sample, n_best, max_tokens)
        assert candidates.null_score == pytest.approx(null)
        assert [answer.text for answer in candidates.answers] == [text for text, _ in expected]
        for answer, (_, score) in zip(candidates.answers, expected, strict=True):
            assert answer.score == pytest.approx(score, abs=1e-6)
            assert context[answer.start : answer.end] == answer.text


def test_spaces_at_the_edges_are_no_part_of_an_answer():
    context = "a\u3000 b \n"
    rows = rows_of([[(0, 1), (1, 3), (3, 4), (4, 6)]], [0], [[True] * 4])
    starts, ends = np.zeros(8), np.zeros(8)
    starts[QUESTION + 1], ends[QUESTION + 3] = 5, 5
    outputs = {"start_logits": [starts], "end_logits": [ends]}
    best, *others = candidates_of(rows, outputs, [context])[0].answers
    assert best == Answer("b", 3, 4, 10.0)
    assert {answer.text for answer in others} == {"a", "a\u3000 b"}


def test_the_same_text_is_one_candidate():
    rows = rows_of([[(0, 1), (2, 3), (4, 5)]], [0], [[True] * 3])
    logits = np.array([0, 0, 0, 1, 2, 3, 0.0])
    outputs = {"start_logits": [logits], "end_logits": [logits]}
    found = candidates_of(rows, outputs, ["x y x"], max_answer_tokens=1)[0]
    assert found.answers == [Answer("x", 4, 5, 6.0), Answer("y", 2, 3, 4.0)]


CANDIDATES = Candidates([Answer("b", 2, 3, 2.0), Answer("a b", 0, 3, 1.0)], 2.5)


def test_an_answer_is_always_chosen_without_a_threshold():
    weights = np.exp([2.0, 1.0])
    expected = {"answer": "b", "start": 2, "end": 3}
    assert choose(CANDIDATES) == expected | {"score": pytest.approx(weights[0] / weights.sum())}
    several = choose(CANDIDATES, n_best=2)["n_best"]
    assert [x["answer"] for x in several] == ["b", "a b"]
    assert sum(x["score"] for x in several) == pytest.approx(1)
    assert choose(CANDIDATES, n_best=9)["n_best"] == several


@pytest.mark.parametrize(("threshold", "answer"), [(0.0, ""), (0.5, "b"), (0.4, ""), (-9.0, "")])
def test_no_answer_by_a_threshold(threshold, answer):
    weights = dict(zip(["", "b", "a b"], np.exp([2.5, 2.0, 1.0]), strict=True))
    found = choose(CANDIDATES, threshold, n_best=2)
    assert found["answer"] == answer
    assert found["score"] == pytest.approx(weights[answer] / sum(weights.values()))
    assert found["null_difference"] == pytest.approx(0.5)
    assert [x["answer"] for x in found["n_best"]] == ["", "b"]
    assert (found["start"], found["end"]) == ((2, 3) if answer else (0, 0))


@pytest.mark.parametrize("threshold", [None, 0.0])
def test_an_empty_context_has_no_answer(threshold):
    rows = rows_of([[]], [0], [[]])
    outputs = {name: [np.zeros(4, "float32")] for name in ("start_logits", "end_logits")}
    candidates = candidates_of(rows, outputs, [""])[0]
    assert candidates == Candidates([], 0.0)
    expected = {"answer": "", "start": 0, "end": 0, "score": 1.0}
    assert choose(candidates, threshold) == expected
    assert choose(candidates, threshold, n_best=3)["n_best"] == [expected]
