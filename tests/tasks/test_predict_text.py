import functools
import itertools
import json
import time

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert as kb
from keras_bert.layers.crf import IGNORED
from keras_bert.tasks.entities import spans_of
from keras_bert.text.words import split_words
from tests.jax_backend import run_on_jax
from tests.marks import others_swept
from tests.text import stress
from tests.text.test_loading import KINDS

LABELS = ["O", "B-X", "I-X", "B-Y", "I-Y"]
TASKS = {
    "classifier": lambda e, **k: kb.SequenceClassifier(e, 3, **k),
    "token_classifier": lambda e, **k: kb.TokenClassifier(e, labels=LABELS, **k),
    "token_classifier, crf": lambda e, **k: kb.TokenClassifier(
        e, labels=LABELS, crf=True, scheme="iob2", **k
    ),
    "span_classifier": lambda e, **k: kb.SpanClassifier(e, **k),
    "span_classifier, threshold": lambda e, **k: kb.SpanClassifier(e, null_threshold=0.0, **k),
    "choice": lambda e, **k: kb.MultipleChoice(e, **k),
}


def make(task, tokenizer, length=12, seed=0, **options):
    """A model with random weights of a size at which it has opinions."""
    config = kb.EncoderConfig(
        vocabulary_size=len(tokenizer.vocabulary),
        **{"hidden_size": 8, "num_heads": 2, "num_layers": 1, "intermediate_size": 16},
        max_positions=length,
    )
    preprocessor = kb.Preprocessor(tokenizer, length)
    model = TASKS[task](kb.Encoder(config), preprocessor=preprocessor, **options)
    generator = np.random.default_rng(seed)
    for variable in model.weights:
        variable.assign(generator.normal(0.0, 0.7, variable.shape))
    return model


@functools.cache
def small(task, kind="wordpiece", length=12):
    return make(task, KINDS[kind](), length)


def leaves(outputs):
    return list(outputs.values()) if isinstance(outputs, dict) else [outputs]


