"""A run that was killed goes on as if nothing had happened.

As a program: `python -m tests.finetuning.test_resume OUTPUT MOMENT`, killed by SIGKILL then.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert.errors import CheckpointError, InputError
from keras_bert.finetuning import Recipe, fine_tune, resume, training
from keras_bert.finetuning.result import check_output
from tests.finetuning import tiny
from tests.marks import others_swept
from tests.trees import tree

RECIPE = Recipe(epochs=4, batch_size=8, learning_rate=1e-2, layer_decay=0.9)


def run(output, validate=True, model=None, **changes):
    recipe = RECIPE.model_copy(update=changes)
    data = tiny.opinions()
    return fine_tune(
        tiny.classifier(**model or {}),
        data,
        tiny.opinions(20) if validate else None,
        recipe=recipe,
        output=output,
        verbose=0,
    )


def files(output):
    weights = load_file(output / "model" / "weights.safetensors")
    names = ("metrics.json", "history.jsonl", "model/README.md")
    return weights, *((output / name).read_text() for name in names)


def assert_same(output, expected):
    (weights, *texts), (expected_weights, *expected_texts) = files(output), expected
    assert texts == expected_texts
    for name, value in expected_weights.items():
        np.testing.assert_array_equal(weights[name], value, err_msg=name)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    output = tmp_path_factory.mktemp("run") / "whole"
    run(output)
    assert sorted(p.name for p in output.iterdir()) == ["history.jsonl", "metrics.json", "model"]
    return files(output)


@pytest.mark.parametrize("moment", others_swept(["saved-2", "unsaved-2", "begun-3"]))
def test_killed_and_started_again_is_uninterrupted(uninterrupted, tmp_path, moment, forks):
    output = tmp_path / "out"
    command = [*forks.module("tests.finetuning.test_resume"), str(output), moment]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = json.loads((output / "unfinished" / "progress.json").read_text())["epoch"]
    assert done == {"saved-2": 2, "unsaved-2": 1, "begun-3": 2}[moment]
    run(output)
    assert_same(output, uninterrupted)
    assert sorted(p.name for p in output.iterdir()) == ["history.jsonl", "metrics.json", "model"]


def interrupted(monkeypatch, epoch, output, **changes):
    with tiny.interrupted(monkeypatch, epoch):
        run(output, **changes)


def test_without_validation(tmp_path, monkeypatch):
    run(tmp_path / "whole", validate=False)
    interrupted(monkeypatch, 3, tmp_path / "out", validate=False)
    run(tmp_path / "out", validate=False)
    assert_same(tmp_path / "out", files(tmp_path / "whole"))


def test_the_last_epoch_is_the_best_and_stays_so(tmp_path, monkeypatch):
    scores = iter([0.5, 0.9, 0.4, 0.3])

    def measure(*arguments):
        return {"accuracy": next(scores)}

    monkeypatch.setattr(training._Split, "measure", measure)
    run(tmp_path / "whole")
    scores = iter([0.5, 0.9, 0.4, 0.3])
    interrupted(monkeypatch, 2, tmp_path / "out")
    run(tmp_path / "out")
    assert_same(tmp_path / "out", files(tmp_path / "whole"))


@pytest.mark.parametrize(
    "change",
    others_swept([{"learning_rate": 2e-2}, {"validate": False}, {"model": {"pooling": "mean"}}]),
)
def test_another_run_in_the_same_directory_begins_anew(tmp_path, monkeypatch, caplog, change):
    interrupted(monkeypatch, 1, tmp_path / "out")
    result = run(tmp_path / "out", **change)
    assert "starts from the beginning" in caplog.text
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3, 4]
    run(tmp_path / "whole", **change)
    assert_same(tmp_path / "out", files(tmp_path / "whole"))


def test_a_run_is_known_by_its_model():
    def name(**arguments):
        return resume.run_of(tiny.classifier(**arguments), RECIPE.to_dict(), [])

    assert name() == name()
    others = [{"pooling": "mean"}, {"dropout": 0.5}, {"labels": ["a", "b"]}]
    others += [{"dtype": "mixed_float16"}]
    assert len({name(), *(name(**other) for other in others)}) == 1 + len(others)
    model = tiny.classifier()
    model.encoder.encoder_layers[-1].weights[0].assign_add([1.0] * 16)
    assert resume.run_of(model, RECIPE.to_dict(), []) != name()


def test_killed_before_anything_was_whole(tmp_path):
    (tmp_path / ".keras_bert-new-abcdefgh" / "new").mkdir(parents=True)
    check_output(tmp_path)
    assert not any(tmp_path.iterdir())


def flip(path):
    """Changes one byte near the end, so the file stays one of safetensors."""
    data = bytearray(path.read_bytes())
    data[-2] ^= 0x40
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


@pytest.fixture(scope="module")
def left_with_an_earlier_best(tmp_path_factory):
    """A run that was interrupted after epoch 3, of which epoch 1 is the best."""
    output = tmp_path_factory.mktemp("left") / "out"
    with pytest.MonkeyPatch.context() as patch:
        scores = iter([0.9, 0.5, 0.4])
        patch.setattr(training._Split, "measure", lambda *arguments: {"accuracy": next(scores)})
        interrupted(patch, 3, output)
    return output


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
@pytest.mark.parametrize("name", ["weights", "optimizer", "best"])
def test_a_damaged_state_is_refused(left_with_an_earlier_best, tmp_path, name, damage):
    output = shutil.copytree(left_with_an_earlier_best, tmp_path / "out")
    damage(output / "unfinished" / f"{name}.safetensors")
    before = tree(output)
    with pytest.raises(CheckpointError, match=rf"{name}.safetensors.*remove {output}/unfinished"):
        run(output)
    assert tree(output) == before


def test_a_state_that_is_not_described_is_refused(left_with_an_earlier_best, tmp_path):
    output = shutil.copytree(left_with_an_earlier_best, tmp_path / "out")
    cut(output / "unfinished" / "progress.json")
    with pytest.raises(CheckpointError, match="progress.json is missing or damaged. .* remove"):
        run(output)


def test_a_damaged_model_of_the_best_epoch_is_written_anew(
    left_with_an_earlier_best, tmp_path, monkeypatch
):
    output = shutil.copytree(left_with_an_earlier_best, tmp_path / "out")
    expected = files(output)[0]
    flip(output / "model" / "weights.safetensors")
    monkeypatch.setattr(training._Split, "measure", lambda *arguments: {"accuracy": 0.3})
    assert run(output).best_epoch == 1
    weights = files(output)[0]
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(weights[name], value, err_msg=name)


def test_one_run_at_a_time(tmp_path, monkeypatch):
    """The second run is refused while the first one trains, and changes nothing."""
    save, refusals = resume.save_progress, []

    def save_and_start_another(output, *arguments):
        save(output, *arguments)
        before = tree(output)
        with pytest.raises(InputError, match="Another run is writing to .*out; wait") as refusal:
            run(tmp_path / "out", learning_rate=5e-3)
        refusals.append(refusal)
        assert tree(output) == before

    monkeypatch.setattr(training, "save_progress", save_and_start_another)
    run(tmp_path / "out", epochs=2)
    assert len(refusals) == 2
    monkeypatch.setattr(training, "save_progress", save)
    run(tmp_path / "out", epochs=1)  # nobody holds the directory any more


def test_a_refused_run_leaves_no_directory(tmp_path, monkeypatch):
    def failing(*arguments, **options):
        raise InputError("no")

    monkeypatch.setattr(training, "adamw", failing)
    with pytest.raises(InputError):
        run(tmp_path / "out")
    assert not any(tmp_path.iterdir())


if __name__ == "__main__":
    when, number = sys.argv[2].split("-")
    name = "set_dropout_seeds" if when == "begun" else "save_progress"
    function, calls = getattr(training, name), []

    def dying(*arguments):
        calls.append(arguments)
        if when != "unsaved" or len(calls) < int(number):
            function(*arguments)
        if len(calls) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(training, name, dying)
    run(sys.argv[1])
