import pytest

from keras_bert.errors import InputError
from keras_bert.pretraining.config import PretrainingConfig

NEEDED = {"corpus": "text/*.txt", "vocabulary": "vocab.txt", "output": "run", "steps": 10}


def test_yaml_and_overrides(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("corpus: a.txt\nvocabulary: v\noutput: o\nsteps: 5\nlearning_rate: 1e-4\n")
    config = PretrainingConfig.from_yaml(
        path, ["corpus=[b.txt, c.txt]", "encoder.num_layers=3", "steps=null", "epochs=2"]
    )
    assert config.corpus == ("b.txt", "c.txt")
    assert config.encoder == {"num_layers": 3}
    assert (config.steps, config.epochs, config.learning_rate) == (None, 2.0, 1e-4)
    assert PretrainingConfig.from_dict(config.to_dict()) == config


def test_what_yaml_reads_as_something_else(tmp_path):
    """A glob begins as a reference does; a number without a point is text."""
    path = tmp_path / "run.yaml"
    path.write_text("vocabulary: v\noutput: o\nsteps: 5\nencoder: {initializer_range: 1e-2}\n")
    config = PretrainingConfig.from_yaml(path, ["corpus=*.txt", "encoder.layer_norm_epsilon=1e-7"])
    assert config.corpus == ("*.txt",)
    encoder = config.encoder_config(1000)
    assert (encoder.layer_norm_epsilon, encoder.initializer_range) == (1e-7, 1e-2)
    with pytest.raises(InputError, match="layer_norm_epsilon is 'tiny', but must be a number"):
        PretrainingConfig.from_yaml(path, ["corpus=a", "encoder.layer_norm_epsilon=tiny"])


def test_the_encoder(tmp_path):
    config = PretrainingConfig.from_dict({**NEEDED, "encoder": {"num_layers": 3}})
    encoder = config.encoder_config(1000)
    assert (encoder.vocabulary_size, encoder.num_layers, encoder.hidden_size) == (1000, 3, 256)
    small = PretrainingConfig.from_dict({**NEEDED, "encoder": {"vocabulary_size": 10}})
    with pytest.raises(InputError, match="1000 tokens"):
        small.encoder_config(1000)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"batchsize": 3}, "no option 'batchsize'.*'batch_size'"),
        ({"batch_size": 0}, "batch_size is 0, but must be 1 or more"),
        ({"batch_size": "many"}, "batch_size is 'many', but must be a whole number"),
        ({"batch_size": True}, "whole number"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast', but must be a number"),
        ({"lowercase": 1}, "true or false"),
        ({"objective": "nsp"}, "objective is 'nsp'"),
        ({"masking": "words"}, "'word'"),
        ({"strategy": "mirored"}, "'mirrored'"),
        ({"precision": "float16"}, "mixed_bfloat16, mixed_float16"),
        ({"optimizer": "lam"}, "Did you mean 'lamb'"),
        ({"decay": "cosin"}, "Did you mean 'cosine'"),
        ({"beta_2": 1}, "beta_2 is 1.0, but must be from 0 to below 1"),
        ({"epsilon": 0}, "epsilon is 0.0, but must be positive"),
        ({"warmup_steps": 5, "warmup_share": 0.1}, "either warmup_steps or warmup_share"),
        ({"final_learning_rate": 1}, "final_learning_rate 1.0 is more than learning_rate"),
        (
            {"final_learning_rate": 1e-5, "decay": "constant"},
            "final_learning_rate 1e-05 is never reached with decay constant",
        ),
        ({"vocabulary_size_multiple": 0}, "vocabulary_size_multiple is 0, but must be 1 or more"),
        ({"epochs": 2}, "either steps or epochs"),
        ({"steps": None}, "either steps or epochs"),
        ({"corpus": []}, "corpus is empty"),
        ({"corpus": 5}, "a file name or a list"),
        ({"accumulation": 5}, "cannot be divided into 5 parts"),
        ({"first_batch_size": 8}, "first_batch_size and batch_ramp_steps belong together"),
        ({"first_batch_size": 12, "batch_ramp_steps": 9}, "12 does not become batch_size 32 by"),
        ({"first_batch_size": 64, "batch_ramp_steps": 9}, "64 does not become batch_size 32 by"),
        (
            {"first_batch_size": 4, "batch_ramp_steps": 9, "accumulation": 8},
            "first_batch_size 4 cannot be divided into 8 parts",
        ),
        ({"peak_teraflops": 0}, "peak_teraflops is 0.0, but must be positive, or null"),
        ({"masking_rate": 1}, "masking_rate is 1.0, but"),
        ({"encoder": [1]}, "a mapping of options"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_values(change, match):
    with pytest.raises(InputError, match=match):
        PretrainingConfig.from_dict(NEEDED | change)


def test_missing_options():
    with pytest.raises(InputError, match="needs these options: vocabulary, output"):
        PretrainingConfig.from_dict({"corpus": "a"})


@pytest.mark.parametrize("text", ["- a\n", "a: [", "\x00", "just text"])
def test_bad_yaml(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"run\.yaml"):
        PretrainingConfig.from_yaml(path)


@pytest.mark.parametrize("override", ["steps", "=5", "decoder.layers=3", "steps=[", "stepz=3"])
def test_bad_overrides(tmp_path, override):
    path = tmp_path / "run.yaml"
    path.write_text("corpus: a.txt\nvocabulary: v\noutput: o\nsteps: 5\n")
    with pytest.raises(InputError):
        PretrainingConfig.from_yaml(path, [override])


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        PretrainingConfig.from_yaml(tmp_path / "nowhere.yaml")
