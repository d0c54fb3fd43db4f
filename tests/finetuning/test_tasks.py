"""Reading examples and making models by the name of a task."""

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import finetuning
from keras_bert.distribution import strategy
from keras_bert.errors import InputError
from keras_bert.finetuning.examples import ChoiceExamples, QuestionExamples, TaggedExamples
from tests.finetuning import tiny

CSV = "title,tone,topic\nthe film was good,1,0\na book,0,1\n"


@pytest.fixture
def table(tmp_path):
    (tmp_path / "table.csv").write_text(CSV)
    return tmp_path / "table.csv"


def test_one_label_column_or_several(table):
    examples = finetuning.read("classifier", table, text_column="title", label_column="tone")
    assert (examples.texts[1], examples.labels) == ("a book", ("1", "0"))
    columns = {"text_column": "title", "label_column": ["tone", "topic"]}
    assert finetuning.read("classifier", table, **columns).labels == (("tone",), ("topic",))


def test_options_that_a_task_does_not_have(table):
    with pytest.raises(InputError, match="token_classifier has no option 'choice_column'"):
        finetuning.read("token_classifier", table, choice_column=("a", "b"))
    with pytest.raises(InputError, match="no option 'textcolumn'. Did you mean 'text_column'"):
        finetuning.read("classifier", table, textcolumn="title")
    data = tiny.examples(["good", "bad"], ["1", "0"])
    with pytest.raises(InputError, match="classifier has no option 'crf'. It has problem_type"):
        finetuning.new_model("classifier", tiny.encoder(), data, crf=True)


def test_auto_is_the_precision_that_the_device_is_fast_in(tmp_path, monkeypatch):
    encoder = tiny.encoder()
    encoder.preprocessor = tiny.preprocessor()
    kb.save(encoder, tmp_path / "encoder")
    for precision in ("mixed_bfloat16", "float32"):
        monkeypatch.setattr(strategy, "fast_precision", lambda _, p=precision: (p, "of a test"))
        made = finetuning.new_model(
            "classifier", tmp_path / "encoder", tiny.opinions(), dtype="auto"
        )
        assert made.encoder.dtype_policy.name == precision


def test_a_model_from_a_directory_or_an_encoder(tmp_path):
    encoder = tiny.encoder()
    encoder.preprocessor = tiny.preprocessor()
    kb.save(encoder, tmp_path / "encoder")
    data = tiny.examples(["good", "bad"], ["yes", "no"])
    options = {"sequence_length": 8, "pooling": "mean"}
    models = [
        finetuning.new_model("classifier", source, data, **options)
        for source in (encoder, tmp_path / "encoder")
    ]
    for model in models:
        assert (model.labels, model.pooling) == (("no", "yes"), "mean")
        assert model.preprocessor.sequence_length == 8
    assert models[0].encoder is encoder
    for ours, loaded in zip(*(model.encoder.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(ours, loaded)


def test_examples_from_lines():
    texts = finetuning.TextExamples.from_lines(["a\tb", "c\td"], pairs=True, first=5)
    assert (texts.texts, texts.pairs, texts.lines) == (("a", "c"), ("b", "d"), (5, 6))
    assert texts.shown(1) == {"text": "c", "pair": "d"}
    assert finetuning.TextExamples.from_lines(["a\tb"]).texts == ("a\tb",)
    assert TaggedExamples.from_lines(["a bc"]).words == (((0, 1), (2, 4)),)
    assert QuestionExamples.from_lines(["a?\tb"], first=3).shown(0) == {"id": "3", "question": "a?"}
    choices = ChoiceExamples.from_lines(["a\tb\tc"])
    assert (choices.choices, choices.shown(0)) == ((("b", "c"),), {"context": "a"})


@pytest.mark.parametrize(
    ("kind", "line", "pairs"),
    [
        (finetuning.TextExamples, "a", True),
        (TaggedExamples, "a\tb", True),
        (TaggedExamples, "a", True),
        (QuestionExamples, "a\tb\tc", False),
        (ChoiceExamples, "a", False),
    ],
)
def test_lines_of_another_form(kind, line, pairs):
    with pytest.raises(InputError, match=f"{line[:1]}.*cannot be used: expected"):
        kind.from_lines([line], pairs=pairs)


def test_a_report_of_words_without_entities():
    model = kb.TokenClassifier(tiny.encoder(), labels=["N", "V"])
    examples = TaggedExamples(
        path="a", lines=(1,), texts=("a b",), words=(((0, 1), (2, 3)),), tags=(("N", "V"),)
    )
    report = finetuning.label_report(model, examples, [{"tags": ["N", "N"]}])
    assert (report["N"]["recall"], report["N"]["precision"], report["V"]["recall"]) == (1, 0.5, 0)


def test_a_report_counts_entities_although_no_scheme_is_named():
    """As in models of transformers, whose configurations have only labels."""
    model = kb.TokenClassifier(tiny.encoder(), labels=["O", "B-A", "I-A"])
    examples = TaggedExamples(
        path="a", lines=(1,), texts=("a b",), words=(((0, 1), (2, 3)),), tags=(("B-A", "I-A"),)
    )
    report = finetuning.label_report(model, examples, [{"tags": ["B-A", "O"]}])
    assert (report["A"]["recall"], report["A"]["support"]) == (0, 1)
    assert "B-A" not in report


@pytest.mark.parametrize("task", ["classfier", "masked_lm", "job"])
def test_a_task_that_is_none(task, table):
    with pytest.raises(InputError, match=f"There is no task '{task}' to fine-tune"):
        finetuning.read(task, table)
