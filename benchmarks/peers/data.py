"""Read the data of the fine-tuning benchmarks as plain lists, with Python's own modules only.

The peers train on these lists. keras_bert reads the same files with its own readers, and
`benchmarks/finetuning.py` checks that both have read the same.
"""

import csv
import json
import random
import re
from collections import namedtuple
from pathlib import Path

Texts = namedtuple("Texts", "texts pairs labels")  # pairs: the second texts, or None
Words = namedtuple("Words", "words tags")
Questions = namedtuple("Questions", "ids questions contexts answers")  # answers: [(text, start)]

INTENTS = (
    "AddToPlaylist",
    "BookRestaurant",
    "GetWeather",
    "PlayMusic",
    "RateBook",
    "SearchCreativeWork",
    "SearchScreeningEvent",
)
_LETTER = r"[^\W_\u3400-\u9fff]"  # an ideograph is a word by itself
WORD = re.compile(rf"{_LETTER}+(?:[.'’-]{_LETTER}+)*|\S")
WIKIGOLD_TRAIN = 0.8  # the first sentences, so that at most one article is divided


def load(task, folder):
    """Reads (train, test) of a task from the folder of data sets."""
    folder = Path(folder)
    if task in ("sst2", "mrpc", "stsb"):
        return tuple(glue(folder / task / f"{part}.tsv") for part in ("train", "dev"))
    if task == "wikigold":
        return cut(conll(folder / "wikigold" / "wikigold.conll.txt"))
    if task == "wnut17":
        names = ("wnut17train.conll", "emerging.test.annotated")
        return tuple(conll(folder / "wnut17" / name) for name in names)
    if task == "squad":
        return tuple(squad(folder / "squad" / f"devsplit-v1.1-{p}.json") for p in ("train", "test"))
    read = {"snips-intents": snips_intents, "snips-slots": snips_slots}[task]
    return tuple(read(folder / "snips", part) for part in ("train", "validate"))


def glue(path):
    """Reads SST-2, MRPC or STS-B."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for text, pair, label in (
        ("sentence", None, "label"),
        ("#1 String", "#2 String", "Quality"),
        ("sentence1", "sentence2", "score"),
    ):
        if label in rows[0] and text in rows[0]:
            pairs = pair and [row[pair].strip() for row in rows]
            return Texts([row[text].strip() for row in rows], pairs, [row[label] for row in rows])
    raise ValueError(f"{path}: unknown columns {list(rows[0])}")


def conll(path):
    """Reads sentences between blank lines; the first column is the word, the last one the tag."""
    sentences = [[]]
    for line in path.read_text("utf-8").split("\n"):
        if line.strip() and not line.startswith("-DOCSTART-"):
            fields = re.split(r"[ \t]+", line.strip())
            sentences[-1].append((fields[0], fields[-1]))
        elif sentences[-1]:
            sentences.append([])
    sentences = [sentence for sentence in sentences if sentence]
    return Words(*([[pair[i] for pair in s] for s in sentences] for i in (0, 1)))


def cut(words, share=WIKIGOLD_TRAIN):
    count = round(share * len(words.words))
    return Words(*(part[:count] for part in words)), Words(*(part[count:] for part in words))


def snips_intents(folder, part):
    chunks = list(_snips(folder, part))
    texts = ["".join(chunk["text"] for chunk in pieces).strip() for _, pieces in chunks]
    return Texts(texts, None, [intent for intent, _ in chunks])


def snips_slots(folder, part):
    """Divides each piece of text into words with IOB2 tags."""
    sentences = []
    for _, pieces in _snips(folder, part):
        words = []
        for piece in pieces:
            for index, word in enumerate(WORD.findall(piece["text"])):
                slot = piece.get("entity")
                words.append((word, f"{'I' if index else 'B'}-{slot}" if slot else "O"))
        sentences.append(words)
    return Words(*([[pair[i] for pair in s] for s in sentences] for i in (0, 1)))


def _snips(folder, part):
    for intent in INTENTS:
        name = f"train_{intent}_full.json" if part == "train" else f"validate_{intent}.json"
        # One file writes emoji as two surrogates of three bytes each.
        text = (folder / intent / name).read_bytes().decode("utf-8", "surrogatepass")
        text = text.encode("utf-16", "surrogatepass").decode("utf-16")
        for example in json.loads(text)[intent]:
            yield intent, example["data"]


def squad(path):
    ids, questions, contexts, answers = [], [], [], []
    for article in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                ids.append(question["id"])
                questions.append(question["question"])
                contexts.append(paragraph["context"])
                answers.append([(a["text"], a["answer_start"]) for a in question["answers"]])
    return Questions(ids, questions, contexts, answers)


def names(labels):
    """Returns the sorted labels, numbers by their value. Both sides number labels in this order."""
    found = {label for row in labels for label in ([row] if isinstance(row, str) else row)}
    return sorted(
        found, key=lambda name: (not name.isdecimal(), len(name) if name.isdecimal() else 0, name)
    )


def sample(examples, count):
    """Returns random examples, the same ones every time, in their order."""
    return take(examples, chosen(len(examples[0]), count))


def chosen(total, count):
    """Returns random indices below `total`, the same ones every time, in order."""
    return sorted(random.Random(0).sample(range(total), count))


def take(examples, indices):
    """Returns the examples at the indices."""
    return type(examples)(*(part and [part[index] for index in indices] for part in examples))
