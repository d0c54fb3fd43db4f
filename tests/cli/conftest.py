"""One small run through all commands, which the tests of this folder look at."""

import csv
import functools
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_bert.cli import main

CONFIG = """\
output: run
data:
  corpus: text.txt
  vocabulary: vocab.txt
  sequence_length: 32
  validation_ratio: 0.2
  validation_examples: 16
model:
  preset: bert_tiny
  encoder: {num_layers: 1, hidden_size: 16, num_heads: 2, intermediate_size: 32, max_positions: 64}
schedule:
  batch_size: 8
  steps: 4
devices:
  jit_compile: false
logging:
  steps_per_loop: 2
"""


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A folder in which the chapters of README.md have been tried: text to classifier."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _write_inputs(folder)
        for command in (
            "vocab text.txt --size 200 --output vocab.txt",
            "pretrain pretrain.yaml schedule.steps=6",
            "finetune --model run/model --train opinions.csv --output tuned --epochs 2",
            "finetune --model run/model --train pairs.tsv --output pairs --epochs 1",
        ):
            assert main(command.split()) == 0, command
    return folder


RECIPE = "--epochs 6 --learning-rate 0.01 --batch-size 8 --validation-ratio 0.2"
TASKS = {  # name of the directory: what teaches it
    "tag": "--task tag --train tags.conll",
    "crf": "--task tag --train tags.conll --crf --scheme bioes",
    "answer": "--task answer --train questions.json",
    "choice": "--task choice --train choices.csv",
    "cosine": "--task similarity --train pairs.tsv",
    "contrastive": "--task similarity --train friends.jsonl",
    "cross": "--task similarity --cross-encoder --train pairs.tsv",
}


@pytest.fixture(scope="session")
def tuned(small):
    """The name of a directory in the folder, to a model that is fine-tuned there, once."""

    @functools.cache
    def tune(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(small)
            command = f"finetune --model run/model --output {name} {TASKS[name]} {RECIPE}"
            assert main(command.split()) == 0
        return f"{name}/model"

    return tune


KINDS = [("film", "good"), ("book", "bad"), ("play", "fine"), ("song", "poor")]


def _write_inputs(folder: Path) -> None:
    sentences = [
        f"the {thing} number {number} was {verdict} and nobody said a word about it ."
        for number in range(40)
        for thing, verdict in KINDS
    ]
    documents = ["\n".join(sentences[i : i + 5]) for i in range(0, len(sentences), 5)]
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
    (folder / "pretrain.yaml").write_text(CONFIG)
    with open(folder / "opinions.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        for text in sentences[:64]:
            rows.writerow([text, "praise" if "good" in text or "fine" in text else "blame"])
    with open(folder / "pairs.tsv", "w") as file:
        print("sentence1\tsentence2\tscore", file=file)
        for number in range(32):
            print(f"{sentences[number]}\t{sentences[0]}\t{number / 8}", file=file)
    _write_inputs_of_tasks(folder)


def _write_inputs_of_tasks(folder: Path) -> None:
    sentences, articles, choices, friends = [], [], ["context,ending0,ending1,label"], []
    for number in range(40):
        thing, verdict = KINDS[number % 4]
        kind = "PRAISE" if verdict in ("good", "fine") else "BLAME"
        words = {thing: "B-WORK", "number": "I-WORK", str(number): "I-WORK", verdict: f"B-{kind}"}
        text = f"the {thing} number {number} was {verdict} ."
        sentences.append("".join(f"{word} {words.get(word, 'O')}\n" for word in text.split()))
        answers = [{"text": verdict, "answer_start": text.index(verdict)}]
        questions = [{"id": f"a{number}", "question": "how was it ?", "answers": answers}]
        if number % 4 == 0:
            question = {"id": f"n{number}", "question": "who said a word ?", "answers": []}
            questions.append({**question, "is_impossible": True})
        paragraph = {"context": text, "qas": questions}
        articles.append({"title": f"number {number}", "paragraphs": [paragraph]})
        endings = [f"was {verdict}", "said a word"]
        right = number % 3 % 2
        choices.append(f"the {thing},{endings[right]},{endings[1 - right]},{right}")
        friends.append(json.dumps({"text1": text, "text2": f"a {verdict} {thing} , {number}"}))
    (folder / "tags.conll").write_text("\n".join(sentences))
    (folder / "questions.json").write_text(json.dumps({"version": "v2.0", "data": articles}))
    (folder / "choices.csv").write_text("\n".join(choices))
    (folder / "friends.jsonl").write_text("\n".join(friends))


@pytest.fixture
def run(capsys, monkeypatch, small):
    """A command line in that folder: its code, standard output, and lines of standard error."""

    def run(*arguments, stdin=b""):
        monkeypatch.chdir(small)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, errors=captured.err.splitlines())

    return run
