import dataclasses
import logging

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.families import FAMILIES, albert, bert, electra, roberta
from keras_bert.finetuning import (
    ChoiceExamples,
    QuestionExamples,
    Recipe,
    TaggedExamples,
    fine_tune,
    new_model,
    resolve,
)
from keras_bert.finetuning.defaults import _POOLINGS, HIGHEST_RATE, MOST_EPOCHS, rate_of
from keras_bert.layers.heads import POOLINGS
from tests.finetuning import tiny

LONG = {"max_positions": 512}


def chosen(recipe=None, model=None, data=None):
    """The recipe with all values, and the reasons by option."""
    recipe, choices = resolve(
        recipe or Recipe(), model or tiny.classifier(), data or tiny.opinions()
    )
    assert all(getattr(recipe, c.name, c.value) == c.value for c in choices)
    return recipe, {choice.name: choice.reason for choice in choices}


def lengthy(counts, length=512):
    """A model without a shortened preprocessor, and a text of each number of words."""
    model = tiny.classifier({**LONG}, preprocessor=tiny.preprocessor(length))
    return model, tiny.examples([" ".join(["good"] * n) for n in counts], ["good"] * len(counts))


def test_given_options_stay():
    given = {"epochs": 2, "batch_size": 5, "learning_rate": 0.01, "sequence_length": 7}
    given |= {"baseline": False, "baseline_head": False}
    recipe, reasons = chosen(Recipe(**given, seed=4, class_weights={"good": 2.0}))
    assert recipe == Recipe(**given, seed=4, class_weights={"good": 2.0})
    assert {name: reasons[name].split(";")[0] for name in given} == dict.fromkeys(given, "given")


def test_no_baseline_without_validation():
    recipe, choices = resolve(
        Recipe(), tiny.classifier(pooling="mean"), tiny.opinions(), validation=False
    )
    reasons = {choice.name: choice.reason for choice in choices}
    assert (recipe.baseline, recipe.baseline_head) == (False, False)
    assert reasons["baseline"] == "there are no validation examples"


def test_a_trained_layer_keeps_its_weights():
    model = tiny.classifier(pooling="mean")
    assert chosen(model=model)[0].baseline_head
    model.head.logits.bias.assign([0.1, -0.1])
    recipe, reasons = chosen(model=model)
    assert recipe.baseline
    assert not recipe.baseline_head
    assert reasons["baseline_head"] == "the classifier's layer was trained before"


def test_the_recipe_and_the_model_stay_as_they_were():
    model, recipe = tiny.classifier(LONG, preprocessor=tiny.preprocessor(512)), Recipe()
    preprocessor, weights = model.preprocessor, model.get_weights()
    first, second = (resolve(recipe, model, tiny.opinions()) for _ in range(2))
    assert first == second
    assert recipe == Recipe()
    assert model.preprocessor is preprocessor
    assert preprocessor.sequence_length == 512
    assert all(map(np.array_equal, weights, model.get_weights()))


def test_the_length_of_nearly_all_texts():
    model, data = lengthy([*[50] * 990, *[400] * 10])
    recipe, reasons = chosen(model=model, data=data)
    assert recipe.sequence_length == 64  # 50 words, two special tokens, a multiple of 16
    assert reasons["sequence_length"] == (
        "99 % of 1,000 texts have at most 52 tokens; 10 of 1,000 are longer and are cut"
    )
    model, data = lengthy([*[50] * 989, *[400] * 11])
    assert chosen(model=model, data=data)[0].sequence_length == 416


def test_short_texts_leave_some_room():
    recipe, reasons = chosen(model=lengthy([3])[0], data=tiny.opinions())
    assert recipe.sequence_length == 64
    assert reasons["sequence_length"].endswith("no text is longer")


def test_the_model_limits_the_length():
    recipe, reasons = chosen(*[None], *lengthy([600, 700, 20]))
    assert recipe.sequence_length == 512
    assert reasons["sequence_length"] == (
        "the model has no more positions; 2 of 3 are longer and are cut"
    )


