"""A token classifier learns the tags of words."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import seqeval.metrics

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.finetuning import Recipe, TaggedExamples, evaluate, fine_tune
from keras_bert.finetuning.jobs import job_of, token_classifier
from keras_bert.layers.crf import IGNORED
from keras_bert.tasks.entities import spans_of
from tests.finetuning import tiny

NAMES = ("ada", "bob", "rome", "oslo")
TOKENS = (*tiny.TOKENS, *NAMES, "##s", "##by", "sir", "in", "met", ",")
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
QUICK = Recipe(epochs=12, batch_size=8, learning_rate=1e-2, crf_rate=1)


def tagger(length=16, **arguments):
    keras.utils.set_random_seed(0)
    preprocessor = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(TOKENS)), length)
    encoder = tiny.encoder(vocabulary_size=len(TOKENS))
    arguments = {"labels": LABELS, "scheme": "iob2", "preprocessor": preprocessor, **arguments}
    return kb.TokenClassifier(encoder, **arguments)


def examples(sentences, tags=None):
    """Returns the examples of some sentences, which are lists of words."""
    words = []
    for sentence in sentences:
        ends = itertools.accumulate(len(word) + 1 for word in sentence)
        pairs = zip(sentence, ends, strict=True)
        words.append(tuple((end - 1 - len(word), end - 1) for word, end in pairs))
    return TaggedExamples(
        path="memory.conll",
        lines=tuple(10 * index + 1 for index in range(len(sentences))),
        texts=tuple(" ".join(sentence) for sentence in sentences),
        words=tuple(words),
        tags=None if tags is None else tuple(map(tuple, tags)),
    )


def people(count=48, seed=0):
    """Names of people are the word after "sir", too; those of places follow "in"."""
    generator = np.random.default_rng(seed)
    sentences, tags = [], []
    for _ in range(count):
        person, place = str(generator.choice(NAMES[:2])), str(generator.choice(NAMES[2:]))
        sentence = [
            ["sir", person, "met", "the", "book"],
            ["film", "in", place + "s", "was", "good"],
        ]
        tag_lists = [["B-PER", "I-PER", "O", "O", "O"], ["O", "O", "B-LOC", "O", "O"]]
        order = generator.permutation(2)
        sentences.append([word for index in order for word in sentence[index]])
        tags.append([tag for index in order for tag in tag_lists[index]])
    return examples(sentences, tags)


def long_sentences(count=6, seed=0):
    """Returns sentences of 20 to 120 words.

    Entities have up to four words, and one word has no tokens.
    """
    generator = np.random.default_rng(seed)
    sentences, tags = [], []
    for _ in range(count):
        sentence, own = [], []
        while len(sentence) < generator.integers(20, 120):
            size = int(generator.integers(0, 5))
            label = str(generator.choice(["PER", "LOC"]))
            sentence += [*generator.choice(["adas", "bobbys", "oslo"], size).tolist(), "was"]
            own += [f"{'I' if i else 'B'}-{label}" for i in range(size)] + ["O"]
        sentence[3] = "\u200b"
        sentences.append(sentence)
        tags.append(own)
    return examples(sentences, tags)


@pytest.mark.parametrize("crf", [False, True])
def test_from_examples_to_tags(crf, tmp_path):
    model, data = tagger(crf=crf), people()
    result = fine_tune(model, data, data, recipe=QUICK, output=tmp_path / "out", verbose=0)
    assert list(result.validation) == ["loss", "f1", "precision", "recall", "accuracy"]
    assert result.validation["f1"] > 0.95
    assert result.validation["loss"] < 0.5 * result.history[0]["validation_loss"]

    loaded = kb.load(tmp_path / "out" / "model")
    assert evaluate(loaded, data) == pytest.approx(result.validation, abs=1e-5)
    job = job_of(loaded)
    assert job is token_classifier.JOB
    rows = job.rows(loaded, data)
    predictions = job.predict(loaded, data, rows, loaded.predict_rows(rows))
    assert predictions == loaded.predict_words([text.split(" ") for text in data.texts])
    by_texts = loaded.predict_text(list(data.texts))
    for text, one, other in zip(data.texts, predictions, by_texts, strict=True):
        assert [e["label"] for e in one["entities"]] == [e["label"] for e in other["entities"]]
        assert all(e["text"] == text[e["start"] : e["end"]] for e in one["entities"])


@pytest.mark.parametrize("crf", [False, True])
def test_the_measures_are_those_of_seqeval(crf):
    model, data = tagger(crf=crf), long_sentences(20)
    found = evaluate(model, data)
    predicted = [p["tags"] for p in model.predict_words([t.split(" ") for t in data.texts])]
    right = [list(tags) for tags in data.tags]
    assert 0 < found["accuracy"] < 1
    for name, reference in (
        ("f1", seqeval.metrics.f1_score),
        ("precision", seqeval.metrics.precision_score),
        ("recall", seqeval.metrics.recall_score),
        ("accuracy", seqeval.metrics.accuracy_score),
    ):
        assert found[name] == pytest.approx(reference(right, predicted), abs=1e-9)


def test_every_word_is_labeled_once_at_its_first_token():
    model, data = tagger(), long_sentences()
    rows = token_classifier.rows(model, data)
    assert len(rows) > 3 * len(data)  # long ones have windows
    values = token_classifier.targets(model, data, rows).values
    seen = [[] for _ in data.texts]
    for index in range(len(rows)):
        row, labels = rows.row(index), values[rows.splits[index] : rows.splits[index + 1]]
        for token in np.flatnonzero(labels != IGNORED):
            seen[rows.sample_ids[index]].append((int(row["starts"][token]), LABELS[labels[token]]))
    for words, text, tags, found in zip(data.words, data.texts, data.tags, seen, strict=True):
        assert sorted(found) == [
            (start, label)
            for (start, end), label in zip(words, tags, strict=True)
            if text[start:end] != "\u200b"
        ]


def test_labels_are_continued_on_request():
    data = examples(
        [["adas", "bobby", "was", "in", "oslos"]], [["B-PER", "I-PER", "O", "O", "B-LOC"]]
    )
    expected = {
        False: ["B-PER", "-", "I-PER", "-", "O", "O", "B-LOC", "-"],
        True: ["B-PER", "I-PER", "I-PER", "I-PER", "O", "O", "B-LOC", "I-LOC"],
    }
    for continued, labels in expected.items():
        model = tagger(continue_labels=continued)
        assert model.get_config()["continue_labels"] is continued
        values = token_classifier.targets(model, data, token_classifier.rows(model, data)).values
        found = ["-" if value == IGNORED else LABELS[value] for value in values]
        assert found == ["-", *labels, "-"]
    model, data = tagger(continue_labels=True), long_sentences()
    rows = token_classifier.rows(model, data)
    values, starts = token_classifier.targets(model, data, rows).values, rows.flat["starts"]
    sample_ids = np.repeat(rows.sample_ids, rows.lengths)
    labeled = list(zip(sample_ids[values != IGNORED], starts[values != IGNORED], strict=True))
    assert len(labeled) == len(set(labeled))  # no token has a label in two windows
    for sample, start, value in zip(sample_ids, starts, values, strict=True):
        spans = data.words[sample]
        word = next((i for i, (first, end) in enumerate(spans) if first <= start < end), None)
        if value != IGNORED:
            begins = start == spans[word][0]
            label = data.tags[sample][word]
            assert LABELS[value] == (label if begins else label.replace("B-", "I-"))


def test_a_random_field_learns_no_part_of_an_entity():
    data = long_sentences()
    for scheme in ("iob2", "bioes"):
        labels = [
            "O",
            *(f"{p}-{x}" for x in ("PER", "LOC") for p in ("BI" if scheme == "iob2" else "BIES")),
        ]
        model = tagger(crf=True, labels=labels, scheme=scheme)
        rows = token_classifier.rows(model, data)
        targets = token_classifier.targets(model, data, rows)
        assert targets.mean == "rows"
        labeled = 0
        for index in range(len(rows)):
            ids = targets.values[rows.splits[index] : rows.splits[index + 1]]
            path = [len(labels), *ids[ids != IGNORED], len(labels)]
            labeled += len(path) - 2
            if len(path) > 2:
                assert all(model.crf.allowed[a, b] for a, b in itertools.pairwise(path))
        assert labeled > 0.6 * sum(map(len, data.tags))


def test_loss_is_that_of_training():
    data = long_sentences()
    for crf in (False, True):
        model = tagger(crf=crf)
        rows = token_classifier.rows(model, data)
        targets = token_classifier.targets(model, data, rows).values
        found = evaluate(model, data)["loss"]
        logits = model.predict_rows(rows)
        losses = []
        for index in range(len(rows)):
            ids = targets[rows.splits[index] : rows.splits[index + 1]]
            if crf:
                losses.append(
                    -model.crf.log_likelihood(logits[index][None], ids[None], ids[None] >= 0)
                )
            else:
                pairs = zip(logits[index], ids, strict=True)
                losses += [np.log(np.exp(x).sum()) - x[y] for x, y in pairs if y >= 0]
        assert found == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_measures_do_not_depend_on_the_batches():
    model, data = tagger(crf=True), long_sentences(20)
    expected = evaluate(model, data)
    for size in (1, 7):
        assert evaluate(model, data, batch_size=size) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("crf", [False, True])
def test_words_without_tokens_have_no_loss(crf):
    data = examples([["\u200b"], ["\u200b"]], [["O"], ["O"]])
    found = evaluate(tagger(crf=crf), data)
    assert (found["loss"], found["accuracy"]) == (0, 1)


def test_tags_of_other_schemes_are_converted():
    data = people()
    iob1 = dataclasses.replace(
        data, tags=tuple(tuple(tag.replace("B-", "I-") for tag in tags) for tags in data.tags)
    )
    model = tagger()
    rows = token_classifier.rows(model, data)
    np.testing.assert_array_equal(
        token_classifier.targets(model, iob1, rows).values,
        token_classifier.targets(model, data, rows).values,
    )
    assert evaluate(model, iob1) == evaluate(model, data)


def test_parts_of_speech():
    data = people()
    tags = tuple(tuple("NOUN" if t != "O" else "X" for t in tags) for tags in data.tags)
    data = dataclasses.replace(data, tags=tags)
    model = tagger(labels=["NOUN", "X"], scheme=None)
    result = fine_tune(model, data, data, recipe=QUICK, verbose=0)
    assert list(result.validation) == ["loss", "accuracy"]
    assert result.validation["accuracy"] > 0.95


def test_long_texts_are_tagged_to_their_end():
    model = tagger()
    data = long_sentences(3)
    fine_tune(model, long_sentences(40, seed=1), recipe=QUICK, verbose=0)
    assert evaluate(model, data)["recall"] > 0.3
    for prediction, words in zip(
        model.predict_words([text.split(" ") for text in data.texts]), data.words, strict=True
    ):
        assert len(prediction["tags"]) == len(words)
        spans = [(e["label"], *e["words"]) for e in prediction["entities"]]
        assert spans == spans_of(prediction["tags"])
        assert max(end for _, _, end in spans) > 0.7 * len(words)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda data: dataclasses.replace(data, tags=(*data.tags[:-1], ("B-PERS",) * 10)),
            "memory.conll, line 471: the tag 'B-PERS' of .* is unknown. Did you mean 'B-PER'",
        ),
        (lambda data: dataclasses.replace(data, tags=None), "memory.conll has no tags"),
        (lambda _: examples([[], []], [[], []]), "memory.conll has no words"),
    ],
)
def test_what_cannot_be_learned(change, message):
    with pytest.raises(InputError, match=message):
        fine_tune(tagger(), change(people()), verbose=0)


def test_what_has_no_tags_or_no_words_is_tagged():
    model = tagger(crf=True)
    data = examples([["ada", "was"], [], ["\u200b"]])
    rows = token_classifier.rows(model, data)
    found = token_classifier.predict(model, data, rows, model.predict_rows(rows))
    assert [len(each["tags"]) for each in found] == [2, 0, 1]
    assert found[2]["tags"] == ["O"]
