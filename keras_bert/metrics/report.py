"""Report of a model's scores by label, as a table for a terminal."""

import dataclasses
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

_WIDTH = 80
_SCORES = ("precision", "recall", "f1")


@dataclasses.dataclass(frozen=True)
class Report:
    """Scores of a model on labeled examples. `str(report)` is a table of at most 80 columns.

    Args:
        examples: number of examples.
        metrics: metrics by name, as from `evaluate`.
        labels: precision, recall, F1 and support of every label; see `label_report`.
        averages: the same for all labels together: "micro", "macro" and "weighted".
        confused: pairs of labels that the model confuses most, the most frequent first. `label` is
            the right label, `predicted` the other one, `count` the number of texts or words, and
            `support` the number of all texts or words with the right label. If texts have several
            labels, there are no pairs, and the value is None.
    """

    examples: int
    metrics: dict[str, float]
    labels: dict[str, dict[str, Any]]
    averages: dict[str, dict[str, Any]]
    confused: list[dict[str, Any]] | None

    def to_dict(self) -> dict[str, Any]:
        """Returns all values, ready for JSON: `examples`, the metrics, then the tables."""
        tables = {"labels": self.labels, "averages": self.averages, "confused": self.confused}
        return {"examples": self.examples, **self.metrics, **tables}

    def __str__(self) -> str:
        metrics = ", ".join(f"{name}\xa0{value:.4f}" for name, value in self.metrics.items())
        wrapped = textwrap.wrap(f"{self.examples}\xa0examples: {metrics}", _WIDTH)
        lines = [*(line.replace("\xa0", " ") for line in wrapped), ""]
        averages = {f"{name} average": scores for name, scores in self.averages.items()}
        width = _column_width([*self.labels, *averages], _WIDTH - 4 * 11)
        header = ("precision", "recall", "F1", "support")
        lines.append(_cell("label", width) + "".join(f"{name:>11}" for name in header))
        for group in (self.labels, averages):
            for name, scores in group.items():
                numbers = "".join(f"{scores[score]:>11.3f}" for score in _SCORES)
                lines.append(f"{_cell(name, width)}{numbers}{scores['support']:>11}")
            lines.append("")
        return "\n".join([*lines, *_confused_lines(self.confused)]).rstrip()


def _confused_lines(confused: Sequence[dict[str, Any]] | None) -> list[str]:
    if confused is None:
        return []
    if not confused:
        return ["No label was confused with another."]
    header = {"label": "most confused", "predicted": "predicted"}
    rows = [header, *confused]
    longest = (_WIDTH - 2 - 8 - 9) // 2  # two names, two spaces, two numbers
    widths = [_column_width([row[key] for row in rows], longest) for key in header]
    names = [
        "  ".join(_cell(row[key], width) for key, width in zip(header, widths, strict=True))
        for row in rows
    ]
    numbers = [f"{pair['count']:>8}{pair['support']:>9}" for pair in confused]
    return [a + b for a, b in zip(names, [f"{'count':>8}{'support':>9}", *numbers], strict=True)]


def confused_pairs(
    targets: Sequence[str], predictions: Sequence[str], most: int | None = None
) -> list[dict[str, Any]]:
    """Counts the pairs of right label and wrongly predicted label, the most frequent first.

    Args:
        targets: N right labels.
        predictions: N predicted labels.
        most: largest number of pairs; None means all.

    Returns:
        Dictionaries as in `Report.confused`. If counts are equal, the pair with the smaller support
        comes first, then the alphabet decides.
    """
    supports = Counter(targets)
    counts = Counter(pair for pair in zip(targets, predictions, strict=True) if pair[0] != pair[1])
    ranked = sorted(counts, key=lambda pair: (-counts[pair], supports[pair[0]], pair))
    return [
        {"label": one, "predicted": two, "count": counts[one, two], "support": supports[one]}
        for one, two in ranked[:most]
    ]


def _column_width(names: Sequence[str], longest: int) -> int:
    return min(longest, max(_width(_printable(name)) for name in names))


def _cell(name: str, width: int) -> str:
    """Returns a name padded or shortened to a width, in columns of a terminal."""
    name = _printable(name)
    if _width(name) > width:  # keep both ends, because many labels begin alike
        end = name
        while _width(end) > width // 2:
            end = end[1:]
        while _width(name) > width - 1 - _width(end):
            name = name[:-1]
        name = f"{name}…{end}"
    return name + " " * (width - _width(name))


def _printable(name: str) -> str:
    name = " ".join(name.split()) or "(empty)"
    return "".join(character if character.isprintable() else "�" for character in name)


def _width(text: str) -> int:
    """Returns the number of columns that a text has in a terminal."""
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )
