"""Files of `model.save` that are damaged, or were made to harm."""

import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.optimizers.keras_adamw import KerasAdamW
from keras_bert.optimizers.schedules import WarmupLinearDecay
from tests.finetuning import tiny


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    tiny.classifier().save(path)
    return path


def zipped_again(edit):
    def damage(path):
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        edit(parts)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, part in parts.items():
                archive.writestr(name, part)

    return damage


def _cut(path):
    path.write_bytes(path.read_bytes()[:5000])


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)


def _another_class(parts):
    parts["config.json"] = parts["config.json"].replace(b"SequenceClassifier", b"Stranger")


DAMAGES = {
    "cut": (_cut, "model.keras is damaged: File is not a zip file"),
    "empty": (lambda path: path.write_bytes(b""), "model.keras is damaged"),
    "text": (lambda path: path.write_text("a model"), "model.keras is damaged"),
    "one byte": (_flip, "Bad CRC-32 for file 'model.weights.h5'"),
    "no configuration": (
        zipped_again(lambda parts: parts.pop("config.json")),
        "no item named 'config.json'",
    ),
    "half a configuration": (
        zipped_again(lambda parts: parts.update({"config.json": b"{"})),
        "cannot be opened as a model of Keras",
    ),
    "no weights": (zipped_again(lambda parts: parts.pop("model.weights.h5")), "model.weights.h5"),
    "weights cut": (
        zipped_again(lambda parts: parts.update({"model.weights.h5": b"\x89HDF"})),
        "cannot be opened as a model of Keras",
    ),
    "another class": (zipped_again(_another_class), "Could not locate class 'Stranger'"),
    "a way out": (
        zipped_again(lambda parts: parts.update({"assets/../../../thing": b""})),
        "contains the path 'assets/../../../thing', which is outside",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_one_sentence(saved, tmp_path, damage, message):
    path = tmp_path / "model.keras"
    path.write_bytes(saved.read_bytes())
    damage(path)
    with pytest.raises(kb.CheckpointError, match=message) as refusal:
        kb.load(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["config.json", "model.weights.h5", "assets/more"])
def test_a_bomb_is_not_unpacked(saved, tmp_path, name):
    """Zeros of 200 MB in a file of 200 kB; Keras' own limit begins at 4 GiB."""
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(saved) as archive:
        parts = {entry: archive.read(entry) for entry in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in parts.keys() - {name}:
            archive.writestr(entry, parts[entry])
        with archive.open(name, "w") as member:
            for _ in range(200):
                member.write(bytes(2**20))
    tracemalloc.start()
    try:
        with pytest.raises(kb.CheckpointError, match=r"would be unpacked to 20\d,\d{3},\d{3}"):
            kb.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_what_is_whole_is_opened(saved, tmp_path):
    path = tmp_path / "model.keras"
    path.write_bytes(saved.read_bytes())
    texts = tiny.preprocessor()(["the film was good"])
    expected = kb.load(saved)(texts)
    zipped_again(lambda parts: None)(path)
    np.testing.assert_array_equal(kb.load(path)(texts), expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_another_process_opens_it(compiled, tmp_path):
    """Keras knows only the classes that are imported there."""
    model = tiny.classifier()
    if compiled:
        model.compile(KerasAdamW(WarmupLinearDecay(1e-3, 2, 10)), model.default_loss())
        model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    code = (
        "import sys, keras_bert as kb; model = kb.load(sys.argv[1]); "
        "print(type(model).__name__, type(getattr(model, 'optimizer', None)).__name__)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "model.keras")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    expected = f"SequenceClassifier {'KerasAdamW' if compiled else 'NoneType'}"
    assert done.stdout.strip() == expected, done.stderr
