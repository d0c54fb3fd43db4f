"""The page about artifacts."""

import html.parser
import importlib

import pytest

from keras_bert import InputError, export
from keras_bert.export import worker
from keras_bert.export._verify import speed
from keras_bert.export._verify.comparison import Report, Row
from keras_bert.export._verify.signatures import output_names, signatures_for
from keras_bert.export._verify.speed import Speed, measure_speed
from keras_bert.export.process import Timing, running

from .conftest import make_model
from .test_accuracy import TEXTS, texts


@pytest.fixture(scope="module")
def artifact(classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "a.tflite"
    export.tflite(classifier, path)
    return path


@pytest.fixture(scope="module")
def page(classifier, artifact):
    labels = [answer["label"] for answer in classifier.predict_text(list(TEXTS))]
    page = artifact.parent / "pages" / "page.md"
    found = export.report(
        classifier, [artifact], list(TEXTS[:9]), page, examples=texts(labels), seconds=1e-3
    )
    return found, page


def test_what_is_measured(page):
    (row,) = page[0].rows
    assert row.difference <= 1e-5
    assert row.points == page[0].points == 100
    assert row.runtime.startswith("ai-edge-litert 2")
    assert set(row.speed.latencies) == {(batch, 32) for batch in (1, 8, 32)}  # of 64 positions
    assert row.speed.shape == (32, 32)
    assert set(row.speed.throughput) == {1, 2}
    one = row.speed.latencies[32, 32].milliseconds
    assert row.speed.throughput[1] == pytest.approx(32_000 / one)
    assert row.speed.cold_milliseconds > 0
    assert 0 < row.speed.peak_megabytes < 500


def test_both_pages_show_it(page):
    found, path = page
    markdown = path.read_text("utf-8")
    (row,) = found.rows
    assert f"| a.tflite | ids | {row.megabytes:.2f} | {row.difference:.1e} |" in markdown
    assert "| Keras | – | – | – | – | 100.00 | – |" in markdown
    assert "accuracy: in points of 100, on 80 examples of dev.csv." in markdown
    for heading in ("## Answers", "texts x tokens, one thread", "## Throughput", "load average"):
        assert heading in markdown
    content = path.with_suffix(".html").read_text("utf-8")
    assert f"<td>{row.speed.latencies[8, 32].milliseconds:.2f}</td>" in content
    assert content.count("<svg") == 1, "no length of 128, so the sizes alone"
    assert "http" not in content, "the page needs nothing but itself"
    assert {file.name for file in path.parent.iterdir()} == {"page.md", "page.html"}


def test_names_cannot_break_the_pages(classifier, tmp_path, monkeypatch):
    timing = Timing(1.0, 0.0)
    fast = Speed({(1, 128): timing, (32, 128): timing}, {1: 2.0, 2: 3.0}, (32, 128), 1.0, 1.0)
    row = Row("a|b<p>&.tflite", "ids", "<runtime> 1", 1.0, 0.0, None, {}, speed=fast)
    module = importlib.import_module("keras_bert.export._verify.report_page")
    monkeypatch.setattr(module, "verify", lambda *arguments, **options: Report((row,), 1))
    export.report(classifier, ["a"], ["text"], tmp_path / "page.md")
    markdown = (tmp_path / "page.md").read_text("utf-8")
    assert r"| a\|b<p>&.tflite | ids |" in markdown
    content = (tmp_path / "page.html").read_text("utf-8")
    assert "<td>a|b&lt;p&gt;&amp;.tflite</td>" in content
    assert "<p>&" not in content
    assert "<runtime>" not in content
    assert content.count("<svg") == 2

    class Parser(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.open = []

        def handle_starttag(self, tag, attributes):
            if tag != "meta":
                self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    parser = Parser()
    parser.feed(content)
    assert not parser.open


@pytest.mark.slow
def test_speed_of_texts_and_of_one_shape(classifier, tmp_path):
    export.saved_model(classifier, tmp_path / "served")
    export.tflite(classifier, tmp_path / "one.tflite", sequence_length=12)
    for path, takes, shapes in (
        ("served", "text", {(batch, 32) for batch in (1, 8, 32)}),
        ("one.tflite", "ids", {(1, 12)}),
    ):
        with running(tmp_path / path) as process:
            signatures = signatures_for(process, output_names(classifier), list(TEXTS))
        signature = next(signature for signature in signatures if signature.takes == takes)
        found = measure_speed(classifier, tmp_path / path, signature, list(TEXTS), seconds=1e-3)
        assert set(found.latencies) == shapes
        assert all(timing.milliseconds > 0 for timing in found.latencies.values())


def test_texts_are_made_as_long_as_wanted(preprocessor):
    model = make_model(preprocessor=preprocessor)
    for sample in (["good film"], ["", "x" * 500], [""], ["a"] * 300):
        text = speed.long_text(model, sample, 32)
        tokens = preprocessor.rows([text], overlap="auto").lengths.sum()
        assert tokens in (32, 3), sample  # of nothing nothing can be made but "a"


def test_the_page_has_its_ending(classifier, artifact, tmp_path):
    with pytest.raises(InputError, match=r"must end in \.md"):
        export.report(classifier, [artifact], ["a"], tmp_path / "page.html")


def test_spread():
    assert worker.spread([2.0, 2.0, 2.0]) == 0
    assert worker.spread([1.0, 2.0, 3.0]) == pytest.approx(0.25)
    times = worker.repeat(lambda: None, 0)
    assert len(times) == 2
