"""Measure tokens per second of Hugging Face's run_mlm, for `pretraining_speed.py`.

run_mlm makes rows in two ways. With `--line_by_line`, each line is a row, padded to the longest row
of its batch. By default (`group_texts`), all lines are joined and cut into rows of full length.
"""

import argparse
import itertools
import json
from types import SimpleNamespace

import torch
import transformers
import wordpiece
from clock import between, now
from pretraining_plan import DROPOUT, LEARNING_RATE, LENGTH, MASKED, SIZES, read_lines
from train import make_trainer


def lines(tokenizer, texts):
    """Makes a row of each line."""
    encoded = tokenizer(texts, truncation=True, max_length=LENGTH, return_special_tokens_mask=True)
    return [{name: encoded[name][i] for name in encoded} for i in range(len(texts))]


def chunks(tokenizer, texts):
    """Makes rows of full length; as in run_mlm, drops the last tokens of every 1,000 lines."""
    rows = []
    for start in range(0, len(texts), 1000):
        encoded = tokenizer(texts[start : start + 1000], return_special_tokens_mask=True)
        whole = {name: list(itertools.chain(*encoded[name])) for name in encoded}
        ends = range(LENGTH, len(whole["input_ids"]) + 1, LENGTH)
        rows += [{n: ids[end - LENGTH : end] for n, ids in whole.items()} for end in ends]
    return rows


ROWS = {"lines": lines, "chunks": chunks}


class Clock(transformers.TrainerCallback):
    """Notes when the measured steps begin and when they end."""

    def __init__(self, warmup):
        self.warmup = warmup
        self.times = []

    def on_step_end(self, args, state, control, **kwargs):
        """Notes the time after the last step that is not measured."""
        if state.global_step == self.warmup:
            self.times.append(now())

    def on_train_end(self, *args, **kwargs):
        """Notes the time at the end of the measured steps."""
        self.times.append(now())


def count_tokens(trainer, warmup):
    """Returns counts of tokens, without and with padding, that the measured steps will fill in."""
    counts, compute_loss = {"tokens": 0, "cells": 0}, trainer.compute_loss

    def compute(model, inputs, *args, **kwargs):
        if trainer.state.global_step >= warmup:
            counts["tokens"] += int(inputs["attention_mask"].sum())
            counts["cells"] += inputs["attention_mask"].numel()
        return compute_loss(model, inputs, *args, **kwargs)

    trainer.compute_loss = compute
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("text", "vocabulary"):
        parser.add_argument(name)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--rows", choices=ROWS, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), required=True)
    for name in ("--batch-size", "--threads", "--warmup", "--steps"):
        parser.add_argument(name, type=int, required=True)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    transformers.set_seed(1)
    tokenizer = wordpiece.load(options.vocabulary)
    width = SIZES[options.size]["hidden_size"]
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=SIZES[options.size]["num_layers"],
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
    )
    job = SimpleNamespace(
        model=transformers.BertForMaskedLM(config),
        tokenizer=tokenizer,
        collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=MASKED),
        train=ROWS[options.rows](tokenizer, read_lines(options.text)),
    )
    plan = {"batch_size": options.batch_size, "epochs": 1, "learning_rate": LEARNING_RATE}
    steps = argparse.Namespace(steps=options.warmup + options.steps, seed=1)
    # Otherwise the Trainer removes the mask of special tokens, and its collator computes it again.
    changes = {"train_sampling_strategy": "random", "remove_unused_columns": False}
    changes["bf16"] = options.dtype == "bfloat16"
    trainer, clock = make_trainer(job, plan, steps, **changes), Clock(options.warmup)
    trainer.add_callback(clock)
    counts = count_tokens(trainer, options.warmup)
    trainer.train()
    print(json.dumps({**counts, **between(*clock.times)}))


if __name__ == "__main__":
    main()
