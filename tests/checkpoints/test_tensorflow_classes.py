"""Files of transformers' TensorFlow classes; see tests/fixtures/tensorflow_classes/make.py."""

import gzip
import json
import shutil

import h5py
import numpy as np
import pytest
from safetensors.numpy import save_file

import keras_bert as kb
from keras_bert.families import FAMILIES
from tests.checkpoints.huggingface import FIXTURES, QUICK, check, weights
from tests.marks import others_swept

NAMES = json.loads(
    gzip.decompress((FIXTURES.parent / "tensorflow_classes" / "names.json.gz").read_bytes())
)
FORMS = ("h5", "safetensors")
COMPARED = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "albert", "electra")
COMPARED += ("deberta", "deberta-v2")


def tensors(folder, form):
    """The tensors under the names and in the layout of the TensorFlow class."""
    ours = weights(FIXTURES / folder)
    return {
        theirs: np.ascontiguousarray(ours[name].T if theirs.endswith("/kernel:0") else ours[name])
        for theirs, name in NAMES[folder][form].items()
    }


def write(folder, form, tmp_path):
    """A directory as the TensorFlow class wrote it."""
    directory = tmp_path / "theirs"
    directory.mkdir()
    shutil.copy(FIXTURES / folder / "config.json", directory)
    values = tensors(folder, form)
    if form == "safetensors":
        save_file(values, directory / "model.safetensors", {"format": "tf"})
    else:
        write_h5(values, directory / "tf_model.h5")
    return directory


def write_h5(values, path):
    with h5py.File(path, "w") as file:
        for name, value in values.items():
            file[name] = value
            file[name.partition("/")[0]].attrs["weight_names"] = []  # says that it is a layer


# Each family has its own head of sequences.
SEQUENCES = [folder for folder in NAMES if folder.endswith("-sequence")]


@pytest.mark.parametrize("folder", others_swept(NAMES, quick=[*QUICK, *SEQUENCES]))
def test_equals_transformers(folder, tmp_path, caplog):
    check(kb.load(write(folder, "h5", tmp_path)), folder)
    assert not caplog.records  # nothing missing, nothing left over


@pytest.mark.parametrize("folder", [folder for folder in NAMES if "masked-lm" in folder])
def test_safetensors_equal_transformers(folder, tmp_path, caplog):
    check(kb.load(write(folder, "safetensors", tmp_path)), folder)
    assert not caplog.records


def test_safetensors_have_the_same_names():
    """The names are those in the groups of HDF5, so one test of all models is enough."""
    for forms in NAMES.values():
        inside = {name.split("/", 2)[2]: ours for name, ours in forms["h5"].items()}
        assert inside == forms["safetensors"]


def test_every_family_and_head_is_compared():
    """All heads of the families for which transformers had TensorFlow classes, but MPNet's."""
    assert {
        family.HUGGING_FACE_CLASS + head.ending
        for name, family in FAMILIES.items()
        if name in COMPARED
        for head in family.HUGGING_FACE_TASKS.values()
    } - {
        json.loads((FIXTURES / folder / "config.json").read_text())["architectures"][0]
        for folder in NAMES
    } == {"DebertaV2ForPreTraining"}  # transformers has no such class


@pytest.mark.private_data
@pytest.mark.parametrize("form", FORMS)
def test_as_transformers_wrote_it(form, shared_data):
    """Whole files and what TensorFlow computed with them."""
    examples = sorted((shared_data / "weights" / "tf-classes").glob("*.npz"))
    assert examples
    for path in examples:
        arrays = np.load(path)
        model = kb.load(path.with_name(f"{path.stem}-{form}"))
        inputs = {"token_ids": arrays["in_input_ids"], "padding_mask": arrays["in_attention_mask"]}
        if "in_token_type_ids" in arrays and model.config.num_segments:
            inputs["segment_ids"] = arrays["in_token_type_ids"]
        hidden = model.encoder(inputs)["sequence_output"]
        for expected, actual in (("logits", model(inputs)), ("last_hidden", hidden)):
            if f"out_{expected}" in arrays:
                np.testing.assert_allclose(actual, arrays[f"out_{expected}"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_shards(form, tmp_path):
    """Only the index has the class's name in front of each tensor's."""
    directory = write("bert-pretraining", form, tmp_path)
    end = "tf_model{}.h5" if form == "h5" else "model{}.safetensors"
    (directory / end.format("")).unlink()
    values, index = tensors("bert-pretraining", "safetensors"), {}
    for number, names in enumerate((sorted(values)[::2], sorted(values)[1::2]), start=1):
        shard = directory / end.format(f"-0000{number}-of-00002")
        if form == "h5":
            with h5py.File(shard, "w") as file:
                for name in names:
                    file[name] = values[name]
        else:
            save_file({name: values[name] for name in names}, shard, {"format": "tf"})
        index |= {f"tf_bert_for_pre_training/{name}": shard.name for name in names}
    (directory / (end.format("") + ".index.json")).write_text(json.dumps({"weight_map": index}))
    check(kb.load(directory), "bert-pretraining")
    shard.unlink()
    with pytest.raises(kb.CheckpointError, match=f"{shard.name} is missing"):
        kb.load(directory)


def test_fields_that_the_classes_do_not_read(tmp_path):
    for folder, field in (
        ("roberta-masked-lm", {"pad_token_id": 0}),
        ("bert-masked-lm", {"tie_word_embeddings": False}),
    ):
        (tmp_path / folder).mkdir()
        directory = write(folder, "h5", tmp_path / folder)
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | field))
        check(kb.load(directory), folder)


def test_safetensors_count_first_and_pickles_never(tmp_path):
    directory = write("bert-masked-lm", "h5", tmp_path)
    (directory / "pytorch_model.bin").write_bytes(b"")
    check(kb.load(directory), "bert-masked-lm")
    (directory / "tf_model.h5").write_bytes(b"")
    with pytest.raises(kb.CheckpointError, match="tf_model.h5 is not a readable HDF5 file"):
        kb.load(directory)
    shutil.copy(FIXTURES / "bert-masked-lm" / "model.safetensors", directory)
    check(kb.load(directory), "bert-masked-lm")


def _external(file, name, value):
    del file[name]
    file.create_dataset(name, value.shape, "f4", external=[("secret.txt", 0, h5py.h5f.UNLIMITED)])


def _linked(file, name, value):
    name = name.replace("embeddings", "encoder/layer_._0/output")
    del file[name]
    file[name] = h5py.ExternalLink("other.h5", "secret")


def _compressed(file, name, value):
    del file[name]
    file.create_dataset(name, value.shape, "f4", chunks=value.shape, compression="gzip")


def _otherwise(file, name, value):
    file[name.replace("bert/", "mlm___cls/", 1)][...] = value + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_external, "the tensor .* is compressed or stored in another file"),
        (_compressed, "the tensor .* is compressed or stored in another file"),
        (_linked, "lacks the tensor 'bert.encoder.layer.0.output.LayerNorm.weight'"),
        (_otherwise, "holds two values of the tensor 'bert/embeddings/LayerNorm/gamma:0'"),
    ],
)
def test_a_file_that_the_classes_did_not_write(change, message, tmp_path):
    directory = write("bert-masked-lm", "h5", tmp_path)
    name = "bert/tf_bert_for_masked_lm/bert/embeddings/LayerNorm/gamma:0"
    with h5py.File(directory / "tf_model.h5", "r+") as file:
        change(file, name, file[name][...])
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(directory)
