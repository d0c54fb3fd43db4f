"""Finds answers in a context from the start and end logits of its tokens.

The algorithm is `write_predictions` in BERT's `run_squad.py`, with two differences. All pairs of a
start and an end are scored, not only the 20 best starts and ends. An answer is a slice of the given
text; BERT's code joins tokens and then looks for the same text in the context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from keras_bert.text.rows import Rows

N_BEST = 20
MAX_ANSWER_TOKENS = 30


class Answer(NamedTuple):
    """Span `context[start:end]` of a context, and its score: start logit plus end logit."""

    text: str
    start: int
    end: int
    score: float


class Candidates(NamedTuple):
    """Candidates for the answer to a question.

    Args:
        answers: answers with different texts, the best first; empty if the context is empty.
        null_score: score of "no answer": start logit plus end logit of `[CLS]`, the lowest of all
            windows.
    """

    answers: list[Answer]
    null_score: float

    @property
    def null_difference(self) -> float:
        """`null_score` minus the best answer's score; infinity if `answers` is empty."""
        return self.null_score - self.answers[0].score if self.answers else np.inf


def candidates_of(
    rows: Rows,
    outputs: Mapping[str, Sequence[np.ndarray]],
    contexts: Sequence[str],
    n_best: int = N_BEST,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
) -> list[Candidates]:
    """Finds the best answers to N questions, over all windows of their contexts.

    Windows overlap, so several windows may hold the same answer. An answer's score comes from the
    window that gives the most context to the answer's first token.

    Args:
        rows: R windows, with offsets.
        outputs: `start_logits` and `end_logits`, each with an array `[T]` for every row.
        contexts: N texts.
        n_best: number of answers to keep.
        max_answer_tokens: largest number of tokens in an answer.
    """
    found: list[list[tuple[float, int, int]]] = [[] for _ in contexts]
    null_scores = np.full(len(contexts), np.inf)
    pairs = zip(outputs["start_logits"], outputs["end_logits"], strict=True)
    for index, (start_logits, end_logits) in enumerate(pairs):
        sample, row = rows.sample_ids[index], rows.row(index)
        null_scores[sample] = min(null_scores[sample], float(start_logits[0] + end_logits[0]))
        for score, first, last in _best_pairs(
            np.where(row["is_max_context"], start_logits, -np.inf),
            np.where(row["starts"] >= 0, end_logits, -np.inf),
            n_best,
            max_answer_tokens,
        ):
            found[sample].append((score, row["starts"][first], row["ends"][last]))
    return [
        Candidates(_different(spans, context, n_best), float(null_score))
        for spans, context, null_score in zip(found, contexts, null_scores, strict=True)
    ]


def _best_pairs(
    start_logits: np.ndarray, end_logits: np.ndarray, count: int, max_tokens: int
) -> list[tuple[float, int, int]]:
    """Returns the score, first token and last token of the best spans, without scores of -inf.

    Args:
        start_logits: `[T]`.
        end_logits: `[T]`.
        count: number of spans to return.
        max_tokens: largest number of tokens in a span.
    """
    padded = np.pad(end_logits, (0, max_tokens - 1), constant_values=-np.inf)
    ends = np.lib.stride_tricks.sliding_window_view(padded, max_tokens)  # [T, max_tokens]
    scores = (start_logits[:, np.newaxis] + ends).ravel()
    best = np.argpartition(-scores, min(count, len(scores)) - 1)[:count]
    firsts, lengths = np.divmod(best, max_tokens)
    return [
        (float(score), int(first), int(last))
        for score, first, last in zip(scores[best], firsts, firsts + lengths, strict=True)
        if score > -np.inf
    ]


def _different(spans: list[tuple[float, int, int]], context: str, n_best: int) -> list[Answer]:
    """Returns the best spans with different texts. If scores are equal, the earlier span wins."""
    answers: dict[str, Answer] = {}
    for score, start, end in sorted(spans, key=lambda span: (-span[0], *span[1:])):
        # Tokens may begin with a space.
        text = context[start:end].lstrip()
        start, text = end - len(text), text.rstrip()
        if text and text not in answers:
            answers[text] = Answer(text, int(start), int(start) + len(text), score)
        if len(answers) == n_best:
            break
    return list(answers.values())


def choose(
    candidates: Candidates, null_threshold: float | None = None, n_best: int = 1
) -> dict[str, Any]:
    """Chooses the answer to a question.

    Args:
        candidates: candidates for the answer.
        null_threshold: the question has no answer if `null_difference` is above this number. None
            means that every question has an answer unless its context is empty.
        n_best: number of candidates to return under the key `n_best`. 1 leaves out this key.

    Returns:
        A dictionary: `answer`, `start`, `end` and `score`, the answer's probability among the
        candidates. If the question has no answer, `answer` is "", and `start` and `end` are 0.
        With a threshold, "no answer" is one of the candidates, and the dictionary has
        `null_difference` unless the context is empty. If `n_best` is above 1, the key `n_best`
        holds a list of such dictionaries, the best first.
    """
    null = Answer("", 0, 0, candidates.null_score)
    entries = candidates.answers
    if null_threshold is not None or not entries:
        entries = sorted([*entries, null], key=lambda answer: -answer.score)
    scores = np.array([answer.score for answer in entries])
    weights = np.exp(scores - scores.max())
    probabilities = (weights / weights.sum()).tolist()
    results = [
        {"answer": answer.text, "start": answer.start, "end": answer.end, "score": probability}
        for answer, probability in zip(entries, probabilities, strict=True)
    ]
    none = null_threshold is not None and candidates.null_difference > null_threshold
    best = next(
        result for result in results if not candidates.answers or (result["answer"] == "") == none
    )
    prediction: dict[str, Any] = dict(best)
    if null_threshold is not None and candidates.answers:
        prediction["null_difference"] = candidates.null_difference
    if n_best > 1:
        prediction["n_best"] = results[:n_best]
    return prediction
