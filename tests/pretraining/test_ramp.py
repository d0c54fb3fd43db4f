import itertools
import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.distribution.strategy import check_batch
from keras_bert.errors import InputError
from keras_bert.pretraining.training.hooks import BatchRamp
from keras_bert.pretraining.training.trainer import pretrain
from tests.marks import others_swept
from tests.pretraining import processes
from tests.pretraining.run import assert_same_run, config, log

RAMP = {"first_batch_size": 4, "batch_ramp_steps": 21}  # 4 for 11 steps, 8 for 10, then 16


@st.composite
def ramps(draw):
    first, doublings = draw(st.integers(1, 48)), draw(st.integers(0, 7))
    return BatchRamp(first=first, full=first << doublings, steps=draw(st.integers(0, 500)))


@given(ramps())
def test_sizes_are_few_and_double_after_equal_numbers_of_steps(ramp):
    begins, sizes = list(ramp.begins), list(ramp.begins.values())
    assert begins[0] == 0
    assert begins == sorted(begins)
    assert sizes == sorted(sizes)
    assert (ramp.at(ramp.steps), sizes[-1]) == (ramp.full, ramp.full)
    assert len(sizes) <= 8
    if ramp.full > ramp.first and ramp.steps >= 8:
        assert ramp.at(0) == ramp.first
        assert all(b == 2 * a for a, b in itertools.pairwise(sizes))
        lengths = [b - a for a, b in itertools.pairwise(begins)]
        assert max(lengths) - min(lengths) <= 1
    for step in range(0, ramp.steps + 3, 7):
        change = step + ramp.until_change(step)
        assert ramp.at(step) == ramp.at(min(change - 1, ramp.steps + 3))
        if step < ramp.steps and ramp.at(step) < ramp.full:
            assert ramp.at(change) > ramp.at(step)


@given(ramps(), st.integers(1, 3000), st.integers(1, 4))
def test_steps_of_whole_epochs_are_those_that_see_every_example(ramp, examples, epochs):
    step = 0
    for _ in range(epochs):
        seen = 0
        while seen < examples:
            seen, step = seen + ramp.at(step), step + 1
    assert ramp.steps_for(epochs, examples) == step


@given(ramps(), st.integers(1, 3000), st.floats(0.01, 5))
def test_more_epochs_are_no_fewer_steps(ramp, examples, epochs):
    steps = ramp.steps_for(epochs, examples)
    assert 1 <= steps <= ramp.steps_for(epochs + 0.5, examples)
    constant = BatchRamp(first=ramp.full, full=ramp.full)
    assert steps >= constant.steps_for(epochs, examples) - 1
    assert constant.steps_for(epochs, examples) == max(1, round(epochs * -(-examples // ramp.full)))


@pytest.mark.slow
@pytest.mark.parametrize("kills", others_swept([[14], [9, 20], [9, 16, 20]]))
def test_killed_before_and_after_the_batch_has_grown(text_files, tmp_path, kills):
    """Weights and log are the same to the last bit, and every example was seen once an epoch."""
    whole = config(text_files, tmp_path / "whole", steps=34, **RAMP)
    pretrain(whole, progress=False)
    run = config(text_files, tmp_path / "run", steps=34, **RAMP)
    for step in kills:  # checkpoints are at 6, 12 and 18, and where the loss was best
        fate = ("after", step, 0, signal.SIGKILL)
        assert processes.launch(run, {0: fate}) == [processes.KILLED], processes.said(run)
    assert processes.launch(run) == [0], processes.said(run)
    assert_same_run(Path(run.output), Path(whole.output))
    rows = [row for row in log(Path(run.output)) if row["event"] == "train"]
    sizes = {row["step"]: row["batch_size"] for row in rows}
    assert (sizes[10], sizes[11], sizes[12], sizes[20], sizes[21], sizes[22]) == (4, 4, 8, 8, 8, 16)
    seen = processes.seen(run)
    assert len(seen) > 2
    assert seen[0] == processes.examples_of(run, 0)
    assert seen[1] == processes.examples_of(run, 1)


def test_epochs_end_where_they_should(text_files, tmp_path):
    options = {"steps": None, "epochs": 1, "checkpoint_every": 3, "validation_ratio": 0}
    run = config(text_files, tmp_path / "run", objective="mlm", **options, **RAMP)
    results = pretrain(run, progress=False)
    rows = [row for row in log(tmp_path / "run") if row["event"] == "train"]
    sizes = Counter(row["batch_size"] for row in rows)
    assert sizes[4] > 0 < sizes[8]
    last = tmp_path / "run" / "checkpoints" / f"step-{results['steps']:08d}" / "progress.json"
    place = json.loads(last.read_text())
    assert (place["epoch"], place["example"]) == (1, 0)


def test_a_first_batch_too_small_for_the_replicas():
    class Strategy:
        num_replicas_in_sync = 4

    check_batch(Strategy(), 8, 2, "first_batch_size")
    with pytest.raises(
        InputError, match="first_batch_size is 8, which cannot be divided among 4 .* of 16"
    ):
        check_batch(Strategy(), 8, 4, "first_batch_size")
