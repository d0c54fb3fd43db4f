"""The recipes say what the papers say, and run."""

import tomllib
from pathlib import Path

import keras
import pytest

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.pretraining.recipes import read_config, read_options, recipes
from keras_bert.pretraining.resolve import encoder_config, resolve
from keras_bert.pretraining.training.trainer import pretrain
from tests.pretraining import run

SWEEP = pytest.mark.sweep

# Of the papers, by recipe: learning rate, batch, steps (or epochs), length, second beta, masks and,
# unless it starts from a model, layers, width, heads, embedding.
BERT_BASE, BERT_LARGE = (12, 768, 12, 768), (24, 1024, 16, 1024)
PAPERS = {
    "bert_base_phase1": (1e-4, 256, 900_000, 128, 0.999, 0.15, *BERT_BASE),
    "bert_base_phase2": (1e-5, 256, 100_000, 512, 0.999, 0.15),
    "bert_large_phase1": (1e-4, 256, 900_000, 128, 0.999, 0.15, *BERT_LARGE),
    "bert_large_phase2": (1e-5, 256, 100_000, 512, 0.999, 0.15),
    "bert_large_lamb_phase1": (6e-3, 2**16, 7038, 128, 0.999, 0.15, *BERT_LARGE),
    "bert_large_lamb_phase2": (4e-3, 2**15, 8599 - 7038, 512, 0.999, 0.15),
    "roberta_base": (6e-4, 8192, 500_000, 512, 0.98, 0.15, *BERT_BASE),
    "albert_base": (0.00176, 4096, 125_000, 512, 0.999, 0.15, 12, 768, 12, 128),
    "electra_small": (5e-4, 128, 1_000_000, 128, 0.999, 0.15, 12, 256, 4, 128),
    "electra_base": (2e-4, 256, 766_000, 512, 0.999, 0.15, *BERT_BASE),
    "distilbert": (5e-4, 4000, 3, 512, 0.98, 0.15),
    "deberta_v3_base": (6e-4, 8192, 500_000, 512, 0.98, 0.15, *BERT_BASE),
    "modernbert_base_phase1": (8e-4, 4608, 390_000, 1024, 0.98, 0.3, 22, 768, 12, 768),
    "modernbert_base_phase2": (3e-4, 576, 63_600, 8192, 0.98, 0.3),
    "fast_short": (1e-3, 64, 2000, 32, 0.98, 0.3, 4, 256, 4, 256),
    "fast": (1e-3, 32, 12_000, 128, 0.98, 0.3, 4, 256, 4, 256),
}
WARMUP = {  # steps, or a ratio of the run
    "bert_base_phase1": 10_000,
    "bert_large_phase1": 10_000,
    "bert_large_lamb_phase1": 0.2843,
    "bert_large_lamb_phase2": 0.128,
    "roberta_base": 24_000,
    "albert_base": 3125,
    "electra_small": 10_000,
    "electra_base": 10_000,
    "distilbert": 0.05,
    "deberta_v3_base": 10_000,
    "modernbert_base_phase1": 5086,
    "fast_short": 0.06,
    "fast": 0.06,
}
MODERN = ("modernbert_base_phase1", "modernbert_base_phase2")
SCHEDULES = dict(zip(MODERN, (("constant", None), ("one_minus_sqrt", 0.1667)), strict=True))
WEIGHT_DECAY = {"distilbert": 0.0, MODERN[0]: 1e-5 / 8e-4, MODERN[1]: 1e-5 / 3e-4}
CLIP_NORM = {"distilbert": 5.0, **dict.fromkeys(("roberta_base", *MODERN))}
OBJECTIVE = {
    "roberta_base": ("roberta", "mlm", "token", True),
    "albert_base": ("albert", "mlm+sop", "ngram", False),
    "electra_small": ("electra", "rtd", "token", False),
    "electra_base": ("electra", "rtd", "token", False),
    "distilbert": ("distilbert", "distillation", "token", False),
    "deberta_v3_base": ("deberta-v2", "rtd+gdes", "token", False),
    **dict.fromkeys(MODERN, ("modernbert", "mlm", "token", False)),
    "fast_short": ("bert", "mlm", "token", False),
    "fast": ("bert", "mlm", "token", False),
}
LAMB = ("albert_base", "bert_large_lamb_phase1", "bert_large_lamb_phase2")
OPTIMIZER = dict.fromkeys(LAMB, "lamb") | dict.fromkeys(MODERN, "stable_adamw")


