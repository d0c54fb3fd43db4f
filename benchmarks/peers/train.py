"""Fine-tune one task with Hugging Face's Trainer and append its scores to a file of results.

    python benchmarks/peers/train.py mrpc --seed 1 --weights DIR --data DIR --results FILE

Needs torch, transformers, accelerate, scikit-learn, scipy and seqeval, in an environment of its
own. The weights are a directory that `save_pretrained` wrote; the data are the folder of data sets.
"""

import argparse
import os
import tempfile
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import accelerate
import numpy as np
import torch
import transformers
from answers import best_answers, exact_match_and_f1
from data import load, names
from mean_pooled import MeanPooledClassifier
from plan import CLIP_NORM, EPSILON, TASKS, WARMUP, WEIGHT_DECAY
from results import append
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import f1_score as entity_f1
from seqeval.metrics import precision_score, recall_score
from sklearn.metrics import accuracy_score, f1_score
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

ARCHITECTURES = {"pooled": AutoModelForSequenceClassification, "mean": MeanPooledClassifier}
INPUTS = ("input_ids", "token_type_ids", "attention_mask")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--steps", type=int, default=-1, help="stop early, to try the script")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    transformers.set_seed(options.seed)  # before the head is made
    tokenizer = AutoTokenizer.from_pretrained(options.weights)
    train, test = load(options.task, options.data)
    job = {"texts": Texts, "words": Words, "questions": Questions}[TASKS[options.task]["job"]]
    job = job(TASKS[options.task], tokenizer, options.weights, train, test)

    began, processor = time.monotonic(), time.process_time()
    trainer = make_trainer(job, TASKS[options.task], options)
    trained = trainer.train()
    minutes = (time.monotonic() - began) / 60
    metrics = job.measure(trainer)
    append(
        options.results,
        side="transformers",
        task=options.task,
        seed=options.seed,
        plan=TASKS[options.task],
        minutes=minutes,
        processor_minutes=(time.process_time() - processor) / 60,
        threads=options.threads,
        steps=trained.global_step,
        loss=trained.training_loss,
        metrics=metrics,
        versions={m.__name__: m.__version__ for m in (torch, transformers, accelerate)},
        complete=options.steps < 0,
    )


def make_trainer(job, plan, options, **changes):
    arguments = dict(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=plan["batch_size"],
        per_device_eval_batch_size=64,
        num_train_epochs=plan["epochs"],
        max_steps=options.steps,
        learning_rate=plan["learning_rate"],
        warmup_steps=WARMUP,  # below 1: a share of the steps
        lr_scheduler_type="linear",
        weight_decay=WEIGHT_DECAY,
        max_grad_norm=CLIP_NORM,
        adam_epsilon=EPSILON,
        train_sampling_strategy="group_by_length",
        seed=options.seed,
        save_strategy="no",
        eval_strategy="no",
        logging_steps=50,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    return Trainer(
        model=job.model,
        args=TrainingArguments(**arguments | changes),
        train_dataset=job.train,
        data_collator=job.collator,
        processing_class=job.tokenizer,
    )


def predict(trainer, rows):
    """Returns the outputs of each row. Rows of similar length share a batch."""
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]["input_ids"]))
    batches = [order[i : i + 64] for i in range(0, len(order), 64)]
    outputs = [None] * len(rows)
    trainer.model.eval()
    for batch in batches:
        inputs = [{name: rows[i][name] for name in INPUTS} for i in batch]
        padded = trainer.processing_class.pad(inputs, return_tensors="pt")
        with torch.no_grad():
            result = trainer.model(**padded)
        logits = [result[n].numpy() for n in result if n.endswith("logits")]
        for place, i in enumerate(batch):
            outputs[i] = [array[place] for array in logits]
    return outputs


class Texts:
    """Examples with a label or a number for a text or a pair of texts."""

    def __init__(self, plan, tokenizer, weights, train, test):
        self.tokenizer = tokenizer
        self.regression = plan["problem"] == "regression"
        self.names = ["score"] if self.regression else names(train.labels)
        self.train, self.test = (self._rows(part, plan["length"]) for part in (train, test))
        self.collator = DataCollatorWithPadding(tokenizer)
        architecture = ARCHITECTURES[plan.get("pooling", "pooled")]
        self.model = architecture.from_pretrained(weights, num_labels=len(self.names))

    def _rows(self, part, length):
        encoded = self.tokenizer(part.texts, part.pairs, truncation=True, max_length=length)
        read = float if self.regression else self.names.index
        return [
            {**{name: encoded[name][i] for name in encoded}, "labels": read(label)}
            for i, label in enumerate(part.labels)
        ]

    def measure(self, trainer):
        """Returns the metrics of the test set."""
        logits = np.stack([output[0] for output in predict(trainer, self.test)])
        wanted = [row["labels"] for row in self.test]
        if self.regression:
            return {
                "pearson": float(pearsonr(wanted, logits[:, 0])[0]),
                "spearman": float(spearmanr(wanted, logits[:, 0])[0]),
            }
        found = logits.argmax(-1)
        if len(self.names) > 2:
            return {"accuracy": accuracy_score(wanted, found)}
        return {"accuracy": accuracy_score(wanted, found), "f1": f1_score(wanted, found)}


