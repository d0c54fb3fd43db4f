"""Metrics of entities: an entity is right if its label, first word and last word are right."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from keras_bert.errors import InputError

Span: TypeAlias = tuple[str, int, int]
"""An entity's label, the index of its first word, and the index of the word after its last."""


def entity_scores(
    targets: Sequence[Iterable[Span]], predictions: Sequence[Iterable[Span]]
) -> dict[str, float]:
    """Returns `precision`, `recall` and `f1` of all entities of all texts (micro average).

    The definitions follow the CoNLL-2003 task (https://aclanthology.org/W03-0419) and seqeval. If
    the denominator of a ratio is 0, the ratio counts as 0.

    Args:
        targets: right entities of each of N texts: label, index of the first word, and index of the
            word after the last.
        predictions: predicted entities of each text.

    Raises:
        InputError: if the numbers of texts differ.

    Example:
        >>> entity_scores([[("PER", 0, 2), ("LOC", 3, 4)]], [[("PER", 0, 2)]])["recall"]
        0.5
    """
    right, found, there = (counts.total() for counts in _counts(targets, predictions))
    return _ratios(right, found, there)


def entity_report(
    targets: Sequence[Iterable[Span]], predictions: Sequence[Iterable[Span]]
) -> dict[str, dict[str, Any]]:
    """Returns the scores of `entity_scores` for every label, in alphabetical order.

    Each dictionary also has `support`, the number of entities with the label in the targets.
    """
    right, found, there = _counts(targets, predictions)
    return {
        label: _ratios(right[label], found[label], there[label]) | {"support": there[label]}
        for label in sorted(found | there)
    }


def entity_averages(
    targets: Sequence[Iterable[Span]], predictions: Sequence[Iterable[Span]]
) -> dict[str, dict[str, Any]]:
    """Returns the scores of `entity_report` for all labels together, as three averages.

    "micro" counts all entities together, as `entity_scores`. "macro" is the mean of the labels'
    scores. "weighted" is their mean weighted by support; it is 0 if there are no entities.
    """
    rows = list(entity_report(targets, predictions).values())
    supports = [row["support"] for row in rows]
    total = sum(supports)

    def mean(weights: Sequence[int]) -> dict[str, float]:
        return {
            name: sum(w * row[name] for w, row in zip(weights, rows, strict=True))
            / max(sum(weights), 1)
            for name in ("precision", "recall", "f1")
        }

    averages = {
        "micro": entity_scores(targets, predictions),
        "macro": mean([1] * len(rows)),
        "weighted": mean(supports),
    }
    return {name: {**scores, "support": total} for name, scores in averages.items()}


def _counts(
    targets: Sequence[Iterable[Span]], predictions: Sequence[Iterable[Span]]
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Counts true positives, predictions and targets by label."""
    if len(targets) != len(predictions):
        raise InputError(
            f"There are predictions for {len(predictions)} texts, but targets for {len(targets)}."
        )
    pairs = [(set(a), set(b)) for a, b in zip(targets, predictions, strict=True)]
    right, found, there = (
        Counter(label for spans in several for label, _, _ in spans)
        for several in ([a & b for a, b in pairs], [b for _, b in pairs], [a for a, _ in pairs])
    )
    return right, found, there


def _ratios(right: int, found: int, there: int) -> dict[str, float]:
    return {
        "precision": right / found if found else 0.0,
        "recall": right / there if there else 0.0,
        "f1": 2 * right / (found + there) if found + there else 0.0,
    }
