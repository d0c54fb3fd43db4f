"""Train one side of `benchmarks/lora.py` with Hugging Face's Trainer and PEFT; print a JSON line.

    python benchmarks/peers/lora.py --side lora --tasks mrpc --seeds 1 --weights DIR --data DIR

Needs torch, transformers, accelerate, scikit-learn, scipy, seqeval and peft, in an environment of
its own. Adapters are in the same layers as on the side of keras_bert, with the same rank and alpha.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import peft
import torch
import transformers
from data import load
from plan import ADAPTED, TASKS
from train import Texts, make_trainer


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--side", choices=("full", "lora"), required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--tasks", required=True)
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--adapted", choices=ADAPTED, default="all")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--examples", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    options.seed, options.steps = options.seeds, -1  # names of `make_trainer`

    torch.set_num_threads(options.threads)
    transformers.set_seed(options.seed)  # before the head is made
    plan = TASKS[options.tasks]
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.weights)
    job = Texts(plan, tokenizer, options.weights, *load(options.tasks, options.data))
    if options.examples:
        job.train = job.train[: options.examples]
    changes = {"num_train_epochs": options.epochs or plan["epochs"], "logging_steps": 10**6}
    if options.side == "lora":
        changes["learning_rate"] = options.rate
        config = peft.LoraConfig(
            r=options.rank,
            lora_alpha=options.rank,
            # PEFT compares the ends of names. The pooler is not adapted.
            target_modules=[
                f"{name}.dense" if name in ("intermediate", "output") else name
                for name in ADAPTED[options.adapted]
            ],
            modules_to_save=["classifier"],
        )
        job.model = peft.get_peft_model(job.model, config)
    trainer = make_trainer(job, plan, options, **changes)
    clock = Clock()
    trainer.add_callback(clock)
    forget_peak()
    before = peak_memory()
    trainer.train()
    peak = peak_memory() - before
    sizes = [(each.numel(), each.requires_grad) for each in job.model.parameters()]
    result = {
        "library": "transformers",
        "score": job.measure(trainer)[plan["metric"]],
        "trained": sum(size for size, trained in sizes if trained),
        "parameters": sum(size for size, _ in sizes),
        "seconds": clock.seconds,
        "peak": peak,
        "rate": changes.get("learning_rate", plan["learning_rate"]),
    }
    print(json.dumps(result))


class Clock(transformers.TrainerCallback):
    """Measures the time of each training step."""

    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *arguments, **options):
        """Starts to measure the time of a step."""
        self.began = time.perf_counter()

    def on_step_end(self, *arguments, **options):
        """Notes the time of the step."""
        self.seconds.append(time.perf_counter() - self.began)


def peak_memory():
    """Returns the process's peak memory in bytes, since its start or since `forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak():
    """Resets the peak memory to the current memory."""
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
