import json
import random
import signal
import threading

import keras
import numpy as np
import pytest

import keras_bert as kb
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.pretraining.background import Background
from keras_bert.pretraining.resolve import encoder_config
from keras_bert.pretraining.training import checkpoints as checkpoint
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.run_directory import check_directory
from keras_bert.pretraining.training.step import TrainingStep
from keras_bert.pretraining.training.trainer import Trainer, pretrain
from tests.marks import others_swept
from tests.pretraining import processes
from tests.pretraining.run import assert_same_run, config, interrupt, log


@pytest.fixture(scope="module")
def finished(text_files, tmp_path_factory):
    """A run without interruption, and what it returned."""
    output = tmp_path_factory.mktemp("runs") / "whole"
    return output, pretrain(config(text_files, output), progress=False)


def test_a_run_learns_and_tells(finished):
    output, results = finished
    assert results["finished"]
    assert results["step"] == results["steps"] == 24
    assert results["after"]["mlm_loss"] < results["before"]["mlm_loss"]
    rows = log(output)
    assert [row["step"] for row in rows if row["event"] == "validation"] == [0, 8, 16, 24]
    steps = [row["step"] for row in rows if row["event"] == "train"]
    assert set(range(2, 25, 2)) <= set(steps)  # and at the ends of epochs
    assert steps == sorted(set(steps))
    assert {"mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"} <= rows[1].keys()
    held_out = results["after"]
    assert held_out["mlm_perplexity"] == pytest.approx(np.exp(held_out["mlm_loss"]))
    assert 0 < rows[1]["padding"] < 1
    assert list((output / "tensorboard").glob("events*"))
    assert sorted(p.name for p in (output / "checkpoints").iterdir()) == [
        "step-00000018",
        "step-00000024",
    ]


def test_the_model_and_every_checkpoint_open(finished):
    output, results = finished
    model = kb.load(results["model"])
    assert model.preprocessor is not None
    inputs = model.preprocessor(["sun rises"])
    logits = model(inputs)["mlm_logits"]
    again = kb.load(output / "checkpoints" / "step-00000024")
    np.testing.assert_array_equal(again(inputs)["mlm_logits"], logits)


def test_a_finished_run_is_left_alone(finished, text_files):
    output, results = finished
    again = pretrain(
        config(text_files, output, peak_teraflops=1, gradient_accumulation_steps=2), progress=False
    )
    for key in ("before", "after", "train", "model"):
        assert again[key] == results[key]


@pytest.mark.parametrize("fate", others_swept(["during", "after"]))
def test_killed_and_continued(finished, text_files, tmp_path, fate):
    run = config(text_files, tmp_path / "run")
    if fate == "after":
        fate = ("after", random.randrange(1, 24), 0, signal.SIGKILL)
    else:
        fate = ("during", random.randrange(1, 5))
    assert processes.launch(run, {0: fate}) == [processes.KILLED], fate
    assert pretrain(run, progress=False)["finished"]
    assert_same_run(tmp_path / "run", finished[0])
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))


def test_an_interrupted_run_saves_and_continues(finished, text_files, tmp_path, monkeypatch):
    handler = signal.getsignal(signal.SIGTERM)
    interrupt(monkeypatch, step=10)
    run = config(text_files, tmp_path / "run")
    results = pretrain(run, progress=False)
    assert (results["finished"], results["step"], results["model"]) == (False, 10, None)
    assert signal.getsignal(signal.SIGTERM) == handler
    assert pretrain(run, progress=False)["finished"]
    assert_same_run(tmp_path / "run", finished[0])


def test_no_signals_in_other_threads(text_files, tmp_path):
    run = config(text_files, tmp_path / "run", steps=2)
    thread = threading.Thread(target=pretrain, args=(run, False))
    thread.start()
    thread.join()
    assert (tmp_path / "run" / "model").is_dir()


def fill_disk(monkeypatch, steps):
    """So that the checkpoints of some steps cannot be written."""
    save = checkpoint.save_tensors

    def into_a_full_disk(tensors, path):
        if any(f"step-{step:08d}" in str(path) for step in steps):
            raise kb.StorageError(f"Cannot write {path}: no space left.")
        save(tensors, path)

    monkeypatch.setattr(checkpoint, "save_tensors", into_a_full_disk)


def checkpoints(output):
    return sorted(int(path.name.removeprefix("step-")) for path in output.glob("checkpoints/*"))


def test_a_full_disk_leaves_the_last_checkpoint(finished, text_files, tmp_path, monkeypatch):
    run = config(text_files, tmp_path / "run")
    with monkeypatch.context() as patch:
        fill_disk(patch, range(12, 25))
        with pytest.raises(kb.StorageError, match="Cannot write"):
            pretrain(run, progress=False)
    assert checkpoints(tmp_path / "run") == [6, 8]
    pretrain(run, progress=False)
    assert_same_run(tmp_path / "run", finished[0])


