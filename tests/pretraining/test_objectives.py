"""Every objective from text to a model, with an accident on the way."""

import numpy as np
import pytest
import yaml

import keras_bert as kb
from keras_bert.checkpoints.files import SafetensorsFiles
from keras_bert.cli import main
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.resolve import encoder_config, resolve
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.trainer import Trainer, pretrain
from tests.marks import others_swept
from tests.pretraining.run import SMALL, assert_same_run, config, log, make_config

SHORT = {"steps": 8, "checkpoint_every": 4, "steps_per_loop": 1, "evaluate_every": 8}
RUNS = {
    "sentence order": {"family": "albert"},
    "replaced tokens": {"family": "electra"},
    "disentangled": {"family": "deberta-v2"},
    "full sentences": {"family": "roberta"},
}


@pytest.fixture(scope="module")
def make(text_files):
    """A configuration by a key of `RUNS`."""

    def make(kind, output, **options):
        sizes = SMALL | ({"embedding_size": 8} if kind != "full sentences" else {})
        return config(text_files, output, **(SHORT | {"encoder": sizes} | RUNS[kind] | options))

    return make


class AccidentError(Exception):
    pass


def pretrain_with_an_accident(run, step, monkeypatch):
    """Two parts of a run; the first ends without any farewell after a step."""
    train_steps = Trainer._train_steps

    def train_until(self, *arguments):
        result = train_steps(self, *arguments)
        if self.step == step:
            raise AccidentError
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_steps", train_until)
        with pytest.raises(AccidentError):
            pretrain(run, progress=False)
    return pretrain(run, progress=False)


QUICK = ("sentence order", "replaced tokens", "full sentences")


@pytest.fixture(scope="module", params=others_swept(RUNS, quick=QUICK))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def finished(kind, make, tmp_path_factory):
    output = tmp_path_factory.mktemp("objectives") / "run"
    return output, pretrain(make(kind, output), progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", others_swept(QUICK, quick=["replaced tokens"]), indirect=True, scope="module"
)
def test_the_end_is_the_same_after_an_accident(kind, finished, make, tmp_path, monkeypatch):
    pretrain_with_an_accident(make(kind, tmp_path / "run"), 6, monkeypatch)
    assert_same_run(tmp_path / "run", finished[0])


