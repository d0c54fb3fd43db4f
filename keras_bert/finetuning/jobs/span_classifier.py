"""Questions to the parts of texts that answer them, as in SQuAD 1.1 and 2.0."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import QuestionExamples
from keras_bert.finetuning.jobs.job import Job, PerRow
from keras_bert.metrics.squad import answer_scores, best_threshold, squad_scores
from keras_bert.tasks.answers import candidates_of, choose
from keras_bert.text.rows import Rows

OUTPUTS = ("start_logits", "end_logits")

Answers = Sequence[Sequence[tuple[str, int]]]
Logits = Mapping[str, Sequence[np.ndarray]]


def rows(model: Any, examples: QuestionExamples) -> Rows:
    """One row for each window on a context, with the question."""
    return model.rows(examples.inputs, overlap="auto", offsets=True)


def targets(model: Any, examples: QuestionExamples, rows: Rows) -> PerRow:
    """The first and the last token of a question's first answer.

    Both are 0, the position of `[CLS]`, in windows that do not show the answer as a whole.

    Raises:
        InputError: if the examples have no answers.
    """
    answers = _answers(examples)
    positions = np.zeros((len(rows), 2), np.int32)
    bounds = np.searchsorted(rows.sample_ids, np.arange(len(answers) + 1))
    for several, begin, end in zip(answers, bounds[:-1], bounds[1:], strict=True):
        if several:
            text, start = several[0]
            windows = [rows.row(index) for index in range(begin, end)]
            positions[begin:end] = _positions(windows, (start, start + len(text)))
    return PerRow(dict(zip(OUTPUTS, positions.T, strict=True)))


def _positions(
    windows: Sequence[Mapping[str, np.ndarray]], span: tuple[int, int]
) -> list[tuple[int, int]]:
    """First and last token of the characters in each window, or (0, 0).

    What all windows together show of the characters is all that the tokenizer leaves of them.
    """
    touched = [
        np.flatnonzero((row["starts"] >= 0) & (row["ends"] > span[0]) & (row["starts"] < span[1]))
        for row in windows
    ]
    shown = [
        (row["starts"][tokens[0]], row["ends"][tokens[-1]])
        for row, tokens in zip(windows, touched, strict=True)
        if len(tokens)
    ]
    whole = (min(start for start, _ in shown), max(end for _, end in shown)) if shown else None
    return [
        (tokens[0], tokens[-1])
        if len(tokens) and (row["starts"][tokens[0]], row["ends"][tokens[-1]]) == whole
        else (0, 0)
        for row, tokens in zip(windows, touched, strict=True)
    ]


def predict(
    model: Any, examples: QuestionExamples, rows: Rows, outputs: Logits
) -> list[dict[str, Any]]:
    """As `SpanClassifier.predict_text`, with the `id` of each question."""
    found = candidates_of(rows, outputs, examples.contexts)
    return [
        {"id": name, **choose(candidates, model.null_threshold)}
        for name, candidates in zip(examples.ids, found, strict=True)
    ]


def measure(
    model: Any, examples: QuestionExamples, rows: Rows, outputs: Logits
) -> dict[str, float]:
    """The loss and the scores of SQuAD's scripts.

    Where some questions have no answer (2.0), also those with the `null_threshold` that is best
    for these examples, and that threshold.
    """
    answers = [[text for text, _ in several] for several in _answers(examples)]
    found = candidates_of(rows, outputs, examples.contexts)
    predictions = [choose(candidates, model.null_threshold)["answer"] for candidates in found]
    scores = {"loss": _loss(outputs, targets(model, examples, rows).values)}
    scores |= squad_scores(predictions, answers)
    if not all(answers):
        best = [choose(candidates)["answer"] for candidates in found]
        differences = np.array([candidates.null_difference for candidates in found])
        answered, has_answer = (np.array([*map(bool, x)]) for x in (best, answers))
        for name, values in zip(("exact_match", "f1"), answer_scores(best, answers), strict=True):
            scores[f"best_{name}"], scores[f"best_{name}_threshold"] = best_threshold(
                values, differences, answered, has_answer
            )
    return scores


def metrics(model: Any) -> tuple[str, ...]:
    """Those that there always are."""
    return "f1", "exact_match"


def _answers(examples: QuestionExamples) -> Answers:
    if examples.answers is None:
        raise InputError(
            f"{examples.path} has no answers; give some, or an empty list to every question "
            "without one."
        )
    return examples.answers


def _loss(outputs: Logits, positions: Mapping[str, np.ndarray]) -> float:
    """The mean of the cross-entropies of start and end, over rows."""
    total = 0.0
    for name in OUTPUTS:
        for logits, position in zip(outputs[name], positions[name], strict=True):
            logits = logits.astype("float64")
            highest = logits.max()
            total += highest + np.log(np.exp(logits - highest).sum()) - logits[position]
    return float(total) / len(OUTPUTS) / len(outputs[OUTPUTS[0]])


JOB = Job(rows, targets, predict, measure, metrics)
