import dataclasses
import os
import resource

import keras
import pytest

import keras_bert as kb
from keras_bert.optimizers.distributed import AdamW
from keras_bert.pretraining.training.checkpoints import (
    checkpoint_path,
    remove_passed_over,
    restore_checkpoint,
    take_snapshot,
    write_checkpoint,
)
from keras_bert.pretraining.training.step import trainable_variables
from tests.pretraining.models import make_model


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return make_model("mlm+nsp")


@pytest.fixture(scope="module")
def optimizer(model):
    return AdamW(trainable_variables(model), lambda step: 0.0)


@pytest.fixture
def write(model, optimizer, tmp_path):
    """Writes the checkpoint of a step."""
    snapshot = take_snapshot(model, optimizer, {})

    def write(step, **kept):
        write_checkpoint(
            tmp_path, dataclasses.replace(snapshot, progress={"step": step}), **{"keep": 9} | kept
        )

    return write


def steps(directory):
    return sorted(int(path.name.removeprefix("step-")) for path in directory.iterdir())


def test_the_last_the_best_and_the_last_good_one_are_kept(write, tmp_path):
    for step in (2, 4, 6, 8):
        write(step)
    write(10, keep=1, best=2, good=7)  # a loss that rises since
    assert steps(tmp_path) == [2, 6, 10]
    write(12, keep=1, best=2, good=12)
    assert steps(tmp_path) == [2, 12]
    write(14, keep=1, good=1)
    assert steps(tmp_path) == [14]


def test_what_was_passed_over_is_not_kept_in_place_of_what_is_newer(
    write, optimizer, tmp_path, caplog
):
    for step in (2, 4, 6):
        write(step)
    (checkpoint_path(tmp_path, 6) / "progress.json").write_text("{")
    step = restore_checkpoint(tmp_path, optimizer)["step"]
    remove_passed_over(tmp_path, step)
    assert (step, steps(tmp_path)) == (4, [2, 4])
    assert "Removing" in caplog.text
    write(5, keep=1)
    assert steps(tmp_path) == [5]


def test_all_is_on_the_disk_before_another_one_goes(write, tmp_path, monkeypatch):
    write(2)
    events, fsync, rename = [], os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda file: (events.append(os.fstat(file)), fsync(file)))
    monkeypatch.setattr(os, "rename", lambda *paths: (events.append("gone"), rename(*paths)))
    write(4, keep=1)
    assert steps(tmp_path) == [4]
    flushed = events[: events.index("gone")]
    new = checkpoint_path(tmp_path, 4)
    for path in (*new.iterdir(), new, tmp_path):
        assert any(os.path.samestat(path.stat(), each) for each in flushed), path


def test_a_full_disk_leaves_what_is_there(write, optimizer, tmp_path):
    write(2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(kb.StorageError, match="Cannot write"):
            write(4, keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert steps(tmp_path) == [2]
    assert restore_checkpoint(tmp_path, optimizer)["step"] == 2
