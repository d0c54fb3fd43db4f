import dataclasses

import keras
import numpy as np
import pytest
from scipy import stats

import keras_bert as kb
from keras_bert.finetuning import Recipe, embedder_arguments, evaluate, fine_tune, new_model
from keras_bert.finetuning.examples import ChoiceExamples, TextExamples
from keras_bert.finetuning.jobs import job_of
from tests.checkpoints.huggingface import FIXTURES
from tests.finetuning import tiny

KIND, UNKIND = ("good", "fine"), ("bad", "poor")
RECIPE = Recipe(epochs=3, batch_size=16, learning_rate=3e-3)


def embedder(**arguments):
    keras.utils.set_random_seed(0)
    return kb.TextEmbedder(tiny.encoder(), preprocessor=tiny.preprocessor(), **arguments)


def pairs(labels, count=96, seed=0):
    """Texts that are alike where both are kind, or neither."""
    rng = np.random.default_rng(seed)
    words = [
        [(UNKIND, KIND)[k][rng.integers(2)] for k in rng.integers(0, 2, 2)] for _ in range(count)
    ]
    texts = [
        [f"the {('film', 'book')[rng.integers(2)]} was {word}" for word in pair] for pair in words
    ]
    same = [(a in KIND) == (b in KIND) for a, b in words]
    return TextExamples(
        path="pairs.csv",
        lines=tuple(range(2, count + 2)),
        texts=tuple(a for a, _ in texts),
        pairs=tuple(b for _, b in texts),
        labels=tuple(labels[int(s)] for s in same),
    )


def together(count=96, seed=0):
    """Pairs that belong together: a word, and the same word elsewhere."""
    rng = np.random.default_rng(seed)
    words = [tiny.WORDS[i] for i in rng.integers(0, 6, count)]
    return TextExamples(
        path="together.csv",
        lines=tuple(range(2, count + 2)),
        texts=tuple(f"the {word}" for word in words),
        pairs=tuple(
            f"a {word} was {tiny.WORDS[i]}"
            for word, i in zip(words, rng.integers(6, 10, count), strict=True)
        ),
    )


