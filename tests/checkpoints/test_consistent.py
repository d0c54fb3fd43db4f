"""A load while another process saves; the race itself is `python -m tests.checkpoints.race`."""

import os

import pytest

import keras_bert as kb
from keras_bert.checkpoints import directories, google, native, open_checkpoint
from keras_bert.checkpoints.huggingface import directory as huggingface
from tests.checkpoints.huggingface import check
from tests.checkpoints.race import is_of_one_save, make
from tests.checkpoints.test_tensorflow_classes import write

FORMATS = {"native": native, "huggingface": huggingface, "google": google}


@pytest.fixture(scope="module")
def models():
    return [make(number) for number in range(3)]


@pytest.fixture(params=FORMATS)
def format(request):
    return request.param


@pytest.fixture
def saved(models, format, tmp_path):
    kb.save(models[0], tmp_path / "model", format=format)
    return tmp_path / "model"


def number(model):
    assert is_of_one_save(model)
    return model.labels[0]


def at_each_reading(monkeypatch, format, action):
    """Has `action` done each time that a configuration has been read, with how often it was."""
    module, times = FORMATS[format], []
    original = module.read_json

    def read_json(*args):
        value = original(*args)
        times.append(1)
        action(len(times))
        return value

    monkeypatch.setattr(module, "read_json", read_json)


def test_a_save_between_configuration_and_weights(saved, format, models, monkeypatch):
    def save(times):
        if times < 3:
            kb.save(models[times], saved, format=format)

    at_each_reading(monkeypatch, format, save)
    assert number(kb.load(saved)) == "save2"


def test_a_save_between_opening_and_reading(saved, format, models):
    _, contents = open_checkpoint(saved)
    kb.save(models[1], saved, format=format)
    assert number(contents.load()) == "save0"
    assert number(kb.load(saved)) == "save1"


def test_weights_that_are_missing_for_a_moment(saved, format, monkeypatch):
    """As where another program removes a file before it writes it anew."""
    weights = [path for path in saved.iterdir() if path.suffix != ".json"]

    def move(times):
        for path in weights if times < 3 else ():
            aside = saved.parent / path.name
            path.rename(aside) if times == 1 else aside.rename(path)

    at_each_reading(monkeypatch, format, move)
    assert number(kb.load(saved)) == "save0"


@pytest.mark.parametrize("format", ["native"], indirect=True)
def test_saves_without_end(saved, format, monkeypatch):
    monkeypatch.setattr(directories, "_ATTEMPTS", 3)
    path = next(saved.glob("*.json"))
    at_each_reading(monkeypatch, format, lambda times: os.utime(path, (times, times)))
    with pytest.raises(kb.CheckpointError, match="model is replaced again and again while"):
        kb.load(saved)


def test_a_log_that_grows_does_not_count(saved, format, monkeypatch):
    monkeypatch.setattr(directories, "_ATTEMPTS", 1)
    log = saved / "train.log"
    at_each_reading(monkeypatch, format, lambda times: log.write_text("step\n" * times))
    assert number(kb.load(saved)) == "save0"


@pytest.mark.parametrize("format", ["native", "huggingface"], indirect=True)
def test_weights_that_are_written_where_they_are(saved, format):
    _, contents = open_checkpoint(saved)
    path = next(saved.glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(kb.CheckpointError, match="safetensors was changed while it was read"):
        contents.load()


def test_hdf5_that_is_replaced_between_opening_and_reading(tmp_path):
    directory = write("bert-masked-lm", "h5", tmp_path)
    _, contents = open_checkpoint(directory)
    (tmp_path / "other.h5").write_bytes(b"")
    (tmp_path / "other.h5").replace(directory / "tf_model.h5")
    check(contents.load(), "bert-masked-lm")