@pytest.mark.parametrize(("looks", "written"), others_swept([(True, [8, 10]), (False, [10])]))
def test_a_write_that_fails_is_made_up_for(
    text_files, tmp_path, monkeypatch, caplog, looks, written
):
    """At the next look or, if it is still under way there, by the last checkpoint."""
    run = config(text_files, tmp_path / "run", evaluate_every=None, keep_checkpoints=9)
    has_failed = Background.has_failed

    def look(background):
        background._executor.submit(int).result()  # after the write
        return looks and has_failed(background)

    monkeypatch.setattr(Background, "has_failed", look)
    fill_disk(monkeypatch, [6])
    interrupt(monkeypatch, step=10)
    assert pretrain(run, progress=False)["step"] == 10
    assert checkpoints(tmp_path / "run") == written
    assert caplog.text.count("A checkpoint could not be written") == 1


@pytest.mark.slow
def test_a_damaged_checkpoint_is_passed_over(finished, text_files, tmp_path, caplog):
    run = config(text_files, tmp_path / "run")
    pretrain(run, progress=False)
    path = tmp_path / "run" / "checkpoints" / "step-00000024" / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    pretrain(run, progress=False)
    assert "Skipping a damaged" in caplog.text
    assert f"Removing {path.parent}" in caplog.text
    assert_same_run(tmp_path / "run", finished[0])
    other = tmp_path / "run" / "checkpoints" / "step-00000018" / "optimizer.safetensors"
    for file in (path, other):
        file.write_bytes(b"")
    with pytest.raises(kb.CheckpointError, match="damaged"):
        pretrain(run, progress=False)


def test_epochs_pass_and_a_run_continues_in_the_middle_of_one(text_files, tmp_path):
    whole = config(text_files, tmp_path / "a", steps=None, epochs=2.5, checkpoint_every=1)
    results = pretrain(whole, progress=False)
    rows = log(tmp_path / "a")
    assert rows[-1]["step"] == results["steps"]
    assert {row["epoch"] for row in rows if row["event"] == "train"} == {0, 1, 2}
    last = tmp_path / "a" / "checkpoints" / f"step-{results['steps']:08d}"
    place = json.loads((last / "progress.json").read_text())
    assert place["epoch"] == 2
    assert place["example"] > 0
    assert place["example"] % 16 == 0


def test_held_out_text_takes_no_more_memory_than_training(
    finished, text_files, tmp_path, monkeypatch
):
    """Batches are in parts there, too, of the same examples."""
    sizes, evaluate = set(), TrainingStep._evaluate

    def recorded(step, batch):
        sizes.add(batch[0]["token_ids"].shape[0])
        return evaluate(step, batch)

    monkeypatch.setattr(TrainingStep, "_evaluate", recorded)
    run = config(text_files, tmp_path / "run", steps=1, gradient_accumulation_steps=4)
    before = pretrain(run, progress=False)["before"]
    assert sizes == {4}
    for name in ("mlm_loss", "mlm_accuracy", "nsp_loss"):
        assert before[name] == pytest.approx(finished[1]["before"][name], rel=1e-5)


def test_masked_tokens_alone(text_files, tmp_path):
    run = config(
        text_files, tmp_path / "run", objective="mlm", steps=4, gradient_accumulation_steps=2
    )
    results = pretrain(run, progress=False)
    assert isinstance(kb.load(results["model"]), kb.MaskedLanguageModel)
    assert "nsp_loss" not in results["after"]


def test_padding_and_mfu(text_files, tmp_path, capsys):
    run = config(text_files, tmp_path / "run", objective="mlm", steps=2, peak_teraflops=1e-3)
    results = pretrain(run)
    examples, _ = make_examples(run, make_preprocessor(run))
    masks = [x["padding_mask"].numpy() for x, *_ in examples.dataset(16).take(2)]
    assert results["train"]["padding"] == pytest.approx(1 - np.mean(masks))
    assert 0 < results["train"]["mfu"] < 1
    assert "MFU=" in capsys.readouterr().err


