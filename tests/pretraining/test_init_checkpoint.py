"""Runs that start from a model."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from keras_bert.errors import InputError
from keras_bert.optimizers.distributed import AdamW
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.resolve import encoder_config
from keras_bert.pretraining.training.checkpoints import take_snapshot, write_checkpoint
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.step import trainable_variables
from keras_bert.pretraining.training.trainer import pretrain
from keras_bert.tasks.fill_mask import fill_mask
from tests.pretraining import run

INPUTS = {
    "token_ids": np.arange(5, 17, dtype="int32").reshape(2, 6),
    "padding_mask": np.ones((2, 6), "int32"),
}


PRESETS = {
    "bert": "bert_tiny",
    "distilbert": "distilbert_base",
    "electra": "electra_small",
    "deberta-v2": "deberta_v3_xsmall",
}


@pytest.fixture(scope="module")
def make(text_files, tmp_path_factory):
    """Writes a model and returns it and its directory."""

    def make(task, *arguments, family="bert", format="native", vocabulary=True, **options):
        keras.utils.set_random_seed(1)
        words = kb.Vocabulary.from_file(text_files / "vocab.txt")
        preprocessor = kb.Preprocessor(kb.WordPiece(words, lowercase=False), 32)
        config = kb.EncoderConfig.preset(
            PRESETS[family],
            vocabulary_size=len(words),
            activation="gelu_tanh" if format == "google" else "gelu",
            **run.SMALL | ({"embedding_size": 8} if family == "electra" else {}),
        )
        model = task(kb.Encoder(config), *arguments, **options)
        model.preprocessor = preprocessor if vocabulary else None
        for weight in model.weights:  # biases and layer normalizations, too
            weight.assign_add(keras.random.normal(weight.shape, stddev=0.1, seed=2))
        path = tmp_path_factory.mktemp("models") / "model"
        kb.save(model, path, format=format)
        return model, path

    return make


def options(path, text_files, tmp_path, **changes):
    values = {"corpus": str(text_files / "corpus.txt"), "output": str(tmp_path / "run")}
    values |= {"init_checkpoint": str(path), "steps": 2, "sequence_length": 16}
    return run.make_config(values | changes)


def built(config):
    """The model that a run would train."""
    preprocessor = make_preprocessor(config)
    encoder = encoder_config(config, len(preprocessor.vocabulary))
    return OBJECTIVES[config.objective.name].model(encoder, config, preprocessor, None)


def assert_holds(model, other, beginning=""):
    """Asserts that the model has the other's weights whose names start with `beginning`."""
    ours, theirs = named_variables(model), named_variables(other)
    names = [name for name in theirs if name.startswith(beginning)]
    assert names
    for name in names:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.parametrize("format", ["native", "huggingface", "google"])
def test_any_checkpoint(format, make, text_files, tmp_path):
    model, path = make(kb.PretrainingModel, format=format)
    config = options(path, text_files, tmp_path)
    assert (config.model.family, config.objective.name) == ("bert", "mlm+nsp")
    assert_holds(built(config), model)
    tokenizer = make_preprocessor(config).tokenizer
    assert not tokenizer.lowercase  # which the file of the vocabulary does not say
    masked = options(path, text_files, tmp_path, objective="mlm", encoder={"hidden_dropout": 0.0})
    assert built(masked).config.hidden_dropout == 0
    assert_holds(model, built(masked))


def test_texts_keep_the_separators_of_the_checkpoint(make, text_files, tmp_path):
    model, path = make(kb.MaskedLanguageModel)
    tokenizer = model.preprocessor.tokenizer
    form = {"separators_in_pair": 2, "separator_at_end": False, "num_segments": 1}
    model.preprocessor = kb.Preprocessor(tokenizer, 32, **form)
    kb.save(model, path)
    config = options(path, text_files, tmp_path)
    preprocessor = make_preprocessor(config)
    assert {name: getattr(preprocessor, name) for name in form} == form
    (x, *_), *_ = make_examples(config, preprocessor)[0].examples.dataset(4)
    ends = np.sum(x["padding_mask"], axis=1) - 1
    lasts = np.take_along_axis(x["token_ids"].numpy(), ends[:, None], 1)
    assert preprocessor.vocabulary.separator_id not in lasts


