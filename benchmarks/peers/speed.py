"""Seconds that Hugging Face's Trainer needs for the measured epoch of `finetuning_speed.py`."""

import argparse
import json
import time

import torch
import transformers
from data import load, sample
from plan import TASKS
from train import Texts, make_trainer


def second_epoch(times):
    """Seconds on the wall and of the processors, from the times at which epochs begin or end."""
    seconds, processor_seconds = (b - a for a, b in zip(times[1], times[2], strict=True))
    return {"seconds": seconds, "processor_seconds": processor_seconds}


class Clock(transformers.TrainerCallback):
    """When epochs begin and end."""

    def __init__(self):
        self.times = []

    def on_epoch_begin(self, *args, **kwargs):
        """Notes the time; the end of an epoch is where the next begins."""
        self.times.append((time.monotonic(), time.process_time()))

    def on_train_end(self, *args, **kwargs):
        """Notes the time."""
        self.times.append((time.monotonic(), time.process_time()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--weights", "--data"):
        parser.add_argument(name, required=True)
    for name in ("--examples", "--batch-size", "--threads"):
        parser.add_argument(name, type=int, required=True)
    parser.set_defaults(steps=-1, seed=1)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    transformers.set_seed(options.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.weights)
    plan = TASKS["sst2"] | {"epochs": 2, "batch_size": options.batch_size}
    train = sample(load("sst2", options.data)[0], options.examples)
    job = Texts(plan, tokenizer, options.weights, train, train)
    trainer, clock = make_trainer(job, plan, options), Clock()
    trainer.add_callback(clock)
    trainer.train()
    tokens = sum(len(row["input_ids"]) for row in job.train)
    print(json.dumps({"tokens": tokens, **second_epoch(clock.times)}))


if __name__ == "__main__":
    main()