def test_a_preprocessor_that_was_shortened_keeps_its_length():
    model, data = lengthy([50] * 10, length=40)
    recipe, reasons = chosen(model=model, data=data)
    assert recipe.sequence_length == 40
    assert reasons["sequence_length"] == (
        "the preprocessor's length; 10 of 10 are longer and are cut"
    )


def test_both_texts_of_a_pair_count():
    model, _ = lengthy([1])
    words = " ".join(["good"] * 70)
    data = tiny.examples([words] * 5, ["good"] * 5, [words] * 5)
    assert chosen(model=model, data=data)[0].sequence_length == 144  # 143 tokens
    embedder = kb.TextEmbedder(model.encoder, preprocessor=model.preprocessor)
    data = dataclasses.replace(data, labels=None)
    assert chosen(model=embedder, data=data)[0].sequence_length == 80  # 72 tokens


def test_the_tokens_are_counted_as_they_are_read():
    """Every task: no element that is not divided into windows is longer than the choice."""
    encoder, numbers = tiny.encoder(**LONG), tuple(range(8))
    options = {"preprocessor": tiny.preprocessor(512)}
    text = tuple(" ".join(["good"] * (10 * n + 40)) for n in numbers)
    common = {"path": "memory", "lines": numbers}
    word = tuple(((0, 4),) for _ in numbers)
    cases = [
        (
            kb.TokenClassifier(encoder, labels=["O"], **options),
            TaggedExamples(texts=text, words=word, tags=(("O",),) * 8, **common),
        ),
        (
            kb.SpanClassifier(encoder, **options),
            QuestionExamples(ids=text, questions=("the film",) * 8, contexts=text, **common),
        ),
        (
            kb.MultipleChoice(encoder, **options),
            ChoiceExamples(contexts=text, choices=(("good", "a bad book"),) * 8, **common),
        ),
    ]
    for model, data in cases:
        from keras_bert.finetuning.jobs import job_of

        longest = job_of(model).rows(model, data).lengths.max()
        recipe, reasons = chosen(model=model, data=data)
        assert longest <= recipe.sequence_length < longest + 16
        assert reasons["sequence_length"].endswith("no text is longer")
        assert recipe.baseline is False


def test_long_texts_have_smaller_batches():
    assert chosen()[0].batch_size == 32
    assert chosen(None, *lengthy([300] * 10))[0].batch_size == 16
    assert chosen(Recipe(gradient_accumulation_steps=40))[0].batch_size == 40


def epochs(examples, labels=2, **recipe):
    names = [str(number) for number in range(labels)]
    data = tiny.examples(["good"] * examples, ["0"] * examples)
    return chosen(Recipe(**recipe), tiny.classifier(labels=names), data)[0].epochs


