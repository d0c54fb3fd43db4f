"""What executes the code blocks of README.md and of the pages in docs/."""

import csv
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from pydoc_data import topics

import keras
import pytest

import keras_bert as kb

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """The language and the text of each block, in order; Sphinx' own directives are left out."""
    text = page.read_text(encoding="utf-8")
    found = BLOCK.findall(text)
    assert len(found) == len(re.findall("^```", text, re.MULTILINE)) / 2, page
    return [(language, code) for language, code in found if not language.startswith("{")]


def user_files(directory):
    """What the pages take for granted: English text, labelled texts, a Hugging Face model."""
    (directory / "text").mkdir()
    for name, text in sorted(topics.topics.items()):
        lines = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
        (directory / "text" / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    good = ["a fine film", "great fun", "I loved it", "well made", "a joy", "so good"]
    bad = ["a dull film", "no fun", "I left early", "badly made", "a bore", "so bad"]
    words = sorted({word for text in good + bad for word in text.lower().split()})
    vocabulary = kb.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    # With one seed of sixteen, int8 changes more of the untrained model's answers than pages allow.
    keras.utils.set_random_seed(1)
    encoder = kb.Encoder(kb.EncoderConfig.preset("bert_tiny", vocabulary_size=len(vocabulary)))
    encoder.preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary), sequence_length=32)
    kb.save(encoder, directory / "bert", format="huggingface")
    with open(directory / "reviews.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(4):
            writer.writerows([f"{text}, part {number}", "good"] for text in good)
            writer.writerows([f"{text}, part {number}", "bad"] for text in bad)
    examples_of_tasks(directory, good, bad)


def examples_of_tasks(directory, good, bad):
    """A file for each other block on fine-tuning."""
    with open(directory / "tickets.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["No.", "What they wrote", "Team (final)"])
        for number in range(24):
            team = ("sales", "repair")[number % 2]
            writer.writerow([number, f"I need a {team} quote,\nplease", team])
    names = ["Ada B-PER\nLovelace I-PER\n", "London B-LOC\n", "her O\n"]
    sentences = [f"a O\nletter O\nfrom O\n{names[number % 3]}" for number in range(24)]
    (directory / "names.conll").write_text("\n".join(sentences), encoding="utf-8")
    articles = []
    for number in range(24):
        context = f"{good[number % 6]}, and not {bad[number % 5]}"
        answers = [{"text": good[number % 6], "answer_start": 0}]
        question = {"id": str(number), "question": "what was it?", "answers": answers}
        articles.append(
            {"title": f"{number}", "paragraphs": [{"context": context, "qas": [question]}]}
        )
    (directory / "questions.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    pairs = [f"{good[0]}\t{text}\t{score}\n" for text in good for score in ("4.5", "5.0")]
    pairs += [f"{good[0]}\t{text}\t{score}\n" for text in bad for score in ("0.5", "1.0")]
    lines = "".join(["sentence1\tsentence2\tscore\n", *pairs])
    (directory / "pairs.tsv").write_text(lines, encoding="utf-8")


def run(language, code, directory):
    """Runs a block by itself; one that fails fails the test."""
    done = execute(language, code, directory)
    if done.returncode:
        output = textwrap.indent(done.stdout[-3000:] + done.stderr[-3000:], "  ")
        pytest.fail(f"exit code {done.returncode} of\n{textwrap.indent(code, '  ')}\n{output}")


def execute(language, code, directory):
    """Runs a block in a process of its own; a YAML block becomes the file that it names."""
    if language == "yaml":
        name = code.split("\n", 1)[0].removeprefix("# ")
        assert re.fullmatch(r"\w+\.yaml", name), "the first line of a YAML block names its file"
        (directory / name).write_text(code, encoding="utf-8")
        return subprocess.CompletedProcess(name, 0, "", "")
    command = {
        "python": [sys.executable, "-c", code],
        "console": ["bash", "-euo", "pipefail", "-c", code],
    }[language]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=directory,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
