"""Writes a page about artifacts: differences, metric, size and speed."""

import datetime
import html
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_bert.atomic import replace_file
from keras_bert.errors import InputError
from keras_bert.export._verify.comparison import Report, Row, verify
from keras_bert.export._verify.speed import BATCHES, THREADS, USUAL


class _Table(NamedTuple):
    """A table for Markdown and HTML; the first two columns are names."""

    title: str
    header: list[str]
    rows: list[list[str]]


def report(
    model: keras.Model,
    paths: Sequence[str | os.PathLike],
    texts: Any,
    page: str | os.PathLike,
    *,
    examples: Any = None,
    seconds: float = 1.0,
    openvino: bool = False,
) -> Report:
    """Writes the results of `verify`, with speed, as a Markdown page and an HTML page.

    Args:
        model: the model that the artifacts were made from.
        paths: paths of the artifacts.
        texts: texts to compare the artifacts on; see `verify`.
        page: path of the Markdown file, which must end in `.md`. The HTML page has the same path
            with `.html`. Both are replaced if they exist.
        examples: labeled examples to measure the task's metric on.
        seconds: time to measure each latency.
        openvino: whether to run ONNX files also in OpenVINO; see `verify`.

    Returns:
        The comparison that the page shows.

    Raises:
        InputError: if the page has another ending, or an argument of `verify` is wrong.
        ExportError: if an artifact cannot be run.

    Example:
        >>> found = export.report(model, ["model.onnx"], ["a fine film"], "report.md")
    """
    page = check_page(page)
    before = _load()
    found = verify(model, paths, texts, seconds, examples=examples, speed=True, openvino=openvino)
    title = f"Artifacts of a {type(model).__name__}"
    notes = _notes(found, examples, before, _load())
    tables = [_answers(found), _latencies(found), _running(found)]
    written = {
        page: _markdown(title, notes, tables),
        page.with_suffix(".html"): _html(title, notes, tables, found),
    }
    for path, content in written.items():
        replace_file(path, content)
    return found


def check_page(page: str | os.PathLike) -> Path:
    """Checks the path of a page, and returns it.

    Raises:
        InputError: if the path does not end in `.md`.
    """
    page = Path(page)
    if page.suffix != ".md":
        raise InputError(
            f"The page is {page}, but must end in .md. An .html page is written beside it."
        )
    return page


def _notes(found: Report, examples: Any, before: str, after: str) -> list[str]:
    """Returns sentences on how the numbers were measured."""
    runtimes = sorted({row.runtime for row in found.rows})
    quality = []
    if found.metric:
        quality = [
            f"{found.metric}: in points of 100, on {found.examples} examples of {examples.path}."
        ]
    shape = _speed(found.rows[0]).shape
    return [
        f"Difference: largest difference of any output from the Keras model, on {found.texts} "
        "texts.",
        *quality,
        "Latency: median of repeated calls in one process on one thread; ids have no padding. "
        "Spread: half the interquartile range of the calls divided by their median, the largest "
        "value of all latencies of an artifact. It shows how noisy the machine was.",
        f"Throughput: in batches of {shape[0]} texts of {shape[1]} tokens, if the artifact takes "
        "this shape. Cold start: loading and the first answer, in a fresh process that has "
        "imported the runtime. Memory: peak memory of this process minus its memory before "
        "loading.",
        *([_OPENVINO] if any(row.openvino for row in found.rows) else []),
        f"{datetime.date.today()}, {platform.system()} {platform.machine()}, {os.cpu_count()} "
        f"cores, load average {before} before and {after} after; {', '.join(runtimes)}.",
    ]


_OPENVINO = "OpenVINO runs files with `dynamic` quantization slower than float32 files."


def _load() -> str:
    try:
        return f"{os.getloadavg()[0]:.1f}"
    except OSError:
        return "unknown"


def _speed(row: Row) -> Any:
    assert row.speed is not None
    return row.speed


def _answers(found: Report) -> _Table:
    header = ["artifact", "takes", "MB", "largest difference", "same answers"]
    rows = [
        [
            *_name(row),
            f"{row.megabytes:.2f}",
            f"{row.difference:.1e}",
            "–" if row.agreement is None else f"{row.agreement:.2f} %",
        ]
        for row in found.rows
    ]
    if found.points is not None:
        header += [str(found.metric), "drop"]
        for cells, row in zip(rows, found.rows, strict=True):
            points = float("nan") if row.points is None else row.points
            cells += [f"{points:.2f}", f"{found.points - points:.2f}"]
        rows.append(["Keras", *["–"] * 4, f"{found.points:.2f}", "–"])
    return _Table("Answers", header, rows)


