"""Answers against answers, by the definitions of SQuAD's official scripts.

1.1: Rajpurkar et al. 2016 (https://arxiv.org/abs/1606.05250); 2.0, where some questions have no
answer: Rajpurkar et al. 2018 (https://arxiv.org/abs/1806.03822). All scores are between 0 and 1.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert.errors import InputError

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """Lowercase, without ASCII punctuation, without articles, with single spaces."""
    text = answer.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact(prediction: str, answer: str) -> float:
    """1 if both are the same when normalized, else 0."""
    return float(normalized(prediction) == normalized(answer))


def overlap(prediction: str, answer: str, *, both_empty: bool = True) -> float:
    """F1 of the words, as often as they occur, of normalized texts.

    Args:
        prediction: what the model says.
        answer: what is right.
        both_empty: whether two texts that are empty when normalized are equal (as in 2.0) or
            have nothing in common (as in 1.1).
    """
    found, right = (normalized(text).split() for text in (prediction, answer))
    if not found and not right:
        return float(both_empty)
    same = (Counter(found) & Counter(right)).total()
    return 2 * same / (len(found) + len(right))


def answer_scores(
    predictions: Sequence[str], answers: Sequence[Sequence[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Exact match and F1 of each of N questions, `[N]` float64 each.

    If any question has no answer the definitions are those of 2.0, else those of 1.1. They
    differ only for answers of which normalization leaves nothing, such as "The".

    Args:
        predictions: the answers found, "" where there is none.
        answers: for each question those that are right, the best of which counts.

    Raises:
        InputError: if there are no questions or the numbers of questions differ.
    """
    if len(predictions) != len(answers):
        raise InputError(f"There are {len(predictions)} predictions, but {len(answers)} questions.")
    if not len(answers):
        raise InputError("There are no questions to measure; give at least one.")
    impossible = not all(answers)

    def best(score: Callable[[str, str], float]) -> np.ndarray:
        values = []
        for prediction, right in zip(predictions, answers, strict=True):
            if impossible:
                right = [answer for answer in right if normalized(answer)] or [""]
            values.append(max(score(prediction, answer) for answer in right))
        return np.array(values)

    return best(exact), best(lambda a, b: overlap(a, b, both_empty=impossible))


def squad_scores(predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """`exact_match` and `f1`, the means over all questions.

    If some questions have no answer, the same also over those alone that have one
    (`has_answer_exact_match`, `has_answer_f1`) or none (`no_answer_f1`, which is exact match,
    too). For arguments and errors see `answer_scores`.
    """
    by_name = dict(zip(("exact_match", "f1"), answer_scores(predictions, answers), strict=True))
    scores = {name: float(values.mean()) for name, values in by_name.items()}
    has_answer = np.array([bool(right) for right in answers])
    if has_answer.all():
        return scores
    if has_answer.any():
        scores |= {f"has_answer_{n}": float(x[has_answer].mean()) for n, x in by_name.items()}
    return scores | {"no_answer_f1": float(by_name["f1"][~has_answer].mean())}


def best_threshold(
    scores: np.ndarray,
    null_scores: np.ndarray,
    answered: np.ndarray,
    has_answer: np.ndarray,
) -> tuple[float, float]:
    """Which threshold for "no answer" gives the best mean score.

    Args:
        scores: of each question's best answer, `[N]`: exact match or F1.
        null_scores: how much speaks for there being no answer, `[N]`; none is given where that is
            more than the threshold.
        answered: bool `[N]`, whether the best answer is other than "".
        has_answer: bool `[N]`, whether there is one.

    Returns:
        The mean score and the smallest threshold that gives it, one of the `null_scores`; if it
        is best never to answer, 0, or a threshold below all `null_scores` where 0 is not.
    """
    order = np.argsort(null_scores, kind="stable")
    limits = np.asarray(null_scores, float)[order]
    # What is won by answering a question instead of saying that there is no answer.
    gains = np.where(has_answer, scores, -np.asarray(answered, float))[order]
    never = np.count_nonzero(~np.asarray(has_answer, bool))  # the score of never answering
    totals = never + np.cumsum(gains)
    totals[:-1][limits[:-1] == limits[1:]] = -np.inf  # equal ones are answered together
    best = int(totals.argmax())
    if totals[best] <= never:
        return never / len(limits), float(min(0.0, np.nextafter(limits[0], -np.inf)))
    return float(totals[best]) / len(limits), float(limits[best])