FROM_A_MODEL = [name for name, values in PAPERS.items() if len(values) == 6]

SMALL = [f"model.encoder.{name}={value}" for name, value in run.SMALL.items()]
SHORT = [
    "data.sequence_length=32",
    "data.validation_ratio=0.1",
    "schedule.batch_size=16",
    "schedule.epochs=null",
    "schedule.steps=2",
]


@pytest.fixture(scope="module")
def models(text_files, tmp_path_factory):
    """Models of two layers to start from, or to learn from, by family."""
    keras.utils.set_random_seed(0)
    vocabulary = kb.Vocabulary.from_file(text_files / "vocab.txt")
    preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary), 32)
    small = run.SMALL | {"num_layers": 2, "vocabulary_size": len(vocabulary)}
    modern = kb.EncoderConfig.preset("modernbert_base", **small, rotary_base=1e4)
    encoders = {"bert": kb.EncoderConfig(**small), "modernbert": modern.replace(max_positions=8192)}
    tasks = {"bert": kb.PretrainingModel, "modernbert": kb.MaskedLanguageModel}
    paths = {}
    for family, encoder in encoders.items():
        paths[family] = tmp_path_factory.mktemp("models") / "model"
        kb.save(tasks[family](kb.Encoder(encoder), preprocessor=preprocessor), paths[family])
    return paths


def recipe(name, text_files, models, output, *overrides):
    given = {"data.corpus": text_files / "corpus.txt", "output": output}
    if name == "distilbert":
        given["objective.teacher"] = models["bert"]
    elif name in FROM_A_MODEL:
        given["model.init_checkpoint"] = models[OBJECTIVE.get(name, ("bert",))[0]]
    else:
        given["data.vocabulary"] = text_files / "vocab.txt"
    given = [f"{option}={value}" for option, value in given.items()]
    return resolve(read_config(name, [*given, *overrides]))


def test_every_recipe_is_in_the_table():
    assert recipes().keys() == PAPERS.keys()


@pytest.mark.parametrize("name", PAPERS)
def test_values_are_those_of_the_papers(name, text_files, models, tmp_path):
    read = recipe(name, text_files, models, tmp_path)
    rate, batch, length_of_run, length, beta_2, masks, *sizes = PAPERS[name]
    assert (read.optimizer.learning_rate, read.schedule.batch_size) == (rate, batch)
    assert (read.schedule.steps or read.schedule.epochs) == length_of_run
    assert (read.data.sequence_length, read.data.masking_rate) == (length, masks)
    optimizer, schedule = read.optimizer, read.schedule
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, beta_2, 1e-6)
    assert (schedule.lr_schedule, schedule.decay_ratio) == SCHEDULES.get(name, ("linear", None))
    assert (schedule.warmup_steps or schedule.warmup_ratio or 0) == WARMUP.get(name, 0)
    assert optimizer.weight_decay == pytest.approx(WEIGHT_DECAY.get(name, 0.01), rel=2e-3)
    assert optimizer.global_clipnorm == CLIP_NORM.get(name, 1.0)
    assert optimizer.name == OPTIMIZER.get(name, "adamw")
    data = read.data
    objective = (read.model.family, read.objective.name, data.masking, data.across_documents)
    assert objective == OBJECTIVE.get(name, ("bert", "mlm+nsp", "token", False))
    assert data.packed == name.startswith(("fast", "modern"))
    if sizes:
        encoder = encoder_config(read, 30522)
        assert [
            encoder.num_layers,
            encoder.hidden_size,
            encoder.num_heads,
            encoder.embedding_size,
        ] == sizes
        assert encoder.max_positions == (8192 if name in MODERN else 512)  # in the first phase, too
        assert encoder.vocabulary_size == (30528 if data.packed else 30522)
        assert encoder.attention_dropout == (0.0 if data.packed else 0.1)


def test_generators():
    small, base, deberta = (
        (read["objective"]["generator_size"], read["objective"]["generator_depth"])
        for read in map(read_options, ("electra_small", "electra_base", "deberta_v3_base"))
    )
    assert small == (1 / 4, 1)
    assert base == (pytest.approx(1 / 3, rel=1e-3), 1)
    assert deberta == (1, 1 / 2)


