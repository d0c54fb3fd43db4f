import json

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints.files import save_tensors
from keras_bert.checkpoints.native import CONFIGURATION, WEIGHTS
from keras_bert.checkpoints.variables import named_variables
from tests.layers.test_encoder import padded_batch, random_encoder


@pytest.fixture
def directory(tmp_path):
    kb.save(kb.SequenceClassifier(random_encoder(), 2), tmp_path / "model")
    return tmp_path / "model"


def test_encoder_goes_into_another_task(directory, caplog):
    model = kb.load(directory, task="masked_lm")
    saved = kb.load(directory)
    for name, variable in named_variables(saved.encoder).items():
        assert np.array_equal(variable, named_variables(model)[name])
    assert "masked_lm/bias" in caplog.text
    assert isinstance(kb.load(directory, task="encoder"), kb.Encoder)


def test_options_replace_arguments(directory):
    model = kb.load(directory, labels=["no", "yes"], dropout=0.5)
    assert model.labels == ("no", "yes")
    assert model.dropout == 0.5


def test_weights_are_as_readable_as_the_rest(directory):
    modes = {path.name: path.stat().st_mode for path in directory.iterdir()}
    assert modes[WEIGHTS] == modes[CONFIGURATION]


def _weights(directory):
    return {name: np.asarray(v) for name, v in named_variables(kb.load(directory)).items()}


def _truncate(directory):
    data = (directory / WEIGHTS).read_bytes()
    (directory / WEIGHTS).write_bytes(data[: len(data) // 2])


def _without_a_tensor(directory):
    tensors = _weights(directory)
    del tensors["encoder/layer_1/output/bias"]
    save_tensors(tensors, directory / WEIGHTS)


def _wrong_shape(directory):
    tensors = _weights(directory)
    tensors["encoder/layer_1/output/bias"] = np.zeros(5, "float32")
    save_tensors(tensors, directory / WEIGHTS)


def _not_finite(directory):
    tensors = _weights(directory)
    tensors["encoder/layer_1/output/bias"] = np.full(24, np.nan, "float32")
    save_tensors(tensors, directory / WEIGHTS)


def _wrong_type(directory):
    tensors = _weights(directory)
    tensors["encoder/layer_1/output/bias"] = np.zeros(24, "int32")
    save_tensors(tensors, directory / WEIGHTS)


def _edit(**changes):
    def edit(directory):
        path = directory / CONFIGURATION
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncate, "not a readable safetensors file"),
        (_without_a_tensor, "lacks the tensor 'encoder/layer_1/output/bias'"),
        (_wrong_shape, r"'encoder/layer_1/output/bias' has shape \[5\].*needs \[24\]"),
        (_wrong_type, "'encoder/layer_1/output/bias' is int32"),
        (_not_finite, "'encoder/layer_1/output/bias' holds values that are not finite"),
        (lambda d: (d / WEIGHTS).unlink(), "weights.safetensors is missing"),
        (lambda d: (d / CONFIGURATION).write_text("{"), "not valid JSON"),
        (_edit(format_version=99), "format version 99"),
        (_edit(task="singing"), "unknown task 'singing'"),
        (_edit(encoder=None), "lacks 'encoder'"),
        (lambda d: (d / CONFIGURATION).unlink(), "not a model that can be opened here"),
    ],
)
def test_damage_is_named(directory, damage, message):
    damage(directory)
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(directory)


def test_saving_replaces_our_directory_and_no_other(directory, tmp_path):
    other = kb.SequenceClassifier(random_encoder(seed=5), 2)
    kb.save(other, directory)
    assert np.array_equal(kb.load(directory)(padded_batch()), other(padded_batch()))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("mine")
    with pytest.raises(kb.InputError, match="not empty and was not written by keras-bert"):
        kb.save(other, tmp_path / "foreign")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["foreign", "model"]  # no leftovers


def test_a_failing_save_leaves_the_earlier_model(directory, monkeypatch):
    before = (directory / WEIGHTS).read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keras_bert.checkpoints.files.save_file", full)
    with pytest.raises(kb.StorageError, match="No space left on device"):
        kb.save(kb.SequenceClassifier(random_encoder(seed=5), 2), directory)
    assert (directory / WEIGHTS).read_bytes() == before
    assert [p.name for p in directory.parent.iterdir()] == ["model"]
