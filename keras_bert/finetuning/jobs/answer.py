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
    is_last = np.append(rows.owners[1:] != rows.owners[:-1], True)
    is_first = np.roll(is_last, 1)
    for index, owner in enumerate(rows.owners):
        if answers[owner]:
            text, start = answers[owner][0]
            span = (start, start + len(text))
            positions[index] = _tokens(rows.row(index), span, is_first[index], is_last[index])
    return PerRow(dict(zip(OUTPUTS, positions.T, strict=True)))


def _tokens(
    row: Mapping[str, np.ndarray], span: tuple[int, int], is_first: bool, is_last: bool
) -> tuple[int, int]:
    """First and last token of the characters in a window, or (0, 0).

    `is_first` and `is_last` say where nothing stands outside of the window, so that characters
    of which the tokenizer leaves nothing may be missing.
    """
    shown = np.flatnonzero(row["starts"] >= 0)
    after_start = shown[row["ends"][shown] > span[0]]
    before_end = shown[row["starts"][shown] < span[1]]
    if not len(after_start) or not len(before_end):
        return 0, 0
    first, last = after_start[0], before_end[-1]
    begins = first > shown[0] or is_first or row["starts"][first] <= span[0]
    ends = last < shown[-1] or is_last or row["ends"][last] >= span[1]
    return (first, last) if begins and ends and first <= last else (0, 0)


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