def test_fast_differs_from_fast_short_in_length_alone():
    short, long = read_options("fast_short"), read_options("fast")
    short, long = ({(g, n): v for g in o for n, v in o[g].items()} for o in (short, long))
    assert short.keys() == long.keys()
    assert {name for name in long if short[name] != long[name]} == {
        ("data", "sequence_length"),
        ("schedule", "batch_size"),
        ("schedule", "steps"),
    }
    dropouts = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "classifier_dropout": 0.1}
    assert long["model", "encoder"] == {"initializer_range": 0.04, **dropouts}


def test_both_phases_are_one_decay():
    first, second = (read_options(f"bert_base_phase{phase}") for phase in (1, 2))
    assert first["schedule"]["steps"] + second["schedule"]["steps"] == 1_000_000
    assert first["schedule"]["final_learning_rate"] == second["optimizer"]["learning_rate"]
    assert second["schedule"].get("final_learning_rate", 0) == 0


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("fast", "bert_large_lamb_phase2") else pytest.param(name, marks=SWEEP)
        for name in PAPERS
    ],
)
def test_two_steps(name, text_files, models, tmp_path):
    sizes = [] if name in FROM_A_MODEL else SMALL
    if name == "distilbert":
        sizes = ["data.sequence_length=32"]
    if name == MODERN[0]:
        sizes = [*SMALL, "schedule.first_batch_size=null", "schedule.batch_ramp_steps=null"]
    results = pretrain(
        recipe(name, text_files, models, tmp_path / "run", *SHORT, *sizes), progress=False
    )
    assert results["finished"]
    assert results["step"] == 2
    trained = kb.load(results["model"])
    assert trained.config.family == OBJECTIVE.get(name, ("bert",))[0]
    assert trained.preprocessor is not None


def test_the_second_phase_of_modernbert_sees_farther(text_files, models, tmp_path):
    """Its global layers have another base, and all weights are those of the first phase."""
    read = recipe(MODERN[1], text_files, models, tmp_path)
    encoder = encoder_config(read, 20)
    assert (encoder.rotary_base, encoder.local_rotary_base) == (160_000, 10_000)
    assert [encoder.has_window(layer) for layer in range(4)] == [False, True, True, False]
    longer = ["data.sequence_length=16384"]
    with pytest.raises(InputError, match="8192 positions; lower it, or raise model.encoder.max_po"):
        encoder_config(recipe(MODERN[1], text_files, models, tmp_path, *longer), 20)
    longer.append("model.encoder.max_positions=16384")
    config = recipe(MODERN[1], text_files, models, tmp_path, *longer)
    assert encoder_config(config, 20).max_positions == 16384
    tokens = {
        phase: options["schedule"]["batch_size"] * options["data"]["sequence_length"]
        for phase, options in zip(MODERN, map(read_options, MODERN), strict=True)
    }
    assert len(set(tokens.values())) == 1
    assert tokens[MODERN[1]] * read.schedule.steps == pytest.approx(300e9, rel=1e-3)
    first = read_options(MODERN[0])["schedule"]
    sizes = [first["first_batch_size"] << doublings for doublings in range(4)]
    assert sizes[-1] == first["batch_size"]
    ramp = 1024 * first["batch_ramp_steps"] * sum(sizes[:-1]) / 3
    assert ramp == pytest.approx(50e9, rel=1e-2)
    whole = tokens[MODERN[0]] * (first["steps"] - first["batch_ramp_steps"])
    assert ramp + whole == pytest.approx(1719e9, rel=1e-3)
    assert 1024 * sizes[0] * first["warmup_steps"] == pytest.approx(3e9, rel=1e-3)


def test_names():
    with pytest.raises(InputError, match="no file or recipe 'robertabase'.*'roberta_base'"):
        read_options("robertabase")
    with pytest.raises(InputError, match="Cannot read fast.yaml"):
        read_options("fast.yaml")
    with pytest.raises(InputError, match="These options are needed: output, data.corpus"):
        read_config("fast")


def test_a_file_comes_before_a_recipe_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "distilbert").mkdir()  # say, the output of another run
    assert read_options("distilbert")["schedule"]["batch_size"] == 4000
    (tmp_path / "fast").write_text("steps: 5")
    assert read_options("fast") == {"steps": 5}


def test_models_that_are_asked_for():
    given = ["data.corpus=a", "data.vocabulary=v", "output=o"]
    with pytest.raises(InputError, match="model.init_checkpoint is empty.*RUN/model"):
        resolve(read_config("bert_large_phase2", given))
    with pytest.raises(InputError, match="needs a teacher"):
        resolve(read_config("distilbert", given))


def test_recipes_are_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]
    assert patterns["keras_bert.recipes"] == ["*.yaml"]
