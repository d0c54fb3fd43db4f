import functools

import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import keras_bert as kb
from keras_bert.finetuning import QuestionExamples, Recipe, evaluate, fine_tune
from keras_bert.finetuning.evaluation import predict
from keras_bert.finetuning.jobs import job_of, span_classifier
from keras_bert.metrics.squad import squad_scores
from tests.finetuning import tiny

RECIPE = Recipe(epochs=8, batch_size=8, learning_rate=1e-2)


def model(length=16, **arguments):
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(**tiny.NO_DROPOUT)
    return kb.SpanClassifier(encoder, preprocessor=tiny.preprocessor(length), **arguments)


@functools.cache
def narrow_model():
    return model(length=12)


def questions(contexts, answers):
    count = len(contexts)
    return QuestionExamples(
        path="memory.json",
        lines=tuple(range(1, count + 1)),
        unit="question",
        ids=tuple(f"q{i}" for i in range(count)),
        questions=("is the",) * count,
        contexts=tuple(contexts),
        answers=None if answers is None else tuple(map(tuple, answers)),
    )


def opinions(count=48, unanswered=False):
    """The answer is the only kind or unkind word; texts are longer than a window."""
    rng = np.random.default_rng(0)
    contexts, answers = [], []
    for number in range(count):
        words = rng.choice(["film", "book", "was", "a"], 20).tolist()
        place = int(rng.integers(0, 20))
        if not (unanswered and number % 2):
            words[place] = ("good", "bad")[number // 2 % 2]
            answers.append([(words[place], len(" ".join([*words[:place], ""])))])
        else:
            answers.append([])
        contexts.append(" ".join(words))
    return questions(contexts, answers)


def test_learns_to_answer(tmp_path):
    data = opinions()
    result = fine_tune(model(), data, data, recipe=RECIPE, output=tmp_path / "out", verbose=0)
    assert result.validation["f1"] == result.validation["exact_match"] == 1
    assert set(result.validation) == {"loss", "f1", "exact_match"}
    loaded = kb.load(tmp_path / "out" / "model")
    found = loaded.predict_text((list(data.questions), list(data.contexts)))
    assert [(x["answer"], x["start"]) for x in found] == [several[0] for several in data.answers]
    assert evaluate(loaded, data) == pytest.approx(result.validation, abs=1e-6)
    first = predict(loaded, data)[0]
    assert first == {"id": "q0"} | {k: pytest.approx(v) for k, v in found[0].items()}


def test_learns_that_there_is_no_answer(tmp_path):
    data = opinions(unanswered=True)
    span = model(null_threshold=0.0)
    recipe = RECIPE.model_copy(update={"epochs": 12})
    scores = fine_tune(span, data, data, recipe=recipe, verbose=0).validation
    assert scores["f1"] > 0.9
    assert scores["has_answer_f1"] > 0.8
    assert scores["no_answer_f1"] > 0.8
    assert scores["best_f1"] >= scores["f1"]
    # The threshold that is best is best when the model has it. It is that of a question, which
    # rounding, in batches of another size, must not put on the other side.
    span.null_threshold = scores["best_f1_threshold"] + 1e-4
    assert evaluate(span, data)["f1"] == pytest.approx(scores["best_f1"])
    kb.save(span, tmp_path / "saved")
    assert kb.load(tmp_path / "saved").null_threshold == span.null_threshold


def test_scores_and_loss_are_those_of_the_definitions():
    data, span = opinions(12), model(length=32)
    rows = span_classifier.rows(span, data)
    assert len(rows) == 12
    targets = span_classifier.targets(span, data, rows).values
    measured = evaluate(span, data)
    found = span.predict_text((list(data.questions), list(data.contexts)))
    answers = [[text for text, _ in several] for several in data.answers]
    scores = squad_scores([x["answer"] for x in found], answers)
    assert {name: measured[name] for name in scores} == scores
    span.compile(loss=span.default_loss())
    inputs = rows.padded(np.arange(12), multiple=1)
    losses = [
        span.evaluate(
            {name: x[i : i + 1, : rows.lengths[i]] for name, x in inputs.items()},
            {name: x[i : i + 1] for name, x in targets.items()},
            verbose=0,
        )[0]
        for i in range(12)
    ]
    assert measured["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    # As in BERT's run_squad.py: the mean of both, not their sum.
    logits = span(inputs)
    both = [
        np.log(np.exp(logits[name]).sum(axis=1))
        - np.take_along_axis(np.asarray(logits[name]), targets[name][:, None], axis=1)[:, 0]
        for name in span_classifier.OUTPUTS
    ]
    assert measured["loss"] == pytest.approx(np.mean(both), rel=1e-4)


words = st.lists(st.sampled_from(["film", "book", "x", "\u200b", "was a"]), max_size=40)


@given(words, st.integers(0, 250), st.integers(1, 12))
# What ends the answer and its window is a space; a character that the tokenizer drops.
@example(["film", "x", "x", "was a", "was a", "film"], 9, 12)
@example(["film", "x", "x", "was a", "was a", "\u200b", "film"], 9, 13)
@settings(max_examples=60, deadline=None)
def test_targets_are_the_answer_where_it_is_shown(words, start, length):
    context = " ".join(words)
    start %= len(context) or 1
    text = context[start : start + length]
    examples = questions([context], [[(text, start)]] if text.strip() else [[]])
    span = narrow_model()
    rows = span_classifier.rows(span, examples)
    values = span_classifier.targets(span, examples, rows).values
    # The words that the answer touches, each one token; U+200B is none.
    spans, position = [], 0
    for word in context.split(" "):
        if word not in ("", "\u200b"):
            spans.append((position, position + len(word)))
        position += len(word) + 1
    expected = [s for s in spans if s[1] > start and s[0] < start + len(text)]
    expected = expected if text.strip() else []
    shown = 0
    for index in range(len(rows)):
        row = rows.row(index)
        first, last = (int(values[name][index]) for name in span_classifier.OUTPUTS)
        tokens = list(zip(row["starts"].tolist(), row["ends"].tolist(), strict=True))
        if expected and all(s in tokens for s in expected):
            shown += 1
            assert tokens[first : last + 1] == expected
        else:
            assert (first, last) == (0, 0)
    if 0 < len(expected) <= 2:
        assert shown  # windows share more tokens than these


def test_answers_are_needed():
    data = questions(["a film"], None)
    assert predict(model(), data)[0]["id"] == "q0"
    with pytest.raises(kb.InputError, match=r"memory.json has no answers; give some"):
        evaluate(model(), data)


def test_the_job_is_that_of_span_classifiers():
    assert job_of(model()) is span_classifier.JOB
    recipe = RECIPE.model_copy(update={"label_smoothing": 0.1})
    with pytest.raises(kb.InputError, match="a SpanClassifier cannot smooth labels"):
        fine_tune(model(), opinions(), recipe=recipe, verbose=0)