def test_small_data_is_read_more_often():
    counts = [epochs(n) for n in (1, 100, 1000, 3000, 30_000)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == MOST_EPOCHS
    assert counts[-1] == 3
    assert epochs(3000, labels=100) > epochs(3000)
    assert epochs(3000, batch_size=8) <= epochs(3000)


@pytest.mark.parametrize(
    ("family", "hidden_size", "low", "high"),
    [  # the ranges that the papers tried
        ("bert", 768, 2e-5, 5e-5),
        ("bert", 1024, 2e-5, 5e-5),
        ("roberta", 1024, 1e-5, 3e-5),
        ("xlm-roberta", 768, 1e-5, 5e-5),
        ("electra", 256, 3e-4, 3e-4),
        ("electra", 768, 1e-4, 1e-4),
        ("electra", 1024, 5e-5, 5e-5),
        ("albert", 4096, 1e-5, 5e-5),
        ("deberta", 768, 1.5e-5, 4e-5),
        ("deberta-v2", 1024, 5e-6, 1e-5),
    ],
)
def test_rates_are_those_of_the_papers(family, hidden_size, low, high):
    rates = FAMILIES[family].FINE_TUNING_RATES
    assert low <= rate_of(rates, hidden_size) <= high


def test_narrow_models_have_higher_rates():
    for family in (albert, bert, electra, roberta):
        rates = [rate_of(family.FINE_TUNING_RATES, size) for size in (1024, 768, 512, 256, 128)]
        assert rates == sorted(rates)
    assert chosen()[0].learning_rate == HIGHEST_RATE  # 16 units


def test_adapters_have_a_higher_rate():
    rate = chosen()[0].learning_rate
    recipe, reasons = chosen(Recipe(lora_rank=8))
    assert recipe.learning_rate == pytest.approx(20 * rate)
    assert "adapters" in reasons["learning_rate"]


def test_a_family_without_rates_has_those_of_bert(monkeypatch):
    with_rates = chosen()[0].learning_rate
    monkeypatch.delattr(bert, "FINE_TUNING_RATES")
    monkeypatch.setattr(
        "keras_bert.finetuning.defaults.bert", type("Bert", (), {"FINE_TUNING_RATES": {768: 5e-5}})
    )
    assert chosen()[0].learning_rate == with_rates


def test_the_baseline_is_for_labels_and_small_data():
    assert chosen()[0].baseline is True
    regression = tiny.classifier(labels=["score"], problem_type="regression")
    assert chosen(model=regression)[0].baseline is False
    many = tiny.examples(["good"] * 20_001, ["good"] * 20_001)
    assert chosen(data=many)[0].baseline is False
    assert chosen(Recipe(baseline=True), data=many)[0].baseline is True


def test_the_head_starts_from_the_baseline_if_it_reads_the_same_vectors():
    mean = tiny.classifier(pooling="mean")
    assert chosen(model=mean)[0].baseline_head is True
    for recipe, model, data in (
        (Recipe(), tiny.classifier(), tiny.opinions()),
        (Recipe(baseline=False), mean, tiny.opinions()),
        (Recipe(), mean, tiny.examples(["a"], ["good"], ["b"])),
    ):
        assert chosen(recipe, model, data)[0].baseline_head is False


def test_options_that_contradict_each_other():
    with pytest.raises(InputError, match="gradient_accumulation_steps is 4, but a batch of 2"):
        chosen(Recipe(batch_size=2, gradient_accumulation_steps=4))


def test_fine_tune_uses_and_tells_the_choices(caplog, tmp_path):
    model = tiny.classifier(LONG, preprocessor=tiny.preprocessor(512), pooling="mean")
    with caplog.at_level(logging.INFO, logger="keras_bert.finetuning"):
        result = fine_tune(
            model, tiny.opinions(), tiny.opinions(24), recipe=Recipe(epochs=1), verbose=0
        )
    assert model.preprocessor.sequence_length == 64
    chosen_values, baseline, *_ = (
        record.getMessage() for record in caplog.records if record.name.startswith("keras_bert")
    )
    told = chosen_values.splitlines()
    assert told[0] == "Examples: 64 for training, 24 for validation; 2 labels"
    shown = {line.split()[0]: line.split()[1] for line in told[1:]}
    assert shown["sequence_length"] == "64"
    assert shown["learning_rate"] == "0.001"
    assert shown["pooling"] == "mean"
    assert baseline.startswith("Frozen baseline, a logistic regression on the untrained")
    assert f"{result.baseline['validation']['accuracy']:.4f}" in baseline


def test_an_embedders_pooling_stays(tmp_path):
    embedder = kb.TextEmbedder(
        tiny.encoder(pooler=True), pooling="first", preprocessor=tiny.preprocessor()
    )
    data = tiny.opinions()
    assert new_model("classifier", embedder, data).pooling == "first"
    kb.save(embedder, tmp_path / "native")
    kb.save(embedder, tmp_path / "theirs", format="sentence-transformers")
    for directory in ("native", "theirs"):
        path = tmp_path / directory
        assert new_model("classifier", path, data).pooling == "first"
        assert new_model("classifier", path, data, pooling="pooled").pooling == "pooled"
        assert kb.load(path, task="classifier", num_labels=2).pooling == "first"
        assert kb.load(path, task="classifier", num_labels=2, pooling="mean").pooling == "mean"
    kb.save(embedder.encoder, tmp_path / "encoder")
    path = tmp_path / "encoder"
    assert kb.load(path, task="classifier", num_labels=2).pooling == "pooled"


def test_each_pooling_has_a_reason():
    assert {*_POOLINGS} == {*POOLINGS}