class Words:
    """Examples with a tag for each word, at the word's first token."""

    def __init__(self, plan, tokenizer, weights, train, test):
        self.tokenizer = tokenizer
        self.names = names(train.tags)
        self.tags = test.tags
        self.train, self.test = (self._rows(part, plan["length"]) for part in (train, test))
        self.collator = DataCollatorForTokenClassification(tokenizer)
        self.model = AutoModelForTokenClassification.from_pretrained(
            weights, num_labels=len(self.names)
        )

    def _rows(self, part, length):
        encoded = self.tokenizer(
            part.words, is_split_into_words=True, truncation=True, max_length=length
        )
        rows = []
        for i, tags in enumerate(part.tags):
            words = encoded.word_ids(i)
            firsts = [w is not None and w not in words[:k] for k, w in enumerate(words)]
            # A tag of the test set that training lacks cannot be predicted.
            labels = [
                self.names.index(tags[word]) if first and tags[word] in self.names else -100
                for word, first in zip(words, firsts, strict=True)
            ]
            kept = {name: encoded[name][i] for name in encoded}
            rows.append({**kept, "labels": labels, "words": words, "firsts": firsts})
        return rows

    def measure(self, trainer):
        """Returns the metrics of the test set."""
        found = []
        outputs = predict(trainer, self.test)
        for tags, row, (logits,) in zip(self.tags, self.test, outputs, strict=True):
            said = ["O"] * len(tags)
            for word, first, best in zip(
                row["words"], row["firsts"], logits.argmax(-1), strict=False
            ):
                if first:
                    said[word] = self.names[best]
            found.append(said)
        return {
            "f1": entity_f1(self.tags, found),
            "precision": precision_score(self.tags, found),
            "recall": recall_score(self.tags, found),
        }


class Questions:
    """Examples with a question and a context; long contexts are read in overlapping windows."""

    def __init__(self, plan, tokenizer, weights, train, test):
        self.tokenizer, self.plan = tokenizer, plan
        self.examples = test
        self.train, self.test = self._rows(train), self._rows(test)
        self.collator = DataCollatorWithPadding(tokenizer)
        self.model = AutoModelForQuestionAnswering.from_pretrained(weights)

    def _rows(self, part):
        encoded = self.tokenizer(
            [question.lstrip() for question in part.questions],
            part.contexts,
            truncation="only_second",
            max_length=self.plan["length"],
            stride=self.plan["overlap"],
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        rows = []
        for i, owner in enumerate(encoded["overflow_to_sample_mapping"]):
            second = np.array([s == 1 for s in encoded.sequence_ids(i)])
            offsets = np.array(encoded["offset_mapping"][i])
            offsets[~second] = -1
            text, start = part.answers[owner][0]
            first, last = target(offsets, second, start, start + len(text))
            row = {n: encoded[n][i] for n in INPUTS}
            rows.append(
                row
                | {"start_positions": first, "end_positions": last}
                | {"owner": owner, "offsets": offsets}
            )
        return rows

    def measure(self, trainer):
        """Returns the metrics of the test set."""
        windows = [[] for _ in self.examples.ids]
        for row, (starts, ends) in zip(self.test, predict(trainer, self.test), strict=True):
            windows[row["owner"]].append((starts, ends, row["offsets"]))
        answers = best_answers(windows, self.examples.contexts, self.plan["answer_tokens"])
        return exact_match_and_f1(
            answers, [[text for text, _ in golden] for golden in self.examples.answers]
        )


def target(offsets, second, start, end):
    """Returns the answer's first and last token; if the window lacks a part, `[CLS]` twice."""
    inside = np.flatnonzero(second)
    if offsets[inside[0], 0] > start or offsets[inside[-1], 1] < end:
        return 0, 0
    first = inside[offsets[inside, 0] <= start][-1]
    last = inside[offsets[inside, 1] >= end][0]
    return int(first), int(last)


if __name__ == "__main__":
    main()
