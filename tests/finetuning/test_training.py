import dataclasses
import json

import keras
import numpy as np
import pytest

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.finetuning import Recipe, evaluate, fine_tune, label_names, problem_type_of
from keras_bert.finetuning.jobs import classifier, job_of
from tests.finetuning import tiny

QUICK = Recipe(epochs=8, batch_size=8, learning_rate=5e-3)


def test_one_label(tmp_path):
    model, data = tiny.classifier(), tiny.opinions()
    result = fine_tune(model, data, data, data, recipe=QUICK, output=tmp_path / "out", verbose=0)
    assert result.test["accuracy"] == 1
    assert [entry["epoch"] for entry in result.history] == list(range(1, QUICK.epochs + 1))
    assert result.validation == result.test  # the weights are those of the best epoch

    loaded = kb.load(tmp_path / "out" / "model")
    assert evaluate(loaded, data) == pytest.approx(result.test, abs=1e-6)
    predictions = loaded.predict_text(list(data.texts))
    assert [prediction["label"] for prediction in predictions] == list(data.labels)
    summary = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert summary["best_epoch"] == result.best_epoch
    chosen = {"sequence_length": 16, "baseline": True, "baseline_head": False}
    assert summary["recipe"] == QUICK.to_dict() | chosen
    assert summary["baseline"] == result.baseline
    assert len((tmp_path / "out" / "history.jsonl").read_text().splitlines()) == QUICK.epochs


def test_pairs_are_pairs():
    """The label says which word is kinder. Who sees one of the two texts is right in 5 of 6."""
    kindest_first = ["good", "fine", "bad"]
    ranks = [(a, b) for a in range(3) for b in range(3) if a != b] * 10
    texts, pairs = ([kindest_first[rank] for rank in column] for column in zip(*ranks, strict=True))
    data = tiny.examples(texts, ["yes" if a < b else "no" for a, b in ranks], pairs)
    model = tiny.classifier(labels=["no", "yes"])
    assert job_of(model).rows(model, data).flat["segment_ids"].max() == 1
    assert fine_tune(model, data, data, recipe=QUICK, verbose=0).validation["accuracy"] > 0.95


def test_several_labels():
    opinions = tiny.opinions()
    labels = [
        (label, "cinema") if "film" in text else (label,)
        for text, label in zip(opinions.texts, opinions.labels, strict=True)
    ]
    data = tiny.examples(opinions.texts, labels)
    assert problem_type_of(data) == "multi_label"
    names = label_names(data, "multi_label")
    assert names == ("bad", "cinema", "good")
    model = tiny.classifier(labels=names, problem_type="multi_label", pooling="mean")
    recipe = QUICK.model_copy(update={"epochs": 10})
    result = fine_tune(model, data, data, recipe=recipe, verbose=0)
    assert result.validation["micro_f1"] > 0.95
    assert model.predict_text(["the film was bad"])[0]["labels"] == ["bad", "cinema"]


def test_numbers():
    opinions = tiny.opinions()
    labels = [str({"good": 1.5, "bad": -0.5}[label]) for label in opinions.labels]
    data = tiny.examples(opinions.texts, labels)
    assert problem_type_of(data) == "regression"
    model = tiny.classifier(labels=label_names(data, "regression"), problem_type="regression")
    result = fine_tune(model, data, data, recipe=QUICK, verbose=0)
    assert set(result.validation) == {"loss", "pearson", "spearman"}
    assert result.validation["pearson"] > 0.95


def test_the_same_seed_gives_the_same_weights():
    def run(seed, elsewhere):
        model = tiny.classifier()
        keras.utils.set_random_seed(elsewhere)
        recipe = QUICK.model_copy(update={"epochs": 1, "seed": seed})
        fine_tune(model, tiny.opinions(), recipe=recipe, verbose=0)
        return model.get_weights()

    first = run(0, elsewhere=1)
    assert all(map(np.array_equal, first, run(0, elsewhere=2)))
    assert not all(map(np.array_equal, first, run(1, elsewhere=1)))