def test_a_head_that_is_missing_is_new(make, text_files, tmp_path, caplog):
    model, path = make(kb.SequenceClassifier, 2)
    started = built(options(path, text_files, tmp_path, objective="mlm"))
    assert_holds(started, model, "encoder/layer_")
    lines = [r.getMessage() for r in caplog.records if "initialized at random" in r.getMessage()]
    assert len(lines) == 1
    assert "masked_lm/bias" in lines[0]


def test_without_a_pooler_only_tokens_are_guessed(make, text_files, tmp_path):
    model, path = make(kb.MaskedLanguageModel, format="huggingface")
    config = options(path, text_files, tmp_path)
    assert config.objective.name == "mlm"
    assert_holds(model, built(config))
    with pytest.raises(InputError, match="compares two texts with the pooler"):
        built(options(path, text_files, tmp_path, objective="mlm+nsp"))


def test_without_a_teacher_only_tokens_are_guessed(make, text_files, tmp_path):
    model, path = make(kb.MaskedLanguageModel, family="distilbert", format="huggingface")
    config = options(path, text_files, tmp_path)
    assert (config.model.family, config.objective.name) == ("distilbert", "mlm")
    assert_holds(model, built(config))


@pytest.mark.parametrize("family", ["electra", "deberta-v2"])
def test_a_detector_goes_on(family, make, text_files, tmp_path, caplog):
    model, path = make(kb.ReplacedTokenDetector, family=family, context=family == "deberta-v2")
    config = options(path, text_files, tmp_path)
    assert OBJECTIVES[config.objective.name].samples
    started = built(config)
    np.testing.assert_allclose(started.detector(INPUTS), model(INPUTS), atol=1e-6)
    np.testing.assert_allclose(started.final_model()(INPUTS), model(INPUTS), atol=1e-6)
    assert_holds(started.final_model(), model)
    table = started.generator.encoder.embeddings.token_embedding
    np.testing.assert_array_equal(table, model.encoder.embeddings.token_embedding)
    assert "generator" in caplog.text


@pytest.mark.parametrize("family", ["electra", "deberta-v2"])
def test_a_generator_goes_on_from_the_checkpoint_of_a_run(family, make, text_files, tmp_path):
    _, path = make(kb.ReplacedTokenDetector, family=family, context=family == "deberta-v2")
    trained = built(options(path, text_files, tmp_path))
    for weight in trained.trainable_weights:
        weight.assign_add(keras.random.normal(weight.shape, stddev=0.1, seed=3))
    optimizer = AdamW(trainable_variables(trained), lambda step: 0.0)
    snapshot = take_snapshot(trained.final_model(), optimizer, {"step": 7})
    write_checkpoint(tmp_path, snapshot, keep=1)
    assert_holds(built(options(tmp_path / "step-00000007", text_files, tmp_path)), trained)


@pytest.mark.slow
def test_every_replica_starts_from_it(make, text_files, forks):
    for task, family in ((kb.PretrainingModel, "bert"), (kb.ReplacedTokenDetector, "electra")):
        _, path = make(task, family=family)
        command = [*forks.module("tests.pretraining.test_init_checkpoint"), path, text_files]
        subprocess.run(command, check=True, timeout=300)


def replicas(path, text_files):
    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
    started = built(options(path, text_files, path))
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        both = built(options(path, text_files, path))
    theirs = named_variables(kb.load(path))
    alone = named_variables(started)
    for name, variable in named_variables(both).items():
        copies = [copy.numpy() for copy in variable.value.values]
        assert len(copies) == 2
        np.testing.assert_array_equal(*copies, err_msg=name)
        assert copies[0].shape == tuple(alone[name].shape)
        if name in theirs:
            np.testing.assert_array_equal(copies[0], theirs.pop(name), err_msg=name)
    assert not theirs


