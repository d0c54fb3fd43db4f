"""Job of question answering: finds the answer in a context, as in SQuAD 1.1 and 2.0."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import Examples, QuestionExamples
from keras_bert.finetuning.jobs.job import Job, PerRow
from keras_bert.finetuning.readers.questions import read_questions
from keras_bert.finetuning.readers.tables import FORMATS
from keras_bert.metrics.squad import answer_scores, best_threshold, squad_scores
from keras_bert.tasks.answers import candidates_of, choose
from keras_bert.text.rows import Rows

OUTPUTS = ("start_logits", "end_logits")

Logits = Mapping[str, Sequence[np.ndarray]]


def read(
    path: str,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: Sequence[str] = (),
    header: bool = True,
    format: str | None = None,
    labeled: bool = True,
    on_error: Any = "fail",
) -> QuestionExamples:
    """Reads questions; see `read_questions`. The columns are question, context and answer."""
    label = next(iter(label_column), None)
    given = {"question": text_column, "context": pair_column, "answer": label}
    columns = {name: column for name, column in given.items() if column is not None}
    return read_questions(
        path, columns, format=format, header=header, labeled=labeled, on_error=on_error
    )


def arguments(
    train: QuestionExamples, *others: Examples, null_threshold: float | None = None
) -> dict[str, Any]:
    """Returns `null_threshold`, by default 0 if a training question has no answer, else None."""
    if null_threshold is None and not all(train.answers or ()):
        null_threshold = 0.0
    return {"null_threshold": null_threshold}


def rows(model: Any, examples: QuestionExamples) -> Rows:
    """Returns the rows: each question with overlapping windows of its context."""
    return model.rows(examples.inputs, overlap="auto", offsets=True)


def targets(model: Any, examples: QuestionExamples, rows: Rows) -> PerRow:
    """Returns, for each row, the first and the last token of the question's first answer.

    If the row does not hold the whole answer, both are 0, the position of `[CLS]`.

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
    """Returns the first and last token of the span in each row, or (0, 0).

    A tokenizer may drop characters at the ends of a span. So a row holds the whole span if the
    tokens of all rows together show no more of the span than the row's tokens.
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
    """Returns the dictionaries of `SpanClassifier.predict_text`, with the question's `id`."""
    found = candidates_of(rows, outputs, examples.contexts)
    return [
        {"id": name, **choose(candidates, model.null_threshold)}
        for name, candidates in zip(examples.ids, found, strict=True)
    ]


def measure(
    model: Any, examples: QuestionExamples, rows: Rows, outputs: Logits
) -> dict[str, float]:
    """Returns the loss and the scores of SQuAD's official scripts.

    If some questions have no answer, as in SQuAD 2.0, also returns the best exact match and the
    best F1 of all values of `null_threshold` on these examples, each with its threshold.
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


def _answers(examples: QuestionExamples) -> Sequence[Sequence[tuple[str, int]]]:
    if examples.answers is None:
        raise InputError(
            f"{examples.path} has no answers; give some. A question without an answer needs an "
            "empty list."
        )
    return examples.answers


def _loss(outputs: Logits, positions: Mapping[str, np.ndarray]) -> float:
    """Returns the mean cross-entropy of start and end over all rows."""
    total = 0.0
    for name in OUTPUTS:
        for logits, position in zip(outputs[name], positions[name], strict=True):
            logits = logits.astype("float64")
            highest = logits.max()
            total += highest + np.log(np.exp(logits - highest).sum()) - logits[position]
    return float(total) / len(OUTPUTS) / len(outputs[OUTPUTS[0]])


JOB = Job(
    examples=QuestionExamples,
    formats=("squad", *FORMATS),
    read=read,
    arguments=arguments,
    keeps_head=True,
    rows=rows,
    targets=targets,
    predict=predict,
    measure=measure,
    metrics=lambda model: ("f1", "exact_match"),
)