def test_a_finished_run_stays_until_another_one_ends(tmp_path):
    def run(seed, callbacks=()):
        recipe = Recipe(epochs=3, batch_size=8, learning_rate=1e-3, seed=seed)
        model, data = tiny.classifier(), tiny.opinions()
        fine_tune(model, data, data, recipe=recipe, output=tmp_path, callbacks=callbacks, verbose=0)
        return (tmp_path / "model/weights.safetensors").read_bytes()

    class Interrupt(keras.callbacks.Callback):
        def __init__(self, epoch):
            super().__init__()
            self.epoch = epoch

        def on_epoch_begin(self, epoch, logs=None):
            if epoch == self.epoch:
                raise KeyboardInterrupt

    first = run(1)
    for seed, epoch in ((2, 1), (2, 2), (3, 1)):  # the second continues the first
        with pytest.raises(KeyboardInterrupt):
            run(seed, [Interrupt(epoch)])
        assert (tmp_path / "model/weights.safetensors").read_bytes() == first
    assert run(3) != first


def test_the_best_epoch_stays_when_training_is_interrupted(tmp_path, monkeypatch):
    measured = []

    def interrupted(*arguments):
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(classifier.measure(*arguments))
        return measured[-1]

    monkeypatch.setattr(classifier, "JOB", dataclasses.replace(classifier.JOB, measure=interrupted))
    with pytest.raises(KeyboardInterrupt):
        fine_tune(
            tiny.classifier(),
            tiny.opinions(),
            tiny.opinions(),
            recipe=QUICK,
            output=tmp_path / "out",
            verbose=0,
        )
    summary = json.loads((tmp_path / "out" / "metrics.json").read_text())
    best = measured[summary["best_epoch"] - 1]
    assert summary["validation"]["accuracy"] == best["accuracy"]
    monkeypatch.undo()
    assert evaluate(kb.load(tmp_path / "out" / "model"), tiny.opinions())["loss"] == pytest.approx(
        best["loss"], abs=1e-6
    )
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def one_class(data):
    return dataclasses.replace(data, labels=("good",) * len(data))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": one_class}, "at least two labels"),
        (
            {"validation": lambda data: dataclasses.replace(data, labels=("god",) * len(data))},
            "memory.csv, line 2: the label 'god' is unknown. Did you mean 'good'",
        ),
        ({"model": lambda m: tiny.classifier(preprocessor=None)}, "no preprocessor"),
        (
            {"model": lambda m: tiny.classifier(preprocessor=tiny.preprocessor(33))},
            "sequence_length is 33, but the model has 32",
        ),
        (
            {"recipe": lambda r: Recipe(metric="pearson")},
            "metric is 'pearson', but this model has no such metric",
        ),
        (
            {"validation": lambda _: None, "recipe": lambda _: Recipe(patience=2)},
            "patience is 2, but there are no validation examples; give some",
        ),
        (
            {"validation": lambda _: None, "recipe": lambda _: Recipe(metric="loss")},
            "metric is 'loss', but there are no validation examples; give some",
        ),
        (
            {"card": lambda _: "A text."},
            "card must be ModelCardData for the model's card, not a str",
        ),
    ],
)
def test_what_cannot_be_trained(change, message):
    arguments = {
        "card": None,
        "model": tiny.classifier(),
        "train": tiny.opinions(),
        "validation": tiny.opinions(),
        "recipe": QUICK,
    }
    arguments |= {name: function(arguments[name]) for name, function in change.items()}
    with pytest.raises(InputError, match=message):
        fine_tune(**arguments, verbose=0)


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path):
    model = tiny.classifier()
    model.head.trainable_variables[0].assign(model.head.trainable_variables[0] * np.nan)
    data = tiny.opinions()
    with pytest.raises(InputError, match=r"not a number from step 1 of .* Try a lower l"):
        fine_tune(model, data, data, output=tmp_path / "out", verbose=0)
    assert not (tmp_path / "out" / "model").exists()


def test_an_output_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and was not written by keras-bert"):
        fine_tune(tiny.classifier(), tiny.opinions(), output=tmp_path, verbose=0)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
