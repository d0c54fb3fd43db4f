import pytest

from keras_bert.errors import InputError
from keras_bert.optimizers.update_rules import BETA_1, BETA_2, EPSILON
from keras_bert.options import set_option
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.recipes import read_config
from keras_bert.pretraining.resolve import encoder_config, resolve
from tests.pretraining.run import grouped, make_config

NEEDED = {"corpus": "text/*.txt", "vocabulary": "vocab.txt", "output": "run", "steps": 10}


def test_yaml_and_overrides(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "data: {corpus: a.txt, vocabulary: v}\noutput: o\n"
        "schedule: {steps: 5}\noptimizer: {learning_rate: 1e-4}\n"
    )
    config = read_config(
        path,
        [
            "data.corpus=[b.txt, c.txt]",
            "model.encoder.num_layers=3",
            "schedule.steps=null",
            "schedule.epochs=2",
        ],
    )
    assert config.data.corpus == ("b.txt", "c.txt")
    assert config.model.encoder == {"num_layers": 3}
    assert (config.schedule.steps, config.schedule.epochs, config.optimizer.learning_rate) == (
        None,
        2.0,
        1e-4,
    )
    assert PretrainingConfig.from_dict(config.to_dict()) == config


def test_what_yaml_reads_as_something_else(tmp_path):
    """A glob begins as a reference does; a number without a point is text."""
    path = tmp_path / "run.yaml"
    path.write_text(
        "output: o\nschedule: {steps: 5}\nmodel: {encoder: {initializer_range: 1e-2}}\n"
    )
    config = read_config(
        path, ["data.corpus=*.txt", "data.vocabulary=v", "model.encoder.layer_norm_epsilon=1e-7"]
    )
    assert config.data.corpus == ("*.txt",)
    encoder = encoder_config(resolve(config), 1000)
    assert (encoder.layer_norm_epsilon, encoder.initializer_range) == (1e-7, 1e-2)
    given = ["data.corpus=a", "data.vocabulary=v", "model.encoder.layer_norm_epsilon=tiny"]
    config = resolve(read_config(path, given))
    with pytest.raises(InputError, match="layer_norm_epsilon is 'tiny', but must be a number"):
        encoder_config(config, 1000)


