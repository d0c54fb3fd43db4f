"""Models by their names on the Hugging Face Hub: from a cache, without a network."""

import sys

import numpy as np
import pytest
from huggingface_hub import constants

import keras_bert as kb
from tests.checkpoints.huggingface import FIXTURES, check

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache as huggingface_hub lays it out: blobs, and snapshots of links to them."""
    repository = tmp_path / "models--someone--some-bert"
    for folder in ("blobs", "refs", f"snapshots/{COMMIT}"):
        (repository / folder).mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    for number, name in enumerate(("config.json", "model.safetensors")):
        blob = repository / "blobs" / (str(number) * 20)
        blob.write_bytes((FIXTURES / "bert-pretraining" / name).read_bytes())
        (repository / "snapshots" / COMMIT / name).symlink_to(f"../../blobs/{blob.name}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return repository


def test_from_the_cache(cache):
    check(kb.load("someone/some-bert"), "bert-pretraining")
    encoder = kb.load("someone/some-bert", task="encoder")
    assert isinstance(encoder, kb.Encoder)


def test_a_folder_of_that_name_comes_first(cache, tmp_path, monkeypatch):
    kb.save(kb.load("someone/some-bert", task="encoder"), tmp_path / "someone" / "some-bert")
    monkeypatch.chdir(tmp_path)
    assert isinstance(kb.load("someone/some-bert"), kb.Encoder)


def test_what_is_nowhere_is_named(cache):
    with pytest.raises(kb.CheckpointError, match=r"someone/else does not exist here\. The Hugg"):
        kb.load("someone/else")
    for path in ("some-bert", "./someone/some-bert", "/someone/some-bert", "a/b/c", cache / "x"):
        with pytest.raises(kb.CheckpointError, match="does not exist; give the directory"):
            kb.load(path)


@pytest.mark.parametrize("wrong", ["run/modle", "runn/model", "./run/modle"])
def test_what_is_misspelt_is_guessed(cache, wrong, tmp_path, monkeypatch):
    (tmp_path / "run/model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kb.CheckpointError, match="Did you mean 'run/model'"):
        kb.load(wrong)


def test_without_huggingface_hub_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(kb.InputError, match=r'pip install "keras-bert-encoders\[hub\]"'):
        kb.load("someone/some-bert")


def test_a_damaged_blob_is_named(cache):
    (cache / "blobs" / ("1" * 20)).write_bytes(np.arange(99).tobytes())
    with pytest.raises(kb.CheckpointError, match="not a readable safetensors file"):
        kb.load("someone/some-bert")