def choices(examples, wrong=2, seed=0):
    """Each with its own text in a place by chance, and wrong ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, wrong + 1, len(examples))
    groups = []
    for own, label in zip(examples.pairs, labels, strict=True):
        others = [text for text in examples.pairs if text.split()[1] != own.split()[1]]
        group = list(rng.choice(others, wrong))
        group.insert(label, own)
        groups.append(tuple(map(str, group)))
    return ChoiceExamples(
        path="choices.csv",
        lines=examples.lines,
        contexts=examples.texts,
        choices=tuple(groups),
        labels=tuple(map(int, labels)),
    )


def test_scores(tmp_path):
    train, validation = pairs(("0.5", "5.0")), pairs(("1", "4.5"), 40, seed=1)
    arguments = embedder_arguments(train, validation)
    assert arguments == {"objective": "cosine", "labels": None, "score_range": (0.0, 5.0)}
    model = embedder(**arguments)
    before = evaluate(model, validation)
    result = fine_tune(model, train, validation, recipe=RECIPE, output=tmp_path, verbose=0)
    after = evaluate(kb.load(tmp_path / "model"), validation)
    assert after == pytest.approx(result.validation, abs=1e-6)
    assert after["spearman"] > max(0.75, before["spearman"])
    u, v = (
        model.encode(list(texts)).astype("float64")
        for texts in (validation.texts, validation.pairs)
    )
    cosines, scores = (u * v).sum(1), np.array(validation.labels, "float64")
    assert after["pearson"] == pytest.approx(stats.pearsonr(scores, cosines).statistic, abs=1e-5)
    assert after["spearman"] == pytest.approx(stats.spearmanr(scores, cosines).statistic, abs=1e-3)
    assert after["loss"] == pytest.approx(np.mean((cosines - scores / 5) ** 2), abs=1e-6)


def test_labels(tmp_path):
    train, validation = pairs(("no", "yes")), pairs(("no", "yes"), 40, seed=1)
    arguments = embedder_arguments(train)
    assert arguments == softmax(("no", "yes"))
    model = embedder(**arguments, projections=[{"units": 12, "activation": "tanh"}])
    before = np.asarray(model.projection_layers[0].kernel)
    recipe = RECIPE.model_copy(update={"epochs": 20, "learning_rate": 1e-2})
    result = fine_tune(model, train, validation, recipe=recipe, output=tmp_path, verbose=0)
    assert result.validation["accuracy"] > 0.9
    model = kb.load(tmp_path / "model")
    assert np.abs(np.asarray(model.projection_layers[0].kernel) - before).max() > 0.01
    predictions = model.predict_text((list(validation.texts), list(validation.pairs)))
    right = [p["label"] == label for p, label in zip(predictions, validation.labels, strict=True)]
    assert np.mean(right) == result.validation["accuracy"]
    assert all(0.5 <= p["score"] <= 1 and abs(p["cosine"]) < 1.0001 for p in predictions)


def test_a_loaded_embedder_keeps_its_projections():
    path = FIXTURES.parent / "sentence_transformers" / "6.2.0"
    model, saved = new_model("embedder", path, together(4)), kb.load(path, task="embedder")
    kernels = [[np.asarray(x.kernel) for x in each.projection_layers] for each in (model, saved)]
    assert len(kernels[0]) == 5
    assert all(np.array_equal(*pair) for pair in zip(*kernels, strict=True))


@pytest.mark.parametrize("wrong", [0, 2])
def test_pairs_that_belong_together(wrong, tmp_path):
    train, validation = together(), together(30, seed=1)
    assert embedder_arguments(train) == {"objective": "contrastive", "labels": None}
    if wrong:
        train, validation = choices(train, wrong), choices(validation, wrong, seed=1)
    model = embedder()
    before = evaluate(model, validation)
    recipe = RECIPE.model_copy(update={"epochs": 8})
    after = fine_tune(model, train, validation, recipe=recipe, verbose=0).validation
    assert after["accuracy_at_1"] > max(0.9, before["accuracy_at_1"])
    assert after["accuracy_at_1"] <= after["mrr"] <= 1
    assert after == evaluate(model, validation)


def test_retrieval_is_over_all_texts_of_the_validation():
    model, examples = embedder(), choices(together(30))
    actual = evaluate(model, examples)
    texts = sorted({text for group in examples.choices for text in group})
    cosines = model.similarity(list(examples.contexts), texts)
    own = [group[label] for group, label in zip(examples.choices, examples.labels, strict=True)]
    places = []
    for row, context, text in zip(cosines, examples.contexts, own, strict=True):
        right = {o for c, o in zip(examples.contexts, own, strict=True) if c == context}
        wrong = [x for x, t in zip(row, texts, strict=True) if t not in right]
        places.append(1 + sum(x >= row[texts.index(text)] for x in wrong))
    assert actual["mrr"] == pytest.approx(np.mean(1 / np.array(places)), abs=0.02)
    assert actual["accuracy_at_1"] == pytest.approx(np.mean(np.array(places) == 1), abs=0.07)


def test_targets_and_rows():
    examples = together(20)
    model = embedder()
    job = job_of(model)
    rows = job.rows(model, examples)
    assert (len(rows), rows.group) == (40, 2)
    numbers = job.targets(model, examples, rows).values
    assert numbers.dtype == "int32"
    assert [examples.texts[list(numbers).index(n)] for n in numbers] == list(examples.texts)
    with_choices = choices(examples)
    rows = job.rows(model, with_choices)
    assert (len(rows), rows.group) == (80, 4)
    own = model.preprocessor.rows(list(examples.pairs))
    assert all(
        np.array_equal(rows.row(4 * i + 1)["token_ids"], own.row(i)["token_ids"]) for i in range(20)
    )


def test_predictions_are_those_of_predict_text():
    model, examples = embedder(), together(9)
    job = job_of(model)
    rows = job.rows(model, examples)
    actual = job.predict(model, examples, rows, model.predict_rows(rows))
    expected = model.predict_text((list(examples.texts), list(examples.pairs)))
    assert [p["cosine"] for p in actual] == pytest.approx([p["cosine"] for p in expected], abs=1e-6)
    single = dataclasses.replace(examples, pairs=None)
    rows = job.rows(model, single)
    vectors = job.predict(model, single, rows, model.predict_rows(rows))
    np.testing.assert_allclose(
        [v["embedding"] for v in vectors], model.encode(list(single.texts)), atol=1e-6
    )
    groups = choices(examples)
    rows = job.rows(model, groups)
    assert len(job.predict(model, groups, rows, model.predict_rows(rows))[0]["cosines"]) == 3
    with pytest.raises(kb.InputError, match="2 and 1 texts"):
        model.predict_text((["a", "b"], ["c"]))


def test_the_default_prompt_is_before_each_text():
    model, texts = embedder(prompts={"query": "bad "}, default_prompt="query"), ["good", "film"]
    job, examples = job_of(model), dataclasses.replace(together(2), texts=tuple(texts), pairs=None)
    rows = job.rows(model, examples)
    found = job.predict(model, examples, rows, model.predict_rows(rows))
    vectors = np.array([one["embedding"] for one in found])
    np.testing.assert_allclose(vectors, model.encode(texts), atol=1e-6)
    bare = kb.TextEmbedder(model.encoder, preprocessor=model.preprocessor)
    assert not np.allclose(vectors, bare.encode(texts), atol=1e-3)


def softmax(labels):
    return {"objective": "softmax", "labels": labels, "normalize": False}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("0", "1.0", "0.25"), {"objective": "cosine", "labels": None, "score_range": (0.0, 1.0)}),
        (("1.2", "5", "4"), {"objective": "cosine", "labels": None, "score_range": (1.0, 5.0)}),
        (("-1", "0.5", "1"), {"objective": "cosine", "labels": None, "score_range": (-1.0, 1.0)}),
        (("0", "1", "1"), softmax(("0", "1"))),
        (("entailed", "no", "no"), softmax(("entailed", "no"))),
    ],
)
def test_arguments_follow_the_labels(labels, expected):
    assert embedder_arguments(tiny.examples("abc", labels, "def")) == expected


def test_arguments_on_request():
    examples = tiny.examples("abc", ("0", "1", "1"), "def")
    expected = {"objective": "cosine", "labels": None, "score_range": (0.0, 1.0)}
    assert embedder_arguments(examples, objective="cosine") == expected


def test_what_does_not_fit():
    scored, plain = pairs(("0.5", "5.0"), 8), together(8)
    single = dataclasses.replace(plain, pairs=None)
    scores, softmax = {"objective": "cosine"}, {"objective": "softmax", "labels": ["a", "b"]}
    uneven = choices(plain)
    uneven = dataclasses.replace(uneven, choices=(*uneven.choices[:-1], uneven.choices[-1][:2]))
    for arguments, examples, message in (
        (scores, single, "together.csv has single texts"),
        (scores, scored, r"pairs.csv, line \d+: the score 5 is outside .*score_range, 0 to 1"),
        (
            scores,
            pairs(("no", "yes"), 8),
            "pairs.csv, line 2: the label is .*, but this model needs a number",
        ),
        (scores, plain, "together.csv has no labels"),
        (scores, choices(plain), "choices.csv has choices, from which only"),
        (softmax, scored, "the label .* is unknown"),
        ({}, scored, "all its pairs belong together; choose 'cosine' or 'softmax'"),
        ({}, uneven, "choices.csv, line 9: 2 choices, but the first example has 3"),
    ):
        with pytest.raises(kb.InputError, match=message):
            evaluate(embedder(**arguments), examples)


def test_r_drop_compares_labels_not_vectors():
    for arguments in ({}, {"objective": "softmax", "labels": ["no", "yes"]}):
        examples = pairs(("no", "yes"), 8) if arguments else together(8)
        with pytest.raises(kb.InputError, match="r_drop is 1"):
            fine_tune(embedder(**arguments), examples, recipe=Recipe(r_drop=1.0))


def test_another_objective_goes_on_with_the_same_vectors(tmp_path):
    model = embedder(objective="softmax", labels=["no", "yes"], pooling="attention")
    kb.save(model, tmp_path / "model")
    scored = pairs(("0.5", "5.0"), 8)
    again = kb.load(tmp_path / "model", task="embedder", **embedder_arguments(scored))
    assert (again.objective, again.pooling) == ("cosine", "attention")
    assert np.array_equal(again.encode(scored.texts), model.encode(scored.texts))


def test_nothing_to_tell_apart():
    examples = together(8)
    for changes, recipe, message in (
        ({}, Recipe(batch_size=4, gradient_accumulation_steps=4), "has no wrong texts"),
        ({"texts": ("the film",) * 8}, Recipe(), "all first texts are the same"),
    ):
        with pytest.raises(kb.InputError, match=message):
            fine_tune(embedder(), dataclasses.replace(examples, **changes), recipe=recipe)