@pytest.mark.parametrize("task", ["classifier", "token_classifier", "span_classifier", "choice"])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_predict_rows_is_the_model_on_each_row(task, batch_size):
    model = small(task, length=80)
    texts = ["the cat " * n for n in (0, 30, 3, 12, 1, 7, 39, 20, 3)]
    rows = model.rows(texts)
    found = leaves(model.predict_rows(rows, batch_size))
    for index in range(len(rows)):
        inputs = {n: x for n, x in rows.padded([index], multiple=1).items() if n != "padding_mask"}
        if task == "choice":
            inputs = {name: x[:, None] for name, x in inputs.items()}
        for output, expected in zip(found, leaves(model(inputs)), strict=True):
            np.testing.assert_allclose(output[index], expected[0], atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_no_texts(task):
    model = small(task)
    texts = [] if task.startswith(("classifier", "token_classifier")) else ([], [])
    assert model.predict_text(texts) == []
    assert all(output == [] for output in leaves(model.predict_rows(model.rows(texts))))


def tags_by_hand(model, text, words):
    """Returns the tag of each word, for texts that fit into one row."""
    logits = np.asarray(model(model.preprocessor([text])))[0]
    _, starts, ends = model.preprocessor.tokenizer.tokenize_with_offsets([text])
    known, firsts = [], []
    for number, (first, end) in enumerate(words):
        for place, (a, b) in enumerate(zip(starts[0].numpy(), ends[0].numpy(), strict=True)):
            while a < b and text[a].isspace():
                a += 1
            if first <= a < end and a < b:
                known.append(number)
                firsts.append(place + 1)  # after [CLS]
                break
    return known, logits[firsts]


texts = st.lists(
    st.sampled_from(["the", "cat", "a", "x", "é", "cats", "🙂\u200b", ","]), max_size=6
)


@pytest.mark.parametrize("kind", KINDS)
@given(texts)
@settings(max_examples=10, deadline=None)
def test_a_word_has_the_label_of_its_first_token(kind, words):
    text, model = " ".join(words), small("token_classifier", kind, 40)
    known, logits = tags_by_hand(model, text, split_words(text))
    expected = ["O"] * len(split_words(text))
    for word, row in zip(known, logits, strict=True):
        expected[word] = LABELS[row.argmax()]
    spans = split_words(text)
    found = model.predict_words([[text[start:end] for start, end in spans]])[0]
    if all(b[0] > a[1] for a, b in itertools.pairwise(spans)):  # each after a space
        assert found["tags"] == expected
    entities = model.predict_text([text])[0]["entities"]
    assert [(x["label"], x["start"], x["end"]) for x in entities] == [
        (label, spans[first][0], spans[end - 1][1]) for label, first, end in spans_of(expected)
    ]
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    by_word = dict(zip(known, probabilities.max(-1).tolist(), strict=True))
    for entity, (_, first, end) in zip(entities, spans_of(expected), strict=True):
        assert entity["score"] == pytest.approx(np.mean([by_word[i] for i in range(first, end)]))


def test_a_random_field_sees_the_words_of_all_windows():
    model = small("token_classifier, crf")
    words = ["the", "cat", "\u200b", "a", "x"] * 8
    rows = model.rows([" ".join(words)], overlap="auto", offsets=True)
    assert len(rows) > 3
    kept = rows.flat["is_max_context"]  # one token a word, but for U+200B, which has none
    logits = np.concatenate(model.predict_rows(rows))[kept][None]
    assert logits.shape == (1, 32, 5)
    mask = np.ones((1, 32), bool)
    best, marginals = (
        np.asarray(f(logits, mask))[0] for f in (model.crf.decode, model.crf.marginals)
    )
    found = model.predict_words([words])[0]
    tags = iter([LABELS[i] for i in best])
    expected = ["O" if word == "\u200b" else next(tags) for word in words]
    assert found["tags"] == expected
    scores = iter(marginals[np.arange(32), best].tolist())
    scores = [1.0 if word == "\u200b" else next(scores) for word in words]
    for entity in found["entities"]:
        assert entity["score"] == pytest.approx(np.mean(scores[slice(*entity["words"])]), rel=1e-4)


def test_texts_are_independent_of_each_other():
    for task in ("token_classifier", "token_classifier, crf"):
        model = small(task)
        words = [["the", "cat"] * n for n in (0, 20, 1, 700, 3)]  # 1400: longer than a path
        together = model.predict_words(words)
        for own, found in zip(words, together, strict=True):
            alone = model.predict_words([own], batch_size=7)[0]
            assert found["tags"] == alone["tags"]
            assert len(found["tags"]) == len(own)


anything = st.lists(
    st.one_of(
        st.sampled_from([" ", "\n", "the", "cat", "e\u0301", "\u200b", "[MASK]", "🙂", "\ud800"]),
        st.text(max_size=6),
    ),
    max_size=40,
).map("".join)


def assert_slices(text, results):
    for result in results:
        assert result["text"] == text[result["start"] : result["end"]]
        assert result["text"]
        assert 0 < result["score"] <= 1 + 1e-6


@pytest.mark.parametrize("kind", others_swept(KINDS))
@given(st.lists(anything, min_size=1, max_size=3))
@settings(max_examples=12, deadline=None)
def test_what_is_found_is_a_slice_of_the_text(kind, texts):
    for task in ("token_classifier", "token_classifier, crf"):
        for text, found in zip(texts, small(task, kind).predict_text(texts), strict=True):
            assert_slices(text, found["entities"])
            edges = [x[e] for x in found["entities"] for e in ("start", "end")]
            assert edges == sorted(edges)
    for task in ("span_classifier", "span_classifier, threshold"):
        pairs = ([text[::-1] for text in texts], texts)
        for text, found in zip(texts, small(task, kind).predict_text(pairs, n_best=3), strict=True):
            for answer in (found, *found["n_best"]):
                assert answer["answer"] == text[answer["start"] : answer["end"]]
                assert answer["answer"] == answer["answer"].strip()
                assert 0 <= answer["score"] <= 1


@pytest.mark.parametrize("name", ["bert-base-cased", "roberta-base", "deberta-v3"])
@pytest.mark.parametrize("step", others_swept([15, 1]))
def test_slices_of_hard_lines(name, step, shared_data):
    texts = [line["text"] for line in stress.stress_lines(shared_data)][::step]
    tokenizer = stress.TOKENIZERS[name][0](shared_data / f"vocabs/{name}")
    found = make("token_classifier, crf", tokenizer, 48).predict_text(texts, batch_size=256)
    assert sum(len(x["entities"]) for x in found) > len(texts)
    for text, each in zip(texts, found, strict=True):
        assert_slices(text, each["entities"])
    span = make("span_classifier", tokenizer, 48)
    for text, each in zip(texts, span.predict_text((texts, texts), batch_size=256), strict=True):
        assert each["answer"] == text[each["start"] : each["end"]]


def test_long_texts():
    words = ["the", "cat", "x😀", "a"] * 25_000
    text = " ".join(words)
    began = time.perf_counter()
    for task in ("token_classifier", "token_classifier, crf"):
        found = small(task, length=128).predict_words([words], batch_size=64)[0]
        assert len(found["tags"]) == len(words)
        assert_slices(text, found["entities"])
    pair = (["x", ""], [text, "the cat"])
    answer = small("span_classifier", length=128).predict_text(pair, batch_size=64)[0]
    assert answer["answer"] == text[answer["start"] : answer["end"]]
    assert time.perf_counter() - began < 120  # about 10 seconds


def test_answers_are_found_wherever_they_stand():
    """A model that takes "cat" for an answer finds the one in a text of many windows."""
    model = make("span_classifier", KINDS["wordpiece"](), 24)
    vocabulary = model.preprocessor.vocabulary
    table = np.zeros((len(vocabulary), 8), "float32")
    table[vocabulary.id_of("cat"), 0] = 10
    for variable in model.encoder.weights:
        variable.assign(np.zeros(variable.shape))
    embeddings = model.encoder.embeddings
    embeddings.token_embedding.assign(table)
    for layer in model.encoder._flatten_layers():
        if isinstance(layer, keras.layers.LayerNormalization):
            layer.gamma.assign(np.ones(8))
    kernel = next(v for v in model.head.weights if len(v.shape) == 2)
    kernel.assign(np.eye(8, 1) * np.ones(2))  # both logits are the first value
    for place in (0, 9, 10, 17, 25, 99):
        words = ["the"] * 100
        words[place] = "cat"
        found = model.predict_text((["a x"], [" ".join(words)]))[0]
        assert (found["answer"], found["start"]) == ("cat", 4 * place)


@pytest.mark.parametrize(
    ("task", "call", "message"),
    [
        ("token_classifier", lambda m: m.predict_text([3]), "Text 0 is 3, but must be a string"),
        (
            "token_classifier",
            lambda m: m.predict_words(["the cat"]),
            "Sentences must be lists of words",
        ),
        (
            "token_classifier",
            lambda m: m.predict_words([[None]]),
            "Text 0 is None, but must be a string",
        ),
        (
            "span_classifier",
            lambda m: m.predict_text(["a"]),
            "a tuple of two lists, the questions and",
        ),
        ("span_classifier", lambda m: m.predict_text((["a"], [])), "same number of texts"),
        (
            "span_classifier",
            lambda m: m.predict_text((["a"], ["b"]), n_best=0),
            "n_best is 0, but must",
        ),
        (
            "span_classifier",
            lambda m: m.predict_text((["a"], ["b"]), max_answer_tokens=0),
            "max_answer_tokens is 0, but must be 1 or more",
        ),
        (
            "choice",
            lambda m: m.predict_text(["a"]),
            "two lists, the texts and a list of",
        ),
        ("choice", lambda m: m.predict_text((["a"], [])), "1 texts have 0 lists of choices"),
        ("choice", lambda m: m.predict_text((["a"], [[]])), r"choices of text 0 are \[\], but"),
        ("choice", lambda m: m.predict_text((["a"], ["b"])), "choices of text 0 are 'b', but"),
    ],
)
def test_bad_input(task, call, message):
    with pytest.raises(kb.InputError, match=message):
        call(small(task))


def test_arguments_of_a_tagger():
    model = make("token_classifier", KINDS["wordpiece"]())
    with pytest.raises(kb.InputError, match="no scheme 'iob'. Did you mean 'iob"):
        kb.TokenClassifier(model.encoder, labels=LABELS, scheme="iob")


def test_choices_are_scored_each_by_itself():
    model = small("choice", length=16)
    choices = [["the cat", "a"], ["x"], ["a", "x", "the cat the cat"]]
    found = model.predict_text((["the", "a cat", ""], choices))
    for context, own, result in zip(["the", "a cat", ""], choices, found, strict=True):
        inputs = model.preprocessor(([context] * len(own), own))
        logits = np.asarray(model({name: x[None] for name, x in inputs.items()}))[0]
        weights = np.exp(logits - logits.max())
        assert result["scores"] == pytest.approx(weights / weights.sum(), abs=1e-5)
        assert result["text"] == own[result["choice"]] == own[logits.argmax()]


def labeled(model):
    rows = model.rows(["the cat x", "a", ""])
    inputs = rows.padded([0, 1, 2])
    tags = np.full(inputs["token_ids"].shape, IGNORED)
    tags[0, [1, 3]] = 1, 2  # a hole between
    tags[1, 1] = 3
    return inputs, tags


def test_the_loss_of_a_random_field():
    model = make("token_classifier, crf", KINDS["wordpiece"](), 16)
    inputs, tags = labeled(model)
    logits = model(inputs)
    likelihood = np.asarray(model.crf.log_likelihood(logits, tags, tags != IGNORED))
    assert likelihood[2] == 0
    model.compile(keras.optimizers.Adam(0.05), model.default_loss())
    assert model.evaluate(inputs, tags, verbose=0) == pytest.approx(-likelihood.mean(), rel=1e-5)
    weights = np.array([2.0, 0.5, 3.0])
    weighted = model.evaluate(inputs, tags, sample_weight=weights, verbose=0)
    assert weighted == pytest.approx(-(weights * likelihood).mean(), rel=1e-5)
    before = np.asarray(model.crf.transitions)
    losses = model.fit(inputs, tags, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.2 * losses[0]
    assert not np.allclose(before, model.crf.transitions)


def test_the_loss_of_a_tagger_is_the_mean_over_labeled_tokens():
    model = make("token_classifier", KINDS["wordpiece"](), 16)
    inputs, tags = labeled(model)
    logits = np.asarray(model(inputs), "float64")
    chosen = tags != IGNORED
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -np.take_along_axis(log_probabilities[chosen], tags[chosen][:, None], 1).mean()
    model.compile(loss=model.default_loss())
    assert model.evaluate(inputs, tags, verbose=0) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_saved_models_predict_the_same(task, tmp_path):
    model = make(task, KINDS["wordpiece"]())
    texts = ["the cat " * 10, "", "a x"]
    if task.startswith("span_classifier"):
        texts = (["a", "", "x"], texts)
    elif task == "choice":
        texts = (texts, [["a", "the cat"]] * 3)
    expected = model.predict_text(texts)
    kb.save(model, tmp_path / "native")
    model.save(tmp_path / "model.keras")
    for loaded in (kb.load(tmp_path / "native"), keras.models.load_model(tmp_path / "model.keras")):
        assert loaded.predict_text(texts) == expected
        assert loaded.get_config() | {"name": model.name} == model.get_config()


JAX_PROGRAM = """
import json, sys
import keras, numpy as np
import keras_bert as kb

assert keras.backend.backend() == "jax"
model = kb.load(sys.argv[1] + "/model")
texts = json.loads(open(sys.argv[1] + "/texts.json").read())
json.dump(model.predict_text(texts), open(sys.argv[1] + "/found.json", "w"))
assert model.predict_text([]) == []
inputs = model.rows(texts).padded(range(len(texts)))
tags = np.where(inputs["padding_mask"], 1, -1)
model.compile(keras.optimizers.Adam(0.05), model.default_loss())
losses = model.fit(inputs, tags, epochs=10, verbose=0).history["loss"]
assert losses[-1] < 0.5 * losses[0], losses
"""


@pytest.mark.sweep
def test_the_same_entities_and_training_on_jax(tmp_path):
    model = make("token_classifier, crf", KINDS["wordpiece"]())
    texts = ["the cat " * 10, "", "a x", "the a cat the"]
    kb.save(model, tmp_path / "model")
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    run_on_jax(JAX_PROGRAM, str(tmp_path))
    found = json.loads((tmp_path / "found.json").read_text())
    for one, two in zip(found, model.predict_text(texts), strict=True):
        for a, b in zip(one["entities"], two["entities"], strict=True):
            assert a == b | {"score": pytest.approx(b["score"], abs=1e-4)}
