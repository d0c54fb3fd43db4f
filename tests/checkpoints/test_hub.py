"""Models by their names on the Hugging Face Hub: from a cache, without a network."""

import shutil
import sys

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants

import keras_bert as kb
from keras_bert.checkpoints.hub import download
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


def test_weights_of_tensorflow_are_fetched_only_without_safetensors(tmp_path, monkeypatch):
    """Most repositories have both, each of several hundred megabytes."""
    repository, fetched = tmp_path / "repository", tmp_path / "snapshot"
    repository.mkdir()
    for name in ("config.json", "model.safetensors", "tf_model.h5"):
        (repository / name).touch()

    def snapshot_download(name, allow_patterns):
        files = [path for pattern in allow_patterns for path in repository.glob(pattern)]
        for path in files:
            shutil.copy(path, fetched)
        return str(fetched)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    for expected in (["config.json", "model.safetensors"], ["config.json", "tf_model.h5"]):
        fetched.mkdir()
        download("someone/some-bert")
        assert sorted(path.name for path in fetched.iterdir()) == expected
        shutil.rmtree(fetched)
        (repository / "model.safetensors").unlink(missing_ok=True)


def test_a_folder_of_that_name_comes_first(cache, tmp_path, monkeypatch):
    kb.save(kb.load("someone/some-bert", task="encoder"), tmp_path / "someone" / "some-bert")
    monkeypatch.chdir(tmp_path)
    assert isinstance(kb.load("someone/some-bert"), kb.Encoder)


def test_what_is_nowhere_is_named(cache):
    with pytest.raises(
        kb.CheckpointError, match=r"else does not exist here\. It cannot be downloaded"
    ):
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
    with pytest.raises(kb.InputError, match=r'pip install -e "\.\[hub\]"'):
        kb.load("someone/some-bert")


def test_a_damaged_blob_is_named(cache):
    (cache / "blobs" / ("1" * 20)).write_bytes(np.arange(99).tobytes())
    with pytest.raises(kb.CheckpointError, match="not a readable safetensors file"):
        kb.load("someone/some-bert")
