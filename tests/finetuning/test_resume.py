"""A run that was killed goes on as if nothing had happened.

As a program: `python -m tests.finetuning.test_resume OUTPUT MOMENT`, killed by SIGKILL then.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert.finetuning import Recipe, fine_tune, resume, training
from keras_bert.finetuning.result import check_output
from tests.finetuning import tiny
from tests.marks import others_slow

RECIPE = Recipe(epochs=4, batch_size=8, learning_rate=1e-2, layer_decay=0.9)


def run(output, validate=True, model=None, **changes):
    recipe = dataclasses.replace(RECIPE, **changes)
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


@pytest.mark.parametrize("moment", others_slow(["saved-2", "unsaved-2", "begun-3"]))
def test_killed_and_started_again_is_uninterrupted(uninterrupted, tmp_path, moment):
    output = tmp_path / "out"
    command = [sys.executable, "-m", "tests.finetuning.test_resume", str(output), moment]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = json.loads((output / "unfinished" / "progress.json").read_text())["epoch"]
    assert done == {"saved-2": 2, "unsaved-2": 1, "begun-3": 2}[moment]
    run(output)
    assert_same(output, uninterrupted)
    assert sorted(p.name for p in output.iterdir()) == ["history.jsonl", "metrics.json", "model"]


class Interrupted(BaseException):
    pass


def interrupted(monkeypatch, epoch, output, **changes):
    save = resume.save_progress

    def dying(output, model, progress):
        save(output, model, progress)
        if progress["epoch"] == epoch:
            raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(training, "save_progress", dying)
        with pytest.raises(Interrupted):
            run(output, **changes)


def test_without_validation(tmp_path, monkeypatch):
    run(tmp_path / "whole", validate=False)
    interrupted(monkeypatch, 3, tmp_path / "out", validate=False)
    run(tmp_path / "out", validate=False)
    assert_same(tmp_path / "out", files(tmp_path / "whole"))


def test_the_last_epoch_is_the_best_and_stays_so(tmp_path, monkeypatch):
    scores = iter([0.5, 0.9, 0.4, 0.3])

    def measure(split, job, model, batch_size):
        return {"accuracy": next(scores)}

    monkeypatch.setattr(training._Split, "measure", measure)
    run(tmp_path / "whole")
    scores = iter([0.5, 0.9, 0.4, 0.3])
    interrupted(monkeypatch, 2, tmp_path / "out")
    run(tmp_path / "out")
    assert_same(tmp_path / "out", files(tmp_path / "whole"))


@pytest.mark.parametrize(
    "change",
    others_slow([{"learning_rate": 2e-2}, {"validate": False}, {"model": {"pooling": "mean"}}]),
)
def test_another_run_in_the_same_directory_begins_anew(tmp_path, monkeypatch, caplog, change):
    interrupted(monkeypatch, 1, tmp_path / "out")
    result = run(tmp_path / "out", **change)
    assert "begins anew" in caplog.text
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3, 4]
    run(tmp_path / "whole", **change)
    assert_same(tmp_path / "out", files(tmp_path / "whole"))


def test_a_run_is_known_by_its_model():
    def name(**arguments):
        return resume.run_of(tiny.classifier(**arguments), RECIPE, [])

    assert name() == name()
    others = [{"pooling": "mean"}, {"dropout": 0.5}, {"labels": ["a", "b"]}]
    others += [{"dtype": "mixed_float16"}]
    assert len({name(), *(name(**other) for other in others)}) == 1 + len(others)
    model = tiny.classifier()
    model.encoder.encoder_layers[-1].weights[0].assign_add([1.0] * 16)
    assert resume.run_of(model, RECIPE, []) != name()


def test_killed_before_anything_was_whole(tmp_path):
    (tmp_path / ".keras_bert-new-abcdefgh" / "new").mkdir(parents=True)
    check_output(tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("damaged", others_slow(["optimizer", "weights"]))
def test_a_damaged_state_is_passed_over(damaged, uninterrupted, tmp_path, monkeypatch, caplog):
    output = tmp_path / "out"
    interrupted(monkeypatch, 2, output)
    path = output / "unfinished" / f"{damaged}.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    run(output)
    assert "is damaged" in caplog.text
    assert_same(output, uninterrupted)


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