def test_a_second_phase_begins_where_the_first_ended(text_files, tmp_path):
    first = pretrain(run.config(text_files, tmp_path / "first", steps=4), progress=False)
    changes = {"steps": 1, "init_checkpoint": first["model"], "encoder": {}, "learning_rate": 1e-3}
    config = run.config(text_files, tmp_path / "second", **changes)
    second = pretrain(config, progress=False)
    for name, value in first["after"].items():
        if name.endswith(("loss", "accuracy")):
            assert second["before"][name] == pytest.approx(value, rel=1e-5)


def test_what_does_not_go_together(make, text_files, tmp_path):
    _, path = make(kb.PretrainingModel)

    def refused(match, **changes):
        with pytest.raises(InputError, match=match):
            built(options(changes.pop("path", path), text_files, tmp_path, **changes))

    refused("set model.preset to null", preset="bert_tiny")
    refused("set objective.teacher to null", teacher=str(path))
    refused("is of the family 'bert'", family="roberta")
    refused("nowhere", path=tmp_path / "nowhere")
    refused(r"sequence_length is 64.*32 positions; lower it\.$", sequence_length=64)
    refused("shape", encoder={"hidden_size": 32, "embedding_size": 32})
    other = tmp_path / "vocab.txt"
    words = (text_files / "vocab.txt").read_text()
    other.write_text(words.replace("moon", "star"))
    refused("another vocabulary.*leave data.vocabulary out", vocabulary=str(other))
    other.write_text(words + "star\n")
    _, bare = make(kb.PretrainingModel, vocabulary=False)
    refused(
        r"no vocabulary, and its token embedding has rows for \d+ tokens",
        path=bare,
        vocabulary=str(other),
    )
    assert options(bare, text_files, tmp_path, vocabulary=str(text_files / "vocab.txt"))
    refused("no tokenizer", path=bare)


def test_rows_beyond_the_vocabulary_are_no_trouble(text_files, tmp_path):
    """Neither when masks are filled nor when the training goes on."""
    words = kb.Vocabulary.from_file(text_files / "vocab.txt")
    config = run.config(text_files, tmp_path / "run", steps=1, vocabulary_size_multiple=64)
    preprocessor, sizes = make_preprocessor(config), config.model.encoder
    encoder = encoder_config(config, len(words))
    assert (len(words), encoder.vocabulary_size) == (20, 64)
    model = OBJECTIVES["mlm"].model(encoder, config, preprocessor, None)
    model.head.bias.assign(np.arange(64.0))  # the rows beyond are the likeliest
    kb.save(model, tmp_path / "model")
    ((filled,),) = fill_mask(kb.load(tmp_path / "model"), ["sun [MASK]"], top_k=20)
    assert {guess["token"] for guess in filled} == set(words.tokens)
    again = options(tmp_path / "model", text_files, tmp_path)
    assert encoder_config(again, len(words)).vocabulary_size == 64
    with pytest.raises(InputError, match="the vocabulary has 65 tokens, .* another checkpoint"):
        encoder_config(again, 65)
    assert_holds(built(again), model)
    config = run.config(
        text_files, tmp_path / "run", family="electra", vocabulary_size_multiple=64, encoder=sizes
    )
    encoder = encoder_config(config, len(words))
    generating = OBJECTIVES["rtd"].model(encoder, config, preprocessor, None)
    generating.generator.head.bias.assign(np.arange(64.0))
    noise = np.full((2, 3), 1 - 1e-7, "float32")
    positions = np.tile(np.arange(1, 4, dtype="int32"), (2, 1))
    inputs = INPUTS | {"original_ids": 0 * INPUTS["token_ids"], "noise": noise}
    drawn = {}
    generating.detector = lambda inputs, training: drawn.update(inputs)
    generating({**inputs, "masked_positions": positions})
    assert drawn["token_ids"].numpy().max() == 19  # nor when a generator draws them


if __name__ == "__main__":
    replicas(*map(Path, sys.argv[1:]))
