"""Run Hugging Face's Trainer with its default settings on the data sets of `../defaults.py`.

    python benchmarks/peers/trainer_defaults.py sst2 mrpc --weights DIR --data DIR [--examples N]

Needs torch, transformers, accelerate and scikit-learn, in an environment of its own. Only data sets
of texts or pairs with one label. Texts are cut to the model's 512 tokens. The Trainer trains on all
training examples, for three epochs in batches of 8 with the learning rate 5e-5, and chooses no
epoch. Prints the accuracy on the test examples, and the seconds.
"""

import argparse
import csv
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import transformers
from data import glue

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from defaults import DATA_SETS, files_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=[n for n in DATA_SETS if n not in _NO_LABELS])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--examples", type=int, help="number of training examples, at random")
    parser.add_argument("--others", type=int, help="number of other examples, at random")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| data | seed | accuracy | seconds |\n|---|---|---|---|")
    for name in options.names:
        for seed in options.seeds:
            score, seconds = run(name, seed, options)
            print(f"| {name} | {seed} | {100 * score:.2f} | {seconds:.0f} |", flush=True)


_NO_LABELS = ("wnut17", "wikigold", "stsb")


def run(name, seed, options):
    """Trains once; returns the accuracy and the seconds."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.weights, model_max_length=512)
    with tempfile.TemporaryDirectory() as folder:
        files = files_of(DATA_SETS[name], options, Path(folder))
        train, test = (rows(Path(files[split])) for split in ("train", "test"))
        ids = {label: index for index, label in enumerate(sorted(set(train[-1])))}
        transformers.set_seed(seed)  # before the head is made
        began = time.monotonic()
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            options.weights, num_labels=len(ids)
        )
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                f"{folder}/out", seed=seed, save_strategy="no", report_to=[], disable_tqdm=True
            ),
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
            train_dataset=examples(tokenizer, train, ids),
        )
        trainer.train()
        seconds = time.monotonic() - began
        found = trainer.predict(examples(tokenizer, test, ids)).predictions.argmax(-1)
    right = [ids.get(label) == answer for label, answer in zip(test[-1], found, strict=True)]
    return sum(right) / len(right), seconds


def rows(path):
    """Reads columns: texts, perhaps second texts, and labels."""
    if path.suffix == ".tsv":
        found = glue(path)
        return [found.texts, *([found.pairs] if found.pairs else []), found.labels]
    with open(path, encoding="utf-8-sig", newline="") as file:
        table = list(csv.DictReader(file))
    return [[row[column] for row in table] for column in ("text", "label")]


def examples(tokenizer, columns, ids):
    """Makes the Trainer's examples. Unknown labels, which only the test may have, become 0."""
    encoded = tokenizer(*columns[:-1], truncation=True)
    labels = [ids.get(label, 0) for label in columns[-1]]
    return [
        {name: values[index] for name, values in encoded.items()} | {"labels": label}
        for index, label in enumerate(labels)
    ]


if __name__ == "__main__":
    main()
