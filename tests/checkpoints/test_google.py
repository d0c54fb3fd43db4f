"""Google's TF1 checkpoints and TF Model Garden's names."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.checkpoints.google import WEIGHTS
from keras_bert.checkpoints.variables import named_variables
from tests.layers.test_encoder import padded_batch, random_encoder

VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnopqrstuvwxyz0123456789.,!?:;-()",
)


def google_encoder(**changes):
    return random_encoder(**{"activation": "gelu_tanh"} | changes)


def randomised(model, seed=3):
    generator = np.random.default_rng(seed)
    for variable in model.weights:
        variable.assign(generator.normal(0.0, 0.5, variable.shape))
    return model


def tensors_of(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def write(tensors, prefix):
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def leaves(outputs):
    return [np.asarray(value) for value in tf.nest.flatten(outputs)]


TASKS = {
    "encoder": lambda e: e,
    "pretraining": kb.PretrainingModel,
    "masked lm": kb.MaskedLanguageModel,
    "next sentence": kb.NextSentencePredictor,
    "classifier": lambda e: kb.SequenceClassifier(e, labels=["no", "maybe", "yes"], dropout=0.3),
    "multi label": lambda e: kb.SequenceClassifier(e, 2, problem_type="multi_label"),
    "span_classifier": kb.SpanClassifier,
}


@pytest.mark.parametrize("make", TASKS.values(), ids=TASKS)
def test_round_trip_is_bit_identical(make, tmp_path, caplog):
    model, inputs = randomised(make(google_encoder())), padded_batch()
    kb.save(model, tmp_path / "google", format="google")
    loaded = kb.load(tmp_path / "google")
    assert not caplog.records
    assert type(loaded) is type(model)
    for one, two in zip(leaves(model(inputs)), leaves(loaded(inputs)), strict=True):
        assert np.array_equal(one, two)
    rate = loaded.config.classifier_dropout  # the head's own, of which the file has one
    assert loaded.config == model.config.replace(classifier_dropout=rate)
    for argument in ("labels", "dropout", "problem_type"):
        assert loaded.get_config().get(argument) == model.get_config().get(argument)
    kb.save(loaded, tmp_path / "again", format="google")
    before, after = (tensors_of(tmp_path / d / WEIGHTS) for d in ("google", "again"))
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_what_the_optimizer_kept_is_passed_over(tmp_path, caplog):
    model = randomised(kb.PretrainingModel(google_encoder()))
    kb.save(model, tmp_path, format="google")
    tensors = tensors_of(tmp_path / WEIGHTS)
    averages = {f"{n}/{s}": x for n, x in tensors.items() for s in ("adam_m", "adam_v")}
    write(tensors | averages | {"global_step": np.array(9, "int64")}, tmp_path / WEIGHTS)
    loaded = kb.load(tmp_path / WEIGHTS)  # the prefix of the files will do, too
    assert not caplog.records
    for name, variable in named_variables(loaded).items():
        assert np.array_equal(variable, named_variables(model)[name])


def test_names_and_layouts_are_googles(tmp_path):
    model = randomised(kb.PretrainingModel(google_encoder()))
    kb.save(model, tmp_path / "google", format="google")
    tensors = tensors_of(tmp_path / "google" / WEIGHTS)
    assert tensors["bert/encoder/layer_2/intermediate/dense/kernel"].shape == (24, 40)
    assert tensors["bert/embeddings/LayerNorm/gamma"].shape == (24,)
    assert tensors["cls/predictions/output_bias"].shape == (50,)
    weights = tensors["cls/seq_relationship/output_weights"]
    assert np.array_equal(weights, np.transpose(model.next_sentence.logits.kernel))
    assert len(tensors) == len(model.weights)
    values = json.loads((tmp_path / "google" / "bert_config.json").read_text())
    assert values["hidden_act"] == "gelu"
    assert "layer_norm_eps" not in values


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: random_encoder(), "supports only 'gelu_tanh' or 'relu'"),
        (lambda: google_encoder(layer_norm_epsilon=1e-5), "its layer_norm_epsilon is 1e-05"),
        (lambda: google_encoder(embedding_size=10), "its embedding_size is 10"),
        (lambda: google_encoder(num_segments=0), "whose num_segments is 0"),
        (lambda: kb.MaskedLanguageModel(google_encoder(), tied=False), "its tied is False"),
        (lambda: kb.MaskedLanguageModel(google_encoder(), activation="relu"), "is 'relu'"),
        (lambda: kb.SequenceClassifier(google_encoder(), 2, pooling="mean"), "pooling is 'mean'"),
        (lambda: kb.TokenClassifier(google_encoder(), 2), "has no TokenClassifier"),
        (lambda: kb.MultipleChoice(google_encoder()), "has no MultipleChoice"),
    ],
)
def test_what_googles_code_cannot_express_is_refused(make, message, tmp_path):
    with pytest.raises(kb.InputError, match=message):
        kb.save(make(), tmp_path / "google", format="google")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lowercase", [True, False])
def test_text_format(lowercase, tmp_path):
    vocabulary = kb.Vocabulary(VOCABULARY if lowercase else (*VOCABULARY, "A"))
    encoder = google_encoder(vocabulary_size=len(vocabulary))
    encoder.preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary, lowercase=lowercase), 9)
    kb.save(encoder, tmp_path / "google", format="google")
    for told in (True, False):
        path = tmp_path / "google" / "bert_config.json"
        values = json.loads(path.read_text())
        assert values.pop("do_lower_case", lowercase) is lowercase
        if not told:  # as Google's own files
            path.write_text(json.dumps(values))
        loaded = kb.load(tmp_path / "google").preprocessor
        assert loaded.tokenizer.lowercase is lowercase
        assert loaded.sequence_length == 16
        texts = ["a A b!", ""]
        ours = encoder.preprocessor(texts)["token_ids"]
        assert np.array_equal(ours, loaded.with_length(9)(texts)["token_ids"])
    encoder.preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary, split_cjk=False), 9)
    with pytest.raises(kb.InputError, match="splits CJK"):
        kb.save(encoder, tmp_path / "other", format="google")


@pytest.mark.private_data
def test_genuine_file(shared_data, tmp_path, caplog):
    directory = shared_data / "weights" / "tf1-tiny"
    model = kb.load(directory)
    assert not caplog.records  # the optimizer's averages are not even mentioned
    assert isinstance(model, kb.PretrainingModel)
    assert (model.config.activation, model.config.num_layers) == ("gelu_tanh", 2)
    assert model.preprocessor.tokenizer.lowercase
    inputs = model.preprocessor.with_length(12)(["All work and no play makes Jack a dull boy"])
    assert np.array_equal(inputs["token_ids"][0], [2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 3])
    outputs = model(inputs)
    assert outputs["mlm_logits"].shape == (1, 12, 15)
    assert outputs["nsp_logits"].shape == (1, 2)
    kb.save(model, tmp_path / "google", format="google")
    before = tensors_of(directory / WEIGHTS)
    after = tensors_of(tmp_path / "google" / WEIGHTS)
    left_out = {n for n in before if n.endswith(("adam_m", "adam_v"))} | {"global_step"}
    assert set(after) == set(before) - left_out
    assert all(np.array_equal(before[name], after[name]) for name in after)
    kb.save(model, tmp_path / "native")
    reloaded = kb.load(directory / WEIGHTS, task="encoder")  # the prefix of the files will do, too
    for name, variable in named_variables(reloaded).items():
        assert np.array_equal(variable, named_variables(model)[name])


def test_the_last_step_counts(tmp_path):
    models = {step: randomised(google_encoder(), step) for step in (9, 100)}
    for step, model in models.items():
        kb.save(model, tmp_path / str(step), format="google")
        for path in (tmp_path / str(step)).glob("bert_model*"):
            name = path.name.replace("bert_model.ckpt", f"model.ckpt-{step}")
            shutil.copy(path, tmp_path / name)
        shutil.copy(tmp_path / str(step) / "bert_config.json", tmp_path)
    inputs = padded_batch()
    expected = models[100](inputs)["sequence_output"]
    assert np.array_equal(kb.load(tmp_path)(inputs)["sequence_output"], expected)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "bert_config.json").unlink(), "Cannot read .*bert_config.json"),
        (lambda d: (d / (WEIGHTS + ".index")).unlink(), "bert_model.ckpt.index is missing"),
        (lambda d: (d / (WEIGHTS + ".index")).write_bytes(b"nonsense"), "not a readable checkpo"),
        (lambda d: next(d.glob("*.data*")).unlink(), "bert_model.ckpt"),
        (lambda d: next(d.glob("*.data*")).write_bytes(b"1234" * 50), "cannot read"),
    ],
)
def test_damage_is_named(damage, message, tmp_path):
    kb.save(google_encoder(), tmp_path / "google", format="google")
    damage(tmp_path / "google")
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(tmp_path / "google")


def model_garden(model, new):
    """The model's weights as TF Model Garden calls them: its newer names, or those up to v2.3."""
    config, names = model.config, {}
    front = "encoder/" if new else "model/"
    embeddings = ("token_embedding", "position_embedding", "segment_embedding")
    for part, name in enumerate(embeddings):
        names[f"encoder/embeddings/{name}"] = f"{front}layer_with_weights-{part}/embeddings"
    for end in ("gamma", "beta"):
        names[f"encoder/embeddings/layer_norm/{end}"] = f"{front}layer_with_weights-3/{end}"
    parts = {
        "attention/query": "_attention_layer/_query_dense",
        "attention/key": "_attention_layer/_key_dense",
        "attention/value": "_attention_layer/_value_dense",
        "attention/output": "_attention_layer/_output_dense" if new else "_attention_output_dense",
        "attention_layer_norm": "_attention_layer_norm",
        "intermediate": "_intermediate_dense",
        "output": "_output_dense",
        "output_layer_norm": "_output_layer_norm",
    }
    for layer in range(config.num_layers):
        for ours, theirs in parts.items():
            for end in ("gamma", "beta") if "norm" in ours else ("kernel", "bias"):
                place = f"{front}layer_with_weights-{layer + 4}/{theirs}/{end}"
                names[f"encoder/layer_{layer}/{ours}/{end}"] = place
    for end in ("kernel", "bias"):
        last = f"{front}layer_with_weights-{config.num_layers + 4}"
        pooler = "next_sentence..pooler_dense" if new else last
        names[f"encoder/pooler/dense/{end}"] = f"{pooler}/{end}"
        names[f"masked_lm/transform/{end}"] = f"masked_lm/dense/{end}"
        names[f"next_sentence/logits/{end}"] = f"model/classification_heads/0/out_proj/{end}"
    names |= {f"masked_lm/layer_norm/{e}": f"masked_lm/layer_norm/{e}" for e in ("gamma", "beta")}
    names["masked_lm/bias"] = "masked_lm/output_bias.Sbias"
    if new:  # the shared table is saved where it is met first
        names["encoder/embeddings/token_embedding"] = "masked_lm/embedding_table"
    heads, hidden = (config.num_heads, config.head_size), config.hidden_size
    ending, tensors = "/.ATTRIBUTES/VARIABLE_VALUE", {"_CHECKPOINTABLE_OBJECT_GRAPH": np.array("")}
    for ours, variable in named_variables(model).items():
        array = np.asarray(variable)
        if "attention/output/kernel" in ours:
            array = array.reshape(*heads, hidden)
        elif "attention/" in ours and "output" not in ours:
            array = array.reshape(*array.shape[:-1], *heads)
        tensors[names[ours] + ending] = array
        slot = f"{names[ours]}/.OPTIMIZER_SLOT/optimizer/m{ending}"
        tensors[slot] = np.zeros_like(array)
    tensors["save_counter" + ending] = np.array(1, "int64")
    tensors["optimizer/iter" + ending] = np.array(1, "int64")
    return tensors


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("make", [lambda e: e, kb.PretrainingModel], ids=["encoder", "pretraining"])
def test_model_garden(make, new, tmp_path, caplog):
    model, inputs = randomised(make(google_encoder())), padded_batch()
    kb.save(model, tmp_path / "google", format="google")
    for path in (tmp_path / "google").glob("*ckpt*"):
        path.unlink()
    tensors = model_garden(model, new)
    write(tensors, tmp_path / "google" / WEIGHTS)
    loaded = kb.load(tmp_path / "google")
    assert not caplog.records
    assert type(loaded) is type(model)
    for one, two in zip(leaves(model(inputs)), leaves(loaded(inputs)), strict=True):
        assert np.array_equal(one, two)
    path = tmp_path / "google" / "bert_config.json"
    values = json.loads(path.read_text())
    for change, message in (
        ({"num_attention_heads": 3}, r"_query_dense/kernel' has shape \[24, 4, 6\], which"),
        ({"num_hidden_layers": 2}, "holds 3 encoder layers, but .* says 2"),
        ({"num_hidden_layers": 4}, "holds 3 encoder layers, but .* says 4"),
    ):
        path.write_text(json.dumps(values | change))
        with pytest.raises(kb.CheckpointError, match=message):
            kb.load(tmp_path / "google")
