"""Existing files that a command replaces. Refusals come before any model is loaded."""

import os

import pytest

from keras_bert.cli import main
from keras_bert.cli.files import is_predictions
from tests.trees import tree, write

NOVEL = "It was a dark and stormy night.\n" * 50
LAB = "text,label\nfine,good\n"
STS = '{"text": "a", "pair": "b", "score": 0.5}\n'
PREDICT = ["predict", "--model", "none", "--data", "lab.csv"]
FINETUNE = ["finetune", "--model", "m", "--train", "lab.csv", "--output", "new"]
ATTENTION = ["attention", "--model", "none", "a text", "--output"]
REPORT = ["export", "none", "out", "--verify", "novel.txt", "--report"]
FILES = {
    "novel.txt": NOVEL,
    "lab.csv": LAB,
    "sts.jsonl": STS,
    "photo.png": "a photo",
    "notes.md": "# Notes\n",
    "run/log.jsonl": "{}\n",
    "bytes/merges.txt": "a list of merges\n",
    "page.html": "<title>Home</title>",
    "mine/model.tflite": "a model of mine",
    "mine/model-text.onnx": "another one",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write(tmp_path, FILES)
    (tmp_path / "by_symlink.csv").symlink_to("lab.csv")
    os.link(tmp_path / "lab.csv", tmp_path / "by_hard_link.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


INPUTS = {
    "a corpus": ["vocab", "novel.txt", "--output", "novel.txt"],
    "a corpus of a glob": ["vocab", "nov*.txt", "--output", "./run/../novel.txt"],
    "data": [*PREDICT, "--output", "lab.csv"],
    "data by a symbolic link": [*PREDICT, "--output", "by_symlink.csv"],
    "data by a hard link": [*PREDICT, "--output", "by_hard_link.csv"],
    "data of SQuAD": [*PREDICT, "--squad-predictions", "lab.csv"],
    "texts to compare": [*REPORT[:4], "notes.md", "--report", "notes.md"],
    "a part of a model": ["predict", "--model", "run", "a text", "--output", "run/log.jsonl"],
}
OTHERS = {
    "vocabulary": ["vocab", "lab.csv", "--output", "novel.txt"],
    "merges": ["vocab", "novel.txt", "--kind", "byte_pair", "--output", "bytes"],
    "predictions": [*PREDICT, "--output", "novel.txt"],
    "predictions or examples": [*PREDICT, "--output", "sts.jsonl"],
    "predictions of SQuAD": [*PREDICT, "--squad-predictions", "sts.jsonl"],
    "confusion": ["evaluate", "--model", "m", "--data", "lab.csv", "--confusion", "photo.png"],
    "curves of a run": ["plot", "run", "--output", "photo.png"],
    "curves": [*FINETUNE, "--curves", "photo.png"],
    "attention": [*ATTENTION, "page.html"],
    "report": [*REPORT, "notes.md"],
    "report as HTML": [*REPORT, "page.md"],
    "TFLite": ["export", "none", "mine", "--format", "tflite"],
    "ONNX": ["export", "none", "mine", "--format", "onnx", "--text"],
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("arguments", INPUTS.values(), ids=INPUTS)
def test_no_input_is_overwritten(arguments, overwrite, folder, capsys):
    before = tree(folder)
    assert main([*arguments, *(["--overwrite"] * overwrite)]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert "input" in error
    assert error.endswith("; choose another output.")
    assert tree(folder) == before


@pytest.mark.parametrize("arguments", OTHERS.values(), ids=OTHERS)
def test_a_file_of_another_kind_is_overwritten_only_if_asked(arguments, folder, capsys):
    before = tree(folder)
    assert main(arguments) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.endswith(
        "exists and is not a file that this command wrote; choose another output, or add "
        "--overwrite to replace it."
    )
    assert tree(folder) == before


def test_overwrite(folder):
    (folder / "notes.txt").write_text("notes")
    assert main(["vocab", "novel.txt", "--size", "40", "--output", "notes.txt", "--overwrite"]) == 0
    assert (folder / "notes.txt").read_text().startswith("[PAD]\n")


def test_two_outputs_are_two_files(folder, capsys):
    assert main([*PREDICT, "--output", "new.json", "--squad-predictions", "new.json"]) == 2
    assert "Give --output and --squad-predictions two different files." in capsys.readouterr().err


def test_a_device_is_no_output(folder, capsys):
    os.mkfifo("pipe")
    assert main([*PREDICT, "--output", "pipe", "--overwrite"]) == 2
    assert "pipe is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("wordpiece", (100, 80)), ("byte_pair", (300, 290)), ("sentencepiece", (50, 48))],
)
def test_a_vocabulary_is_replaced_by_one_of_its_kind(kind, sizes, folder, run):
    command = ("vocab", "text.txt", "--kind", kind, "--output", folder / "learned", "--size")
    trees = []
    for size in sizes:
        result = run(*command, size)
        assert (result.code, result.errors) == (0, [])
        trees.append(tree(folder))
    assert trees[0] != trees[1]


def test_what_the_commands_wrote_is_replaced(folder, run):
    data = ("--model", "tuned/model", "--data", "opinions.csv")
    commands = {
        **{f"curves.{kind}": ("plot", "run", "--output") for kind in ("png", "svg", "pdf")},
        "page.html": ("attention", "--model", "run/model", "a film", "--output"),
        "mistakes.png": ("evaluate", *data, "--confusion"),
        "labels.jsonl": ("predict", *data, "--output"),
    }
    (folder / "page.html").unlink()
    for name, command in commands.items():
        path = folder / name
        assert run(*command, path).code == 0
        os.utime(path, (0, 0))
        result = run(*command, path)
        assert (result.code, result.errors) == (0, []), name
        assert path.stat().st_mtime > 0


@pytest.mark.parametrize("line", ["5", "null", '[{"text": "a"}]', '"text"', "text"])
def test_other_json_is_no_prediction(line):
    assert not is_predictions(line.encode() + b"\n")