def test_the_encoder(tmp_path):
    config = make_config({**NEEDED, "encoder": {"num_layers": 3}})
    encoder = encoder_config(resolve(config), 1000)
    assert (encoder.vocabulary_size, encoder.num_layers, encoder.hidden_size) == (1000, 3, 256)
    small = make_config({**NEEDED, "encoder": {"vocabulary_size": 10}})
    with pytest.raises(InputError, match="1000 tokens"):
        encoder_config(small, 1000)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"batchsize": 3}, "no option batchsize; did you mean schedule.batch_size"),
        ({"batch_size": 0}, "batch_size is 0, but must be 1 or more"),
        ({"batch_size": "many"}, "batch_size is 'many', but must be a whole number"),
        ({"batch_size": True}, "whole number"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast', but must be a number"),
        ({"lowercase": 1}, "true or false"),
        ({"objective": "nsp"}, "objective.name is 'nsp'"),
        ({"masking": "words"}, "'word'"),
        ({"strategy": "mirored"}, "'mirrored'"),
        ({"precision": "float16"}, "mixed_bfloat16, mixed_float16"),
        ({"precision": "auto", "strategy": "multi_worker"}, "workers could choose different"),
        ({"optimizer": "lam"}, "Did you mean 'lamb'"),
        ({"lr_schedule": "cosin"}, "Did you mean 'cosine'"),
        ({"beta_2": 1}, "beta_2 is 1, but must be from 0 to below 1"),
        ({"epsilon": 0}, "epsilon is 0, but must be positive"),
        (
            {"warmup_steps": 5, "warmup_ratio": 0.1},
            "either schedule.warmup_steps or schedule.warmup_ratio",
        ),
        (
            {"final_learning_rate": 1},
            "final_learning_rate is 1.0, but must be at most optimizer.learning_rate",
        ),
        (
            {"final_learning_rate": 1e-5, "lr_schedule": "constant"},
            "final_learning_rate is 1e-05, but a constant schedule.lr_schedule never",
        ),
        (
            {"decay_ratio": 0.1, "lr_schedule": "constant"},
            "decay_ratio is 0.1, but a constant schedule.lr_schedule never falls",
        ),
        ({"decay_ratio": 0.6, "warmup_ratio": 0.5}, "takes 0.5 of the steps and .*is 0.6, but"),
        ({"decay_ratio": 0.6, "warmup_steps": 5}, "takes 0.5 of the steps and schedule.decay_rati"),
        ({"decay_ratio": 1.5}, "decay_ratio is 1.5, but must be from 0 to 1"),
        ({"vocabulary_size_multiple": 0}, "vocabulary_size_multiple is 0, but must be 1 or more"),
        ({"epochs": 2}, "either schedule.steps or schedule.epochs"),
        ({"steps": None}, "either schedule.steps or schedule.epochs"),
        ({"corpus": []}, "corpus is empty"),
        ({"corpus": 5}, "a file name or a list"),
        ({"gradient_accumulation_steps": 5}, "cannot be divided into 5 micro-batches"),
        ({"first_batch_size": 8}, "first_batch_size and schedule.batch_ramp_steps belong together"),
        (
            {"first_batch_size": 12, "batch_ramp_steps": 9},
            "12, but doubling it never gives schedule.batch_size, which is 32",
        ),
        (
            {"first_batch_size": 64, "batch_ramp_steps": 9},
            "64, but doubling it never gives schedule.batch_size, which is 32",
        ),
        (
            {"first_batch_size": 4, "batch_ramp_steps": 9, "gradient_accumulation_steps": 8},
            "first_batch_size is 4, which cannot be divided into 8 micro-batches",
        ),
        ({"peak_teraflops": 0}, "peak_teraflops is 0, but must be positive, or null"),
        ({"masking_rate": 1}, "masking_rate is 1, but"),
        ({"encoder": [1]}, "a mapping of options"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_values(change, match):
    with pytest.raises(InputError, match=match):
        make_config(NEEDED | change)


def test_missing_options():
    with pytest.raises(InputError, match="These options are needed: output, data.corpus"):
        PretrainingConfig.from_dict({"schedule": {"steps": 5}})


@pytest.mark.parametrize("text", ["- a\n", "a: [", "\x00", "just text"])
def test_bad_yaml(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"run\.yaml"):
        read_config(path)


@pytest.mark.parametrize(
    "override",
    ["schedule.steps", "=5", "decoder.layers=3", "schedule.steps=[", "stepz=3", "output.steps=3"],
)
def test_bad_overrides(tmp_path, override):
    path = tmp_path / "run.yaml"
    path.write_text("data: {corpus: a.txt, vocabulary: v}\noutput: o\nschedule: {steps: 5}\n")
    with pytest.raises(InputError):
        read_config(path, [override])


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        read_config(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("learning_rate", "optimizer.learning_rate"),
        ("accumulation", "devices.gradient_accumulation_steps"),
        ("clip_norm", "optimizer.global_clipnorm"),
        ("jit", "devices.jit_compile"),
        ("objective.masking", "data.masking"),
        ("schedule.stepz", "schedule.steps"),
    ],
)
def test_an_unknown_option_is_told_the_closest(name, right):
    values = grouped(NEEDED)
    set_option(values, name, 1)
    with pytest.raises(InputError) as error:
        PretrainingConfig.from_dict(values)
    assert str(error.value) == f"There is no option {name}; did you mean {right}?"


def test_a_group_is_no_option():
    with pytest.raises(InputError, match="optimizer is 'lamb', but is a group of options: optim"):
        PretrainingConfig.from_dict(grouped(NEEDED) | {"optimizer": "lamb"})


def test_a_configuration_changes_nothing_that_it_was_given():
    values = grouped(NEEDED | {"encoder": {"num_layers": 3}})
    before = str(values)
    config = PretrainingConfig(**values)
    resolved = resolve(config)
    assert (str(values), config.model.family, config.objective.name) == (before, "", "")
    assert (resolved.model.family, resolved.objective.name) == ("bert", "mlm+nsp")
    assert resolve(resolved) == resolved
    with pytest.raises(InputError, match="data.vocabulary"):
        make_config({name: NEEDED[name] for name in NEEDED if name != "vocabulary"})


def test_defaults_of_a_family():
    def rows(**options):
        data = make_config(NEEDED | options).data
        return data.masking_rate, data.packed, data.across_documents

    assert rows() == (0.15, False, False)
    assert rows(family="modernbert") == (0.3, True, False)
    assert rows(family="modernbert", across_documents=True) == (0.3, False, True)
    assert rows(family="modernbert", packed=False, masking_rate=0.2) == (0.2, False, False)


def test_moments_are_as_published():
    optimizer = make_config(NEEDED).optimizer
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (BETA_1, BETA_2, EPSILON)