def test_fit_trains_the_same_model(text_files, tmp_path):
    run = config(text_files, tmp_path / "run")
    preprocessor = make_preprocessor(run)
    examples, _ = make_examples(run, preprocessor)
    encoder = kb.Encoder(encoder_config(run, len(preprocessor.vocabulary)))
    model = kb.PretrainingModel(encoder, preprocessor=preprocessor)
    cross_entropy = "sparse_categorical_crossentropy"
    losses = {
        head: keras.losses.SparseCategoricalCrossentropy(from_logits=True, name=cross_entropy)
        for head in ("mlm_logits", "nsp_logits")
    }
    model.compile(keras.optimizers.AdamW(WarmupLinearDecay(1e-2, 2, 60)), losses)
    history = model.fit(examples.dataset(16), epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


def test_a_loss_that_is_not_finite_ends_the_run(text_files, tmp_path):
    run = config(text_files, tmp_path / "run", learning_rate=10.0, weight_decay=10.0)
    refused(run, r"no longer finite at step \d+\. The last good .*/step-00000008\. Start another")


def refused(run, match):
    with pytest.raises(kb.InputError, match=match):
        pretrain(run, progress=False)


def test_directories_that_are_not_ours(finished, text_files, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    refused(config(text_files, tmp_path), "not empty and holds no pretraining run")
    refused(config(text_files, tmp_path / "letter.txt"), "is a file")
    output = finished[0]
    refused(config(text_files, output, masking_rate=0.2), r"masking_rate 0\.15, not 0\.2")
    refused(config(text_files, output, encoder={"hidden_size": 18}), "with model.encoder")


def test_one_run_at_a_time(text_files, tmp_path, monkeypatch):
    run, train_steps, refusals = (
        config(text_files, tmp_path / "run", steps=2),
        Trainer._train_steps,
        [],
    )

    def train_and_start_another(self, *arguments):
        refusals.append(refused(run, "Another run is writing to .*run; wait for its end"))
        return train_steps(self, *arguments)

    monkeypatch.setattr(Trainer, "_train_steps", train_and_start_another)
    assert pretrain(run, progress=False)["finished"]
    assert refusals


def test_a_run_may_be_older_than_an_option(finished, text_files):
    path = finished[0] / "pretraining.json"
    original = path.read_text()
    written = json.loads(original)
    del written["config"]["optimizer"]["epsilon"]
    try:
        path.write_text(json.dumps(written))
        check_directory(finished[0], config(text_files, finished[0]))
        refused(config(text_files, finished[0], epsilon=1e-3), r"epsilon 1e-06, not 0\.001")
    finally:
        path.write_text(original)


def test_other_text_than_before(finished, text_files):
    path = text_files / "corpus.txt"
    original = path.read_text()
    try:
        path.write_text(original.replace("sun", "moon"))
        refused(config(text_files, finished[0]), "has changed since")
    finally:
        path.write_text(original)


def test_other_held_out_text_than_before(text_files, tmp_path):
    """By it the best checkpoint is chosen."""
    held_out = tmp_path / "held_out.txt"
    held_out.write_text((text_files / "corpus.txt").read_text())
    run = config(text_files, tmp_path / "run", validation=[str(held_out)], steps=1)
    pretrain(run, progress=False)
    longer = config(text_files, tmp_path / "run", validation=[str(held_out)], steps=2)
    held_out.write_text(held_out.read_text().replace("sun", "moon"))
    refused(longer, "held-out text or the vocabulary has changed since")
    path = tmp_path / "run" / "pretraining.json"
    written = json.loads(path.read_text())
    del written["held_out"]  # the run of an earlier release
    path.write_text(json.dumps(written))
    assert pretrain(longer, progress=False)["finished"]


def test_text_that_cannot_be_used(text_files, tmp_path):
    (tmp_path / "one.txt").write_text("sun rises.\nmoon falls.\n" * 40)
    one = [str(tmp_path / "one.txt")]
    refused(
        config(text_files, tmp_path / "run", corpus=one),
        "training text is not enough. There is only one document",
    )
    (tmp_path / "held.txt").write_text(("sun rises.\n" * 40 + "\n") * 3)
    held = {"corpus": [str(tmp_path / "held.txt")], "validation": one}
    refused(
        config(text_files, tmp_path / "run", **held), "held-out text is not enough. There is only"
    )
    (tmp_path / "end.txt").write_text("sun rises.\n" * 19 + "moon\n")
    end = {"family": "albert", "corpus": [str(tmp_path / "end.txt")], "validation_ratio": 0.05}
    refused(config(text_files, tmp_path / "run", **end), "held-out text is too short for an exam")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    refused(
        config(text_files, tmp_path / "run", corpus=[str(tmp_path / "latin.txt")]), "line 1.*UTF-8"
    )
    refused(config(text_files, tmp_path / "run", corpus=["nowhere/*.txt"]), "does not exist")
    refused(config(text_files, tmp_path / "run", vocabulary=one[0]), "one.txt")
    assert not (tmp_path / "run").exists()


def test_sizes_that_do_not_fit(text_files, tmp_path):
    refused(config(text_files, tmp_path / "run", sequence_length=64), "64.*32 positions")
    bad = {"hidden_size": 15, "num_heads": 2}
    refused(config(text_files, tmp_path / "run", encoder=bad), "cannot be divided")
    with pytest.raises(kb.InputError, match="bert_small"):
        config(text_files, tmp_path / "run", preset="bert_smal")
