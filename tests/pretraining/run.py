"""A whole run on the small corpus, which can be told to die.

As a program: `python -m tests.pretraining.run TEXT OUTPUT STEP [SECONDS]`, killed by SIGKILL so
long after a step, or `... OUTPUT during-N`, killed while it writes its N-th checkpoint.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from keras_bert.pretraining import checkpoint
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.run import Run
from keras_bert.pretraining.trainer import pretrain

SMALL = {
    "hidden_size": 16,
    "num_layers": 1,
    "num_heads": 2,
    "intermediate_size": 32,
    "max_positions": 32,
}


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
        "validation_share": 0.1,
        "jit": False,
    }
    return PretrainingConfig.from_dict(defaults | options)


def weights(output):
    return load_file(output / "model" / "weights.safetensors")


def log(output):
    """The rows, without what depends on the clock."""
    rows = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in rows]


def assert_same_run(output, other):
    assert log(output) == log(other)
    ours, theirs = weights(output), weights(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(step, seconds):
    train_steps = Run._train_steps

    def dying(run, *arguments):
        train_steps(run, *arguments)
        if run.step >= step:
            threading.Timer(seconds, die).start() if seconds else die()

    Run._train_steps = dying


def die_while_writing(number):
    save_tensors, calls = checkpoint.save_tensors, []

    def dying(tensors, path):
        save_tensors(tensors, path)
        calls.append(path)
        if len(calls) == number:
            die()

    checkpoint.save_tensors = dying


if __name__ == "__main__":
    text, output, *fate = sys.argv[1:]
    if fate and fate[0].startswith("during-"):
        die_while_writing(int(fate[0].removeprefix("during-")))
    elif fate:
        die_after(int(fate[0]), float(fate[1]) if fate[1:] else 0)
    pretrain(config(text, output), progress=False)