def test_the_model_is_of_its_family_and_opens(kind, finished, make):
    output, results = finished
    kinds = {
        "sentence order": ("PretrainingModel", "albert"),
        "replaced tokens": ("ReplacedTokenDetector", "electra"),
        "disentangled": ("ReplacedTokenDetector", "deberta-v2"),
        "full sentences": ("MaskedLanguageModel", "roberta"),
    }
    model, checkpoint = (
        kb.load(p) for p in (results["model"], output / "checkpoints/step-00000008")
    )
    assert (type(model).__name__, model.config.family) == kinds[kind]
    for ours, theirs in zip(model.weights, checkpoint.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    names = [f"{h.name}_loss" for h in OBJECTIVES[make(kind, output).objective.name].loss_terms]
    rows = log(output)
    assert all(name in row for name in names for row in rows)
    assert results["after"]["loss"] < results["before"]["loss"]


def test_generators_are_thrown_away_at_the_end(kind, finished):
    output, _ = finished
    names = [*SafetensorsFiles({output / "model" / "weights.safetensors": None}).names()]
    assert not any(name.startswith("generator") for name in names)
    rest = output / "checkpoints/step-00000008/training.safetensors"
    assert rest.exists() == (kind in ("replaced tokens", "disentangled"))
    if rest.exists():
        names = [*SafetensorsFiles({rest: None}).names()]
        assert any(name.startswith("generator/layer_0") for name in names)


@pytest.fixture(scope="module")
def teacher(text_files, tmp_path_factory):
    output = tmp_path_factory.mktemp("teacher") / "run"
    sizes = SMALL | {"num_layers": 2}
    return pretrain(config(text_files, output, **(SHORT | {"encoder": sizes})), False)["model"]


def distillation(text_files, output, teacher, **options):
    return config(text_files, output, **(SHORT | {"encoder": {}, "teacher": teacher} | options))


@pytest.fixture(scope="module", params=others_swept(["distillation", "distillation-masked"]))
def distilled(text_files, teacher, tmp_path_factory, request):
    """The objective, the output of a run of it, and what the run returned."""
    output = tmp_path_factory.mktemp("distilled") / "run"
    run = distillation(text_files, output, teacher, objective=request.param)
    return request.param, output, pretrain(run, progress=False)


def test_distillation(distilled):
    _, output, results = distilled
    assert results["after"]["loss"] < results["before"]["loss"]
    student = kb.load(results["model"])
    assert isinstance(student, kb.MaskedLanguageModel)
    assert (student.config.family, student.config.num_layers) == ("distilbert", 1)
    files = {path.name for path in (output / "checkpoints/step-00000008").iterdir()}
    assert "training.safetensors" not in files


@pytest.mark.sweep  # `test_the_end_is_the_same_after_an_accident` does the same without a teacher
def test_distillation_is_the_same_after_an_accident(
    distilled, text_files, teacher, tmp_path, monkeypatch
):
    objective, output, _ = distilled
    parts = distillation(text_files, tmp_path / "parts", teacher, objective=objective)
    pretrain_with_an_accident(parts, 6, monkeypatch)
    assert_same_run(tmp_path / "parts", output)


def test_another_teacher_than_before(text_files, teacher, tmp_path):
    model = kb.load(teacher)
    kb.save(model, tmp_path / "teacher")
    run = distillation(text_files, tmp_path / "run", str(tmp_path / "teacher"), steps=1)
    pretrain(run, progress=False)
    model.weights[0].assign_add(model.weights[0])
    kb.save(model, tmp_path / "teacher")
    with pytest.raises(kb.InputError, match="teacher has changed since"):
        pretrain(run, progress=False)


def test_teachers_that_do_not_fit(text_files, teacher, tmp_path):
    words = (text_files / "vocab.txt").read_text()
    (tmp_path / "vocab.txt").write_text(words.replace("moon", "mist"))
    run = distillation(
        text_files, tmp_path / "run", teacher, vocabulary=str(tmp_path / "vocab.txt")
    )
    with pytest.raises(kb.InputError, match="another vocabulary"):
        pretrain(run, progress=False)
    run = distillation(text_files, tmp_path / "run", teacher, encoder={"hidden_size": 8})
    with pytest.raises(kb.InputError, match="student's hidden_size is 8"):
        pretrain(run, progress=False)
    kb.save(kb.load(teacher, task="classifier", num_labels=2), tmp_path / "classifier")
    run = distillation(text_files, tmp_path / "run", str(tmp_path / "classifier"))
    with pytest.raises(kb.InputError, match="is a 'classifier', which does not predict masked"):
        pretrain(run, progress=False)


def test_the_command_takes_vocabulary_and_sizes_from_the_teacher(text_files, teacher, tmp_path):
    options = distillation(text_files, tmp_path / "run", teacher, steps=2).to_dict()
    data = ("corpus", "sequence_length", "validation_ratio")
    schedule = ("steps", "batch_size")
    file = {
        "output": options["output"],
        "data": {name: options["data"][name] for name in data},
        "schedule": {name: options["schedule"][name] for name in schedule},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(file))
    arguments = ["distill", "--teacher", teacher, str(tmp_path / "run.yaml"), "seed=1"]
    assert main(arguments) == 0
    student = kb.load(tmp_path / "run" / "model")
    assert (student.config.num_layers, student.config.hidden_size) == (1, SMALL["hidden_size"])
    assert student.preprocessor.vocabulary.tokens == kb.load(teacher).preprocessor.vocabulary.tokens


@pytest.mark.parametrize(
    ("family", "files", "kind"),
    others_swept(
        [
            ("deberta-v2", "deberta-v3/spm.model", "SentencePiece"),
            ("roberta", "roberta-base", "BytePair"),
        ]
    ),
)
@pytest.mark.slow
def test_other_tokenizers(shared_data, text_files, tmp_path, family, files, kind):
    path = shared_data / "vocabs" / files
    options = {"family": family, "vocabulary": str(path), "steps": 2, "masking": "word"}
    results = pretrain(config(text_files, tmp_path / "run", **(SHORT | options)), progress=False)
    preprocessor = kb.load(results["model"]).preprocessor
    assert type(preprocessor.tokenizer).__name__ == kind
    pair = preprocessor((["sun rises"], ["moon falls"]))
    separators = (pair["token_ids"].numpy() == preprocessor.vocabulary.separator_id).sum()
    assert separators == (3 if family == "roberta" else 2)


NEEDED = {"corpus": "text/*.txt", "vocabulary": "vocab.txt", "output": "run", "steps": 10}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"family": "roberta", "objective": "mlm+nsp"}, "'roberta' cannot tell them apart"),
        ({"family": "distilbert", "objective": "mlm+sop"}, "num_segments is 0"),
        ({"family": "electra", "objective": "mlm+nsp"}, "'electra' has no pooler"),
        ({"encoder": {"pooler": False}}, "'bert' has no pooler"),
        ({"encoder": {"family": "albert"}}, "set model.family instead"),
        ({"family": "distilbert"}, "'distillation' needs a teacher.*or choose the objective 'mlm'"),
        ({"objective": "mlm", "teacher": "dir"}, "'mlm' does not use a teacher"),
        ({"across_documents": True}, "cannot cross documents"),
        ({"packed": True}, "'mlm\\+nsp' has two texts.*cannot be packed"),
        (
            {"family": "roberta", "packed": True, "across_documents": True},
            "data.packed separates the documents.*set one of the two to false",
        ),
        ({"family": "albrt"}, "family is 'albrt'. Did you mean 'albert'"),
        ({"objective": "rdt"}, "objective.name is 'rdt'. Did you mean 'rtd'"),
        (
            {"objective": "rtd", "generator_size": 2},
            "generator_size is 2, but must be positive and at most 1",
        ),
        (
            {"generator_depth": 0.5},
            "has no generator; leave objective.generator_depth out",
        ),
    ],
)
def test_combinations_that_are_not_possible(options, match):
    with pytest.raises(kb.InputError, match=match):
        encoder_config(make_config(NEEDED | options), 1000)


