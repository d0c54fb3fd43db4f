"""Compute the Trainer's losses and scores for `finetuning_steps.py`."""

import argparse
import json
import pathlib

import torch
from data import load, take
from plan import TASKS, WARMUP
from train import Questions, Texts, Words, make_trainer
from transformers import AutoTokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("task", "weights", "data", "batches"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True, help="seed of dropout")
    parser.set_defaults(steps=-1)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    wanted = json.loads(pathlib.Path(options.batches).read_text())
    plan = TASKS[options.task] | {"epochs": 1}
    train, test = load(options.task, options.data)
    kind = {"texts": Texts, "words": Words, "questions": Questions}[plan["job"]]
    tokenizer = AutoTokenizer.from_pretrained(options.weights)
    job = kind(
        plan, tokenizer, options.weights, train, test if wanted["whole"] else take(test, [0])
    )
    if wanted["head"]:
        job.model.classifier.load_state_dict(
            {name: torch.tensor(value) for name, value in wanted["head"].items()}
        )
    by_example = {row.get("owner", index): row for index, row in enumerate(job.train)}
    rows = [by_example[index] for index in wanted["examples"]]
    tokens = [list(row["input_ids"]) for row in rows]
    assert tokens == wanted["token_ids"], "the two sides do not read the same tokens"
    job.train = [rows[index] for index in wanted["order"]]
    job.collator.pad_to_multiple_of = wanted["multiple"]  # start and end are looked for in padding
    if not wanted["dropout"]:
        for module in job.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    trainer = make_trainer(
        job,
        plan,
        options,
        train_sampling_strategy="sequential",
        warmup_steps=WARMUP if wanted["whole"] else 0,
        logging_steps=1,
    )
    losses = []
    trainer.compute_loss = noting(trainer.compute_loss, losses)
    trainer.train()
    metrics = job.measure(trainer) if wanted["whole"] else None
    print(json.dumps({"losses": losses, "metrics": metrics}))


def noting(compute_loss, losses):
    """Returns `compute_loss`, and notes each loss. The Trainer's own log has only four digits."""

    def compute(*args, **kwargs):
        loss = compute_loss(*args, **kwargs)
        losses.append(float(loss.detach()))
        return loss

    return compute


if __name__ == "__main__":
    main()
