"""Measure the seconds of Hugging Face's Trainer for one epoch of `finetuning_speed.py`."""

import argparse
import json

import torch
import transformers
from clock import between, now
from data import load, sample
from plan import TASKS
from train import Texts, make_trainer


class Clock(transformers.TrainerCallback):
    """Notes when epochs begin and end."""

    def __init__(self):
        self.times = []

    def on_epoch_begin(self, *args, **kwargs):
        """Notes the time at the beginning of an epoch, which is the end of the epoch before."""
        self.times.append(now())

    def on_train_end(self, *args, **kwargs):
        """Notes the time at the end of the last epoch."""
        self.times.append(now())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--weights", "--data"):
        parser.add_argument(name, required=True)
    for name in ("--examples", "--batch-size", "--threads"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.set_defaults(steps=-1, seed=1)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    transformers.set_seed(options.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.weights)
    plan = TASKS["sst2"] | {"epochs": 2, "batch_size": options.batch_size}
    train = sample(load("sst2", options.data)[0], options.examples)
    job = Texts(plan, tokenizer, options.weights, train, train)
    trainer, clock = make_trainer(job, plan, options, bf16=options.dtype == "bfloat16"), Clock()
    trainer.add_callback(clock)
    trainer.train()
    tokens = sum(len(row["input_ids"]) for row in job.train)
    print(json.dumps({"tokens": tokens, **between(*clock.times[1:])}))


if __name__ == "__main__":
    main()