@pytest.mark.parametrize(
    ("options", "family", "objective"),
    [
        ({}, "bert", "mlm+nsp"),
        ({"preset": "electra_small"}, "electra", "rtd"),
        ({"family": "roberta", "preset": "bert_mini"}, "roberta", "mlm"),
        ({"family": "albert"}, "albert", "mlm+sop"),
        ({"family": "deberta-v2"}, "deberta-v2", "rtd+gdes"),
        ({"objective": "rtd"}, "bert", "rtd"),
        ({"teacher": "dir"}, "distilbert", "distillation"),
    ],
)
def test_family_and_objective_by_default(options, family, objective):
    run = make_config(NEEDED | options)
    assert (run.model.family, run.objective.name) == (family, objective)
    assert resolve(run) == run


@pytest.mark.parametrize(
    ("options", "masking", "across_documents"),
    [
        ({}, "token", False),
        ({"family": "albert"}, "ngram", False),
        ({"family": "albert", "objective": "mlm", "masking": "word"}, "word", False),
        ({"family": "roberta"}, "token", True),
        ({"family": "xlm-roberta", "masking": "span"}, "span", True),
        ({"family": "camembert", "across_documents": False}, "word", False),
        ({"family": "deberta"}, "ngram", False),
        ({"family": "deberta-v2"}, "token", False),
        ({"family": "roberta", "objective": "mlm+nsp"}, "token", False),
        ({"family": "roberta", "packed": True}, "token", False),
        ({"family": "electra", "masking": None, "across_documents": True}, "token", True),
    ],
)
def test_masking_and_packing_are_the_familys_unless_given(options, masking, across_documents):
    run = make_config(NEEDED | options)
    assert (run.data.masking, run.data.across_documents) == (masking, across_documents)
    assert resolve(run) == run


@pytest.mark.parametrize(
    ("objective", "replacement"),
    [
        ("mlm", (0.8, 0.1)),
        ("mlm+nsp", (0.8, 0.1)),
        ("mlm+sop", (0.8, 0.1)),
        ("rtd", (0.85, 0.0)),
        ("rtd+gdes", (1.0, 0.0)),
    ],
)
def test_shares_of_masks_and_random_tokens_are_as_published(
    text_files, tmp_path, objective, replacement
):
    run = config(text_files, tmp_path / "run", objective=objective)
    training, held_out = make_examples(run, make_preprocessor(run))
    assert training.examples.masking.replacement == replacement
    assert held_out.masking.replacement == replacement


def test_the_embedding_is_as_wide_as_the_encoder_unless_the_preset_says_more():
    sizes = {"hidden_size": 64, "num_heads": 1}
    for options, expected in (
        ({}, 64),
        ({"family": "roberta"}, 64),
        ({"family": "albert"}, 128),
        ({"preset": "electra_small"}, 128),
    ):
        run = make_config(NEEDED | {"encoder": sizes} | options)
        assert encoder_config(run, 1000).embedding_size == expected


def test_sizes_of_one_family_with_the_traits_of_another():
    run = make_config(NEEDED | {"family": "roberta", "preset": "bert_mini"})
    encoder = encoder_config(run, 1000)
    assert (encoder.num_layers, encoder.hidden_size, encoder.vocabulary_size) == (4, 256, 1000)
    assert (encoder.position_offset, encoder.num_segments, encoder.pooler) == (2, 1, False)
