"""Metrics of answers, by the definitions of SQuAD's official scripts.

SQuAD 1.1: Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250. SQuAD 2.0, with questions that
have no answer: Rajpurkar et al. 2018, https://arxiv.org/abs/1806.03822. All scores are from 0 to 1.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert.errors import InputError

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """Lowercases an answer and removes ASCII punctuation, articles and double spaces."""
    text = answer.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact(prediction: str, answer: str) -> float:
    """Returns 1 if the normalized texts are equal, else 0."""
    return float(normalized(prediction) == normalized(answer))


def overlap(prediction: str, answer: str, *, both_empty: bool = True) -> float:
    """F1 of the words of two normalized texts. A repeated word counts as often as it occurs.

    Args:
        prediction: predicted answer.
        answer: right answer.
        both_empty: whether two texts that are empty when normalized have the score 1, as in SQuAD
            2.0, or 0, as in SQuAD 1.1.
    """
    found, right = (normalized(text).split() for text in (prediction, answer))
    if not found and not right:
        return float(both_empty)
    same = (Counter(found) & Counter(right)).total()
    return 2 * same / (len(found) + len(right))


def answer_scores(
    predictions: Sequence[str], answers: Sequence[Sequence[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns exact match and F1 of each of N questions, `[N]` float64 each.

    If any question has no answer, the definitions of SQuAD 2.0 apply, else the definitions of SQuAD
    1.1. They differ only for answers that are empty when normalized, such as "The".

    Args:
        predictions: predicted answers; "" means no answer.
        answers: right answers of each question. The right answer with the best score counts.

    Raises:
        InputError: if there are no questions, or the two numbers of questions differ.
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
    """Returns `exact_match` and `f1`, the means over all questions.

    If some questions have no answer, there are also the means over the questions with an answer
    (`has_answer_exact_match`, `has_answer_f1`) and over the questions without one (`no_answer_f1`,
    which equals their exact match). For arguments and errors, see `answer_scores`.
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
    """Finds the threshold for "no answer" with the best mean score.

    Args:
        scores: score of each question's best answer, `[N]`: exact match or F1.
        null_scores: score of "no answer", `[N]`. The prediction is "no answer" if this score is
            above the threshold.
        answered: bool `[N]`, whether the best answer is not "".
        has_answer: bool `[N]`, whether the question has an answer.

    Returns:
        The best mean score, and the smallest of the `null_scores` that gives this score as a
        threshold. If it is best never to answer, the threshold is 0, or a lower number if 0 is not
        below all `null_scores`.
    """
    order = np.argsort(null_scores, kind="stable")
    limits = np.asarray(null_scores, float)[order]
    # How much the score changes if a question is answered.
    gains = np.where(has_answer, scores, -np.asarray(answered, float))[order]
    never = np.count_nonzero(~np.asarray(has_answer, bool))  # the score of never answering
    totals = never + np.cumsum(gains)
    totals[:-1][
        limits[:-1] == limits[1:]
    ] = -np.inf  # questions with equal scores are answered together
    best = int(totals.argmax())
    if totals[best] <= never:
        return never / len(limits), float(min(0.0, np.nextafter(limits[0], -np.inf)))
    return float(totals[best]) / len(limits), float(limits[best])
