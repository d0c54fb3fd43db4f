"""A whole run on the small corpus."""

import json
import os
import signal
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from keras_bert.options import fields, set_option
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.resolve import resolve
from keras_bert.pretraining.training.trainer import Trainer

SMALL = {
    "hidden_size": 16,
    "num_layers": 1,
    "num_heads": 2,
    "intermediate_size": 32,
    "max_positions": 32,
}
EXACT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}  # replicas draw dropout of their own


def config(text, output, **options):
    defaults = {
        "corpus": [str(Path(text) / "corpus.txt")],
        "vocabulary": str(Path(text) / "vocab.txt"),
        "output": str(output),
        "encoder": SMALL,
        "sequence_length": 32,
        "batch_size": 16,
        "steps": 24,
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "steps_per_loop": 2,
        "checkpoint_every": 6,
        "evaluate_every": 8,
        "validation_ratio": 0.1,
        "jit_compile": False,
    }
    return make_config(defaults | options)


def make_config(options):
    """A resolved configuration of options by their last or their dotted names."""
    return resolve(PretrainingConfig.from_dict(grouped(options)))


def grouped(options):
    """Options in their groups; "optimizer" and "objective" stand for their names."""
    full = {name.rpartition(".")[2]: name for name in fields(PretrainingConfig)}
    full |= {"optimizer": "optimizer.name", "objective": "objective.name"}
    values = {}
    for name, value in options.items():
        set_option(values, full.get(name, name), value)
    return values


def weights(output):
    return load_file(output / "model" / "weights.safetensors")


def interrupt(monkeypatch, step):
    """The system asks runs to end after a step, as often as they take it."""
    train_steps = Trainer._train_steps

    def interrupted(run, *arguments):
        result = train_steps(run, *arguments)
        if run.step == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    monkeypatch.setattr(Trainer, "_train_steps", interrupted)


CLOCK = {"tokens_per_second", "mfu"}


def log(output):
    """The rows, without what depends on the clock."""
    rows = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in CLOCK} for row in rows]


def assert_same_run(output, other):
    assert log(output) == log(other)
    assert (output / "model/README.md").read_text() == (other / "model/README.md").read_text()
    ours, theirs = weights(output), weights(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
