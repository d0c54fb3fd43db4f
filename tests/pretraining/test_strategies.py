"""The same training on one device, two replicas and two processes."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.pretraining import kills, processes, run

LAYOUTS = {
    "one device": {},
    "accumulation": {"gradient_accumulation_steps": 4},
    "two replicas": {"strategy": "mirrored"},
    "two workers": {"strategy": "multi_worker"},
}


def losses(config):
    """Step to the numbers that do not depend on the clock."""
    rows = [json.loads(line) for line in Path(config.output, "log.jsonl").read_text().splitlines()]
    return {row["step"]: {k: v for k, v in row.items() if "loss" in k} for row in rows}


def assert_same_losses(first, second):
    assert first.keys() == second.keys()
    difference = 0.0
    for step, values in first.items():
        for name, value in values.items():
            difference = max(difference, abs(second[step][name] / value - 1))
    print(f"largest relative difference of a loss: {difference:.1e}")
    assert difference <= 1e-5


@pytest.mark.sweep  # test_step compares ten steps, and test_stream compares workers
@pytest.mark.parametrize(
    "options",
    [
        {"family": "bert"},
        {"family": "electra"},
        {"family": "bert", "first_batch_size": 8, "batch_ramp_steps": 20},
    ],
    ids=["bert", "electra", "growing"],
)
def test_fifty_steps_have_the_same_losses_in_every_layout(text_files, tmp_path, options):
    options = {
        **options,
        "encoder": run.SMALL | run.EXACT,
        "steps": 50,
        "steps_per_loop": 1,
        "learning_rate": 1e-3,
        "checkpoint_every": 50,
        "evaluate_every": None,
    }
    found = {}
    for name, layout in LAYOUTS.items():
        config = run.config(text_files, tmp_path / name, **options, **layout)
        codes = processes.launch(config)
        assert not any(codes), processes.said(config)
        found[name] = losses(config)
    one = found.pop("one device")
    assert list(one) == list(range(51))
    assert one[50]["loss"] < one[1]["loss"]
    for name, others in found.items():
        print(options["family"], name, end=": ")
        assert_same_losses(one, others)


@pytest.mark.sweep  # tests/pretraining/test_stream.py does the same on records
def test_a_run_stopped_on_two_workers_goes_on_alone(text_files, tmp_path):
    options = {"encoder": run.SMALL | run.EXACT, "learning_rate": 1e-3}
    whole = run.config(text_files, tmp_path / "whole", **options)
    two = run.config(text_files, tmp_path / "two", **options, strategy="multi_worker")
    alone = run.config(text_files, tmp_path / "two", **options)
    codes = processes.launch(two, {1: ("after", 10, 0, signal.SIGTERM)})
    assert codes == [processes.INTERRUPTED] * 2, processes.said(two)
    assert [p.name for p in Path(two.output, "checkpoints").glob("*10")] == ["step-00000010"]
    for config in (whole, alone):
        assert processes.launch(config) == [0], processes.said(config)
    assert_same_losses(losses(whole), losses(alone))
    assert processes.seen(whole) == processes.seen(alone)
    ours, theirs = run.weights(Path(alone.output)), run.weights(Path(whole.output))
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=1e-5, err_msg=name)


@pytest.mark.sweep  # tests/pretraining/test_trainer.py kills one run
@pytest.mark.parametrize("strategy", processes.PROCESSES)
def test_kills_at_random_moments(text_files, tmp_path, strategy):
    options = {"steps": 60, "checkpoint_every": 5, "evaluate_every": 20}
    assert kills.check(text_files, tmp_path, strategy, 3, seed=None, **options)
