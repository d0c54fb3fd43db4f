"""Wherever `finetune` is stopped, the old or the new model opens, and the same command succeeds."""

import csv
import shutil
import signal

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from tests.finetuning import tiny
from tests.kills import SWEEP, Commands, a_few
from tests.trees import state, tree

COMMAND = ("finetune", "--model", "encoder", "--train", "opinions.csv", "--batch-size", "32")
OLD = (*COMMAND, "--output", "old", "--epochs", "1", "--learning-rate", "1e-2")
NEW = (*COMMAND, "--output", "run", "--epochs", "1", "--learning-rate", "2e-2")


@pytest.fixture(scope="module")
def commands():
    with Commands() as commands:
        yield commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory, commands):
    """A folder with an encoder, examples, and the output `old` of an earlier run."""
    folder = tmp_path_factory.mktemp("killed")
    kb.save(tiny.classifier(), folder / "encoder")
    examples = tiny.opinions(32)
    with open(folder / "opinions.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [("text", "label"), *zip(examples.texts, examples.labels, strict=True)]
        )
    outcome = commands.run(folder, *OLD)
    assert outcome.code == 0, outcome.said
    return folder


def weights(output):
    return {name: np.asarray(x) for name, x in named_variables(kb.load(output / "model")).items()}


def same(weights, others):
    return all(np.array_equal(value, others[name]) for name, value in weights.items())


@pytest.mark.parametrize("which", [a_few, SWEEP])
def test_finetune_over_an_earlier_run(which, commands, folder):
    run = folder / "run"

    def restore():
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(folder / "old", run)

    restore()
    outcome = commands.run(folder, *NEW)
    assert outcome.code == 0, outcome.said
    whole, expected = [weights(folder / "old"), weights(run)], tree(run)
    assert not same(*whole)
    seen = set()
    for kill in which(outcome.calls):
        restore()
        stopped = commands.run(folder, *NEW, kill=kill)
        code = -signal.SIGKILL if kill.signal == signal.SIGKILL else 130
        assert stopped.code == code, (kill, stopped)
        if (found := state(run)) in seen:
            continue  # the next command has continued from the same files
        seen.add(found)
        assert any(same(weights(run), each) for each in whole), kill
        again = commands.run(folder, *NEW)
        assert again.code == 0, (kill, again.said)
        assert tree(run) == expected, kill