def _latencies(found: Report) -> _Table:
    shapes = sorted({shape[::-1] for row in found.rows for shape in _speed(row).latencies})
    header = ["artifact", "takes", *(f"{batch} x {length}" for length, batch in shapes)]

    def cell(row: Row, length: int, batch: int) -> str:
        timing = _speed(row).latencies.get((batch, length))
        return "–" if timing is None else f"{timing.milliseconds:.2f}"

    rows = [[*_name(row), *(cell(row, *shape) for shape in shapes)] for row in found.rows]
    return _Table("Latency in milliseconds, texts x tokens, one thread", header, rows)


def _running(found: Report) -> _Table:
    header = ["artifact", "takes"]
    header += [f"texts/s, {n} thread{'s' if n > 1 else ''}" for n in THREADS]
    header += ["cold start, ms", "peak memory, MB", "spread"]
    rows = [
        [
            *_name(row),
            *(f"{_speed(row).throughput[threads]:.1f}" for threads in THREADS),
            f"{_speed(row).cold_milliseconds:.0f}",
            f"{_speed(row).peak_megabytes:.0f}",
            f"{_speed(row).spread:.0%}",
        ]
        for row in found.rows
    ]
    return _Table("Throughput, start and memory", header, rows)


def _name(row: Row) -> list[str]:
    parts = Path(row.name).absolute().parts
    return ["/".join(parts[-2:] if parts[-1].isdecimal() else parts[-1:]), row.takes]


def _markdown(title: str, notes: Sequence[str], tables: Sequence[_Table]) -> str:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    parts = [f"# {title}"]
    for table in tables:
        rule = "|".join(["---"] * 2 + ["--:"] * (len(table.header) - 2))
        lines = [line(table.header), f"|{rule}|", *map(line, table.rows)]
        parts += [f"## {table.title}", "\n".join(lines)]
    return "\n\n".join([*parts, "## How", *notes]) + "\n"


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .75rem; text-align: right }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left }
svg { display: block; max-width: 100% } figcaption { font-weight: 600 } figure { margin: 1.5rem 0 }
"""


def _html(title: str, notes: Sequence[str], tables: Sequence[_Table], found: Report) -> str:
    def line(cells: Iterable[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    def table(one: _Table) -> str:
        rows = "\n".join([line(one.header, "th"), *(line(row, "td") for row in one.rows)])
        return f"<h2>{html.escape(one.title)}</h2>\n<table>\n{rows}\n</table>"

    body = [
        f"<h1>{html.escape(title)}</h1>",
        *(_bars(name, value_of, found.rows) for name, value_of in _CHARTS.items()),
        *map(table, tables),
        "<h2>How</h2>",
        *(f"<p>{html.escape(note)}</p>" for note in notes),
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    lines = ["<!doctype html>", f'<html lang="en"><head>{head}</head>', "<body>", *body]
    return "\n".join([*lines, "</body></html>"]) + "\n"


def _usual_latency(row: Row) -> float | None:
    timing = _speed(row).latencies.get((BATCHES[0], USUAL))
    return None if timing is None else timing.milliseconds


_CHARTS: dict[str, Callable[[Row], float | None]] = {
    "Megabytes on disk": lambda row: row.megabytes,
    f"Milliseconds for one text of {USUAL} tokens, one thread": _usual_latency,
}
_BAR, _NAMES, _WIDTH = 26, 260, 820  # pixels of a bar, of the names, of the whole chart


def _bars(title: str, value_of: Callable[[Row], float | None], rows: Sequence[Row]) -> str:
    """Draws a bar for each row that has a value. If no row has a value, returns ""."""
    bars = [(" ".join(_name(row)), value_of(row)) for row in rows]
    known = [(name, value) for name, value in bars if value is not None]
    if not known:
        return ""
    scale = (_WIDTH - _NAMES - 80) / max(value for _, value in known)
    drawn = []
    for number, (name, value) in enumerate(known):
        y = number * _BAR
        drawn.append(
            f'<text x="{_NAMES - 8}" y="{y + 17}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect x="{_NAMES}" y="{y + 4}" width="{max(value * scale, 1):.1f}" height="18" '
            f'fill="#4477aa"/><text x="{_NAMES + value * scale + 6:.1f}" y="{y + 17}">'
            f"{value:.2f}</text>"
        )
    size = f'width="{_WIDTH}" height="{len(known) * _BAR}" font-size="13"'
    caption = f"<figcaption>{html.escape(title)}</figcaption>"
    return f"<figure>{caption}<svg {size}>{''.join(drawn)}</svg></figure>"
