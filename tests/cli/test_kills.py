"""Wherever a command is stopped, the old or the new output is whole, and the command goes on.

Two of a command's renames and deletions are tried. `make test-sweep` tries all, with SIGKILL and
SIGINT. `finetune` has its own file, tests/finetuning.
"""

import shutil
import signal

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.atomic import SAVED
from keras_bert.export.process import running
from tests.finetuning import tiny
from tests.kills import SWEEP, Commands, Kill, a_few, kills
from tests.marks import others_swept
from tests.trees import FOREIGN, state, tree, write

TEXT = "".join(f"the film number {number} was fine\n" for number in range(200))


@pytest.fixture(scope="module")
def commands():
    with Commands() as commands:
        yield commands


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the models `old` and `new`, a text and its vocabulary."""
    folder = tmp_path_factory.mktemp("models")
    for name, seed in (("old", 1.0), ("new", 2.0)):
        model = tiny.classifier({"activation": "gelu_tanh"})
        model.head.trainable_variables[0].assign_add(seed * np.ones((16, 2)))
        kb.save(model, folder / name)
    (folder / "text.txt").write_text(TEXT)
    (folder / "old.txt").write_text("".join(f"{token}\n" for token in tiny.TOKENS))
    return folder


def outcomes(commands, folder, command, restore, which):
    """Runs a command, then again for each kill of `which`; yields the kill and what was said."""
    restore()
    outcome = commands.run(folder, *command)
    assert outcome.code == 0, outcome.said
    for kill in which(outcome.calls):
        restore()
        outcome = commands.run(folder, *command, kill=kill)
        expected = -signal.SIGKILL if kill.signal == signal.SIGKILL else 130
        assert outcome.code == expected, (kill, outcome)
        yield kill


@pytest.mark.parametrize("which", [a_few, SWEEP])
@pytest.mark.parametrize("format", others_swept(["huggingface", "native"]))
def test_convert_over_a_model(which, format, commands, models, tmp_path):
    command = ("convert", models / "new", "place", "--to", format)
    place, old, new = tmp_path / "place", tmp_path / "old", tmp_path / "new"
    for source, target in (("old", old), ("new", new)):
        outcome = commands.run(tmp_path, "convert", models / source, target, "--to", format)
        assert outcome.code == 0, outcome.said
        write(target, FOREIGN)

    def restore():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(old, place)

    whole = [tree(old), tree(new)]
    for kill in outcomes(commands, tmp_path, command, restore, which):
        if tree(place) in whole:
            continue  # nothing to see of the kill
        assert kill.signal == signal.SIGKILL, kill
        kb.load(place)
        shown = {name: x for name, x in tree(place).items() if "keras_bert-" not in name}
        assert shown in whole, kill
        outcome = commands.run(tmp_path, *command)
        assert outcome.code == 0, (kill, outcome.said)
        assert tree(place) == whole[1], kill


def test_the_next_command_finishes_a_save_and_says_so(commands, models, tmp_path):
    shutil.copytree(models / "old", tmp_path / "place")
    command = ("convert", models / "new", "place", "--to", "native")
    calls = commands.run(tmp_path, *command).calls
    shutil.rmtree(tmp_path / "place")
    shutil.copytree(models / "old", tmp_path / "place")
    for call in range(calls):
        commands.run(tmp_path, *command, kill=Kill(call, signal.SIGKILL, False))
        if (tmp_path / "place" / SAVED).exists():
            break
    outcome = commands.run(tmp_path, "inspect", "place")
    assert outcome.code == 0
    assert "place: finished a save that had been interrupted." in outcome.said
    assert tree(tmp_path / "place") == tree(models / "new")


@pytest.mark.sweep
@pytest.mark.parametrize("which", [a_few, SWEEP])
def test_vocab_over_a_vocabulary(which, commands, models, tmp_path):
    command = ("vocab", models / "text.txt", "--size", "60", "--output", "vocab.txt")
    place = tmp_path / "vocab.txt"

    def restore():
        shutil.copyfile(models / "old.txt", place)

    assert commands.run(tmp_path, *command).code == 0
    whole = [(models / "old.txt").read_bytes(), place.read_bytes()]
    for kill in outcomes(commands, tmp_path, command, restore, which):
        assert place.read_bytes() in whole, kill
        assert commands.run(tmp_path, *command).code == 0, kill
        assert place.read_bytes() == whole[1]
        assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"], kill


@pytest.mark.sweep
@pytest.mark.parametrize("which", [a_few, SWEEP])
def test_tokenize(which, commands, models, tmp_path):
    options = ("--vocabulary", models / "old.txt", "--workers", "1", "--output", "records")
    command = ("tokenize", models / "text.txt", *options)
    place = tmp_path / "records"
    assert commands.run(tmp_path, *command).code == 0
    whole = tree(place)

    def restore():
        shutil.rmtree(place, ignore_errors=True)

    for kill in outcomes(commands, tmp_path, command, restore, which):
        there = {name: x for name, x in tree(tmp_path).items() if "keras_bert-" not in name}
        assert all(x == whole[name.removeprefix("records/")] for name, x in there.items() if x)
        outcome = commands.run(tmp_path, *command)
        assert outcome.code == 0, (kill, outcome.said)
        assert tree(place) == whole, kill


def sigkills(calls):
    """Leaves SIGINT to TFLite: all formats unwind through the same code, and this one is fast."""
    return (kill for kill in kills(calls) if kill.signal == signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "which"),
    [
        *others_swept((format, a_few) for format in ("tflite", "saved_model", "onnx")),
        pytest.param("tflite", kills, marks=pytest.mark.sweep),
        pytest.param("saved_model", sigkills, marks=pytest.mark.sweep),
        pytest.param("onnx", sigkills, marks=pytest.mark.sweep),
    ],
)
def test_export_over_artifacts(format, which, commands, models, tmp_path):
    command = ("export", models / "new", "out", "--format", format)
    place, old = tmp_path / "out", tmp_path / "old"
    assert commands.run(tmp_path, "export", models / "old", "old", "--format", format).code == 0
    artifact = next(old.iterdir()).name
    logits = [kb.load(models / name)(IDS).numpy() for name in ("old", "new")]

    def restore():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(old, place)

    seen = {state(old)}
    for kill in outcomes(commands, tmp_path, command, restore, which):
        if (found := state(place)) in seen:
            continue  # nothing to see of the kill, or the next command has finished the same files
        seen.add(found)
        logits_found = answer(place / artifact)
        assert any(np.allclose(logits_found, x, atol=1e-4) for x in logits), kill
        outcome = commands.run(tmp_path, *command)
        assert outcome.code == 0, (kill, outcome.said)
        assert np.allclose(answer(place / artifact), logits[1], atol=1e-4), kill
        assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")], kill


IDS = {
    "token_ids": np.array([[2, 6, 7, 3]], "int32"),
    "segment_ids": np.zeros((1, 4), "int32"),
    "padding_mask": np.ones((1, 4), "int32"),
}


def answer(artifact):
    """Returns the logits that an artifact gives in its runtime."""
    with running(artifact) as process:
        name = next(n for n, s in process.signatures.items() if {*s["inputs"]} == {*IDS})
        return process.run(name, IDS)["logits"]
