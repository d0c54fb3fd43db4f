"""Files that a save keeps, replaces, or refuses to replace."""

import json
import shutil
import subprocess

import pytest

import keras_bert as kb
from keras_bert.checkpoints import FORMATS
from keras_bert.text.byte_pair.training import learn_byte_pair
from keras_bert.text.sentencepiece.training import learn_sentencepiece
from tests.finetuning import tiny
from tests.marks import others_slow
from tests.trees import FOREIGN, tree, write


def model_for(format):
    model = tiny.classifier({"activation": "gelu_tanh"})
    if format == "sentence-transformers":
        return kb.TextEmbedder(model.encoder, preprocessor=model.preprocessor)
    return model


@pytest.fixture(scope="module", params=others_slow(FORMATS, ("native", "huggingface")))
def saved(request, tmp_path_factory):
    """A format, and a directory with a model in it."""
    place = tmp_path_factory.mktemp("saved") / "model"
    kb.save(model_for(request.param), place, format=request.param)
    return request.param, place


@pytest.fixture
def place(saved, tmp_path):
    """A copy of that directory, with files of others."""
    shutil.copytree(saved[1], tmp_path / "model")
    write(tmp_path / "model", {**FOREIGN, "LICENSE": "mine", "pytorch_model.bin": "weights"})
    return tmp_path / "model"


def test_only_files_of_the_format_are_replaced(saved, place, caplog):
    format, fresh = saved
    before = tree(place)
    kb.save(model_for(format), place, format=format)
    after = tree(place)
    assert set(after) == set(before)
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= set(tree(fresh))
    assert f"{place}/pytorch_model.bin is kept, but does not hold the new weights." in caplog.text
    assert kb.load(place, task="encoder").preprocessor is not None


def test_files_of_the_earlier_tokenizer_go(saved, place):
    format, _ = saved
    model = model_for(format)
    model.preprocessor = None
    kb.save(model, place, format=format)
    assert kb.load(place, task="encoder").preprocessor is None
    assert (place / "LICENSE").read_text() == "mine"


@pytest.mark.parametrize("learn", [learn_byte_pair, learn_sentencepiece])
def test_a_tokenizer_of_another_kind_takes_over(learn, tmp_path):
    (tmp_path / "text.txt").write_text("a film was fine\nthe book was bad\n" * 20)
    tokenizer = learn(tmp_path / "text.txt", 275 if learn is learn_byte_pair else 30)
    for format in ("native", "huggingface"):
        kb.save(model_for(format), tmp_path / format, format=format)
        model = kb.Encoder(tiny.encoder().config.replace(vocabulary_size=300))
        model.preprocessor = kb.Preprocessor(tokenizer, 16)
        kb.save(model, tmp_path / format, format=format)
        assert type(kb.load(tmp_path / format).preprocessor.tokenizer) is type(tokenizer)
        assert not (tmp_path / format / "vocab.txt").exists()


REFUSED = {
    "no model at all": ({"thesis.txt": "mine"}, "is not empty and was not written by keras-bert"),
    "a file of a common name": ({"{marker}": "{}"}, "{marker} describes no model, so the files"),
    "damaged": ({"{marker}": "{"}, "{marker} describes no model"),
}
MARKERS = {"native": "keras_bert.json", "huggingface": "config.json"}
MARKERS |= {"google": "bert_config.json", "keras-hub": "metadata.json"}
MARKERS |= {"sentence-transformers": "modules.json"}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_told_apart_is_refused(saved, case, tmp_path):
    format, marker = saved[0], MARKERS[saved[0]]
    files, message = REFUSED[case]
    write(tmp_path / "place", {name.format(marker=marker): x for name, x in files.items()})
    write(tmp_path / "place", {".git/HEAD": "main"})
    before = tree(tmp_path)
    with pytest.raises(kb.InputError, match=message.replace("{marker}", marker)):
        kb.save(model_for(format), tmp_path / "place", format=format)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["other.ckpt.index", "adapter_config.json"])
def test_what_would_contradict_the_new_model_is_refused(saved, place, name):
    write(place, {name: "{}"})
    before = tree(place)
    with pytest.raises(kb.InputError, match=f"holds {name}, which would contradict the new model"):
        kb.save(model_for(saved[0]), place, format=saved[0])
    assert tree(place) == before


def test_models_of_two_formats_do_not_share_a_directory(saved, place):
    before = tree(place)
    for other in FORMATS:
        if other != saved[0]:
            with pytest.raises(kb.InputError, match=r"would contradict|was not written"):
                kb.save(model_for(other), place, format=other)
    assert tree(place) == before


def git(folder, *arguments):
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.com")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_clone_keeps_its_history(tmp_path):
    upstream, clone = tmp_path / "upstream", tmp_path / "clone"
    upstream.mkdir()
    git(upstream, "init", "--quiet")
    write(upstream, {"README.md": "# Empty\n", ".gitattributes": "*.safetensors filter=none\n"})
    git(upstream, "add", ".")
    git(upstream, "commit", "--quiet", "-m", "A new repository")
    git(tmp_path, "clone", "--quiet", "upstream", "clone")
    model = model_for("huggingface")
    kb.save(model, clone, format="huggingface")  # there was no model yet
    assert (clone / "README.md").read_text() == "# Empty\n"
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "-m", "First model")
    model.head.trainable_variables[0].assign_add([[1.0, 0.0]] * 16)
    kb.save(model, clone, format="huggingface")
    assert git(clone, "status", "--short").split() == ["M", "model.safetensors"]
    assert git(clone, "log", "--format=%s").splitlines() == ["First model", "A new repository"]
    git(clone, "fsck")
    config = json.loads((clone / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
