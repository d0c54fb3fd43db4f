import keras
import numpy as np
import pytest

import keras_bert as kb
from keras_bert.finetuning import ChoiceExamples, Recipe, evaluate, fine_tune
from keras_bert.finetuning.evaluation import predict
from keras_bert.finetuning.jobs import job_of, multiple_choice
from tests.finetuning import tiny


def model(**arguments):
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(**tiny.NO_DROPOUT)
    return kb.MultipleChoice(encoder, dropout=0.0, preprocessor=tiny.preprocessor(), **arguments)


def examples(contexts, choices, labels):
    return ChoiceExamples(
        path="memory.csv",
        lines=tuple(range(2, len(contexts) + 2)),
        contexts=tuple(contexts),
        choices=tuple(map(tuple, choices)),
        labels=None if labels is None else tuple(labels),
    )


def opinions(count=48):
    """The right choice is the one with a kind word, somewhere."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, count).tolist()
    choices = [
        [f"was {'a ' * int(rng.integers(4))}{'good' if i == label else 'bad'}" for i in range(3)]
        for label in labels
    ]
    return examples(["the film"] * count, choices, labels)


def test_learns_to_choose(tmp_path):
    data = opinions()
    recipe = Recipe(epochs=6, batch_size=8, learning_rate=1e-2)
    result = fine_tune(model(), data, data, recipe=recipe, output=tmp_path / "out", verbose=0)
    assert result.validation["accuracy"] == 1
    loaded = kb.load(tmp_path / "out" / "model")
    assert evaluate(loaded, data) == pytest.approx(result.validation, abs=1e-6)
    found = loaded.predict_text((list(data.contexts), [list(own) for own in data.choices]))
    assert [x["choice"] for x in found] == list(data.labels)
    assert all(x["text"].endswith("good") for x in found)
    assert [x["choice"] for x in predict(loaded, data)] == list(data.labels)


def test_loss_and_accuracy_are_those_of_keras():
    data, choices = opinions(10), model()
    rows = multiple_choice.rows(choices, data)
    assert (len(rows), rows.group) == (30, 3)
    flat = rows.padded(np.arange(30), multiple=1)
    inputs = {name: x.reshape(10, 3, -1) for name, x in flat.items()}
    choices.compile(loss=choices.default_loss(), metrics=["accuracy"])
    right = multiple_choice.targets(choices, data, rows).values
    loss, accuracy = choices.evaluate(inputs, right, verbose=0)
    assert evaluate(choices, data) == pytest.approx({"loss": loss, "accuracy": accuracy}, rel=1e-5)


def test_pairs_are_text_and_choice():
    data = examples(["the film", "a book"], [["good", "bad"], ["was", "is"]], [0, 1])
    rows = multiple_choice.rows(model(), data)
    tokens = [[tiny.TOKENS[i] for i in rows.row(index)["token_ids"]] for index in range(4)]
    assert tokens[1] == ["[CLS]", "the", "film", "[SEP]", "bad", "[SEP]"]
    assert tokens[2] == ["[CLS]", "a", "book", "[SEP]", "was", "[SEP]"]
    assert rows.row(2)["segment_ids"].tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (examples(["a", "b"], [["x", "y"], ["x"]], [0, 0]), "memory.csv, line 3: 1 choices, but"),
        (examples(["a"], [["x", "y"]], [2]), "memory.csv, line 2: the label is 2, but must be"),
        (examples(["a"], [["x", "y"]], None), "memory.csv does not say which choices are right"),
    ],
)
def test_bad_examples(data, message):
    with pytest.raises(kb.InputError, match=message):
        evaluate(model(), data)


def test_the_job_is_that_of_multiple_choice():
    assert job_of(model()) is multiple_choice.JOB
