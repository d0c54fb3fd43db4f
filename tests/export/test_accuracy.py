"""A quantized file is written if the task's metric stays within the limit."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from keras_bert import InputError, export
from keras_bert.export._saved_model import convert as saved_model
from keras_bert.export._tflite import convert
from keras_bert.export._verify.accuracy import AccuracyCheck, measured, official_metric
from keras_bert.export.artifact_checks import ExportError
from keras_bert.export.process import running
from keras_bert.finetuning import (
    ChoiceExamples,
    QuestionExamples,
    TaggedExamples,
    TextExamples,
    evaluate,
)
from keras_bert.text.words import split_words
from tests.marks import others_swept

from .conftest import make_model, scramble

TEXTS = tuple(
    f"the {thing} was {verdict}{end}"
    for thing in ("film", "bad film", "good good film", "xyz", "good")
    for verdict in ("good", "bad", "as good as bad", "a b c d e f g h")
    for end in ("", " !", ". the film", " ? a b c the bad good film was good")
)


FILE = {"path": "dev.csv", "lines": tuple(range(len(TEXTS)))}


def texts(labels, **others):
    return TextExamples(**FILE, texts=TEXTS, labels=tuple(labels), **others)


def cycle(values):
    return [str(values[i % 7 % len(values)]) for i in range(len(TEXTS))]


def tagged(labels):
    words = tuple(tuple(split_words(text)) for text in TEXTS)
    tags = tuple(
        tuple(labels[len(t) * i % 3] for i, _ in enumerate(w))
        for t, w in zip(TEXTS, words, strict=True)
    )
    return TaggedExamples(**FILE, texts=TEXTS, words=words, tags=tags)


def questions():
    contexts = tuple(f"{text} . {' '.join(['the good film'] * 12)} . bad" for text in TEXTS)
    ids, asked = tuple(map(str, range(len(TEXTS)))), ("was the film good ?",) * len(TEXTS)
    answers = tuple((("the", 0), ("bad", text.rindex("bad"))) for text in contexts)
    return QuestionExamples(**FILE, ids=ids, questions=asked, contexts=contexts, answers=answers)


def choices():
    pairs = tuple(zip(TEXTS, TEXTS[::-1], strict=True))
    labels = tuple(i % 2 for i in range(len(TEXTS)))
    return ChoiceExamples(**FILE, contexts=TEXTS, choices=pairs, labels=labels)


LABELS = ("O", "B-A", "I-A")
TASKS = {
    "classifier": ({"labels": ["0", "1"]}, lambda: texts(cycle("01")), "accuracy"),
    "multi_label": (
        {"labels": ["a", "b"], "problem_type": "multi_label"},
        lambda: texts([("a",), ("b",), ("a", "b"), ()] * (len(TEXTS) // 4)),
        "micro_f1",
    ),
    "regression": (
        {"num_labels": 1, "problem_type": "regression"},
        lambda: texts(cycle((0.5, 1.5, 4))),
        "pearson",
    ),
    "token_classifier": (
        {"labels": LABELS, "crf": True, "scheme": "iob2"},
        lambda: tagged(("O", "B-A", "B-A")),
        "f1",
    ),
    "span_classifier": ({}, questions, "f1"),
    "multiple_choice": ({}, choices, "accuracy"),
    "embedder": ({}, lambda: texts((), pairs=TEXTS[::-1]), "accuracy_at_1"),
}


def make(name, preprocessor):
    task = name if name not in ("multi_label", "regression") else "classifier"
    arguments, examples, metric = TASKS[name]
    data = examples()
    if name == "embedder":
        data = dataclasses.replace(data, labels=None)
    return make_model(task, arguments, preprocessor), data, metric


@pytest.mark.parametrize("name", others_swept(TASKS, quick=("classifier", "token_classifier")))
def test_an_artifact_is_measured_as_the_model(name, preprocessor, tmp_path):
    model, examples, metric = make(name, preprocessor)
    assert official_metric(model) == metric
    expected = evaluate(model, examples)
    export.onnx(model, tmp_path / "a.onnx")
    with running(tmp_path / "a.onnx") as process:
        assert measured(model, examples, process).points == pytest.approx(
            100 * expected[metric], abs=1e-3
        )
    assert measured(model, examples).points == 100 * expected[metric]


@pytest.fixture(scope="module")
def judged(preprocessor):
    """A classifier to which no label is likelier than another, and examples it gets right."""
    model = make_model(arguments={"labels": ["no", "yes", "mäßig"]}, preprocessor=preprocessor)
    bias = next(weight for weight in model.head.weights if weight.shape == (3,))
    bias.assign(bias - np.mean(model.predict_rows(model.rows(list(TEXTS))), axis=0))
    labels = [answer["label"] for answer in model.predict_text(list(TEXTS))]
    assert len(set(labels)) > 1
    return model, texts(labels)


def test_accepted_and_refused(judged, tmp_path, monkeypatch):
    classifier, right = judged
    path = tmp_path / "small.tflite"
    check = export.check_accuracy(classifier, path, right, 10, quantize="float16")
    assert check.model == 100
    assert check.drop <= 10
    assert str(check).startswith("accuracy ")
    before = path.read_bytes()

    other = scramble(make_model(arguments={"labels": classifier.labels}), seed=9)
    write = export.tflite
    monkeypatch.setattr(convert, "tflite", lambda model, path: write(other, path))
    message = (
        r"small.tflite is refused: accuracy \d+\.\d\d of 100, Keras 100.00, on 80 examples "
        r"\(\d+ lost, 0 gained, p = [\d.e-]+\) of dev.csv, a drop of \d+\.\d\d where 0.5 is "
        r"allowed; nothing was written"
    )
    with pytest.raises(ExportError, match=message) as error:
        export.check_accuracy(classifier, path, right)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["small.tflite"]


@pytest.mark.parametrize(
    ("lost", "gained", "p_value"),
    [(3, 0, 1 / 8), (4, 1, 6 / 32), (5, 0, 1 / 32), (0, 0, 1), (1, 9, 1023 / 1024)],
)
def test_the_exact_test_of_mcnemar(lost, gained, p_value):
    """The probabilities are sums of binomial coefficients, counted by hand."""
    check = AccuracyCheck("accuracy", 92, 92 - (lost - gained) / 5, 500, lost, gained)
    assert check.p_value == pytest.approx(p_value)
    assert check.is_within(0.5) == (p_value > 0.05)
    assert check.is_within(2)
    assert str(check).endswith(f"on 500 examples ({lost} lost, {gained} gained, p = {p_value:.2g})")


def test_a_task_without_labels_has_the_limit_alone():
    check = AccuracyCheck("pearson", 90, 89.4, 10_000)
    assert check.p_value is None
    assert check.is_within(0.7)
    assert not check.is_within(0.5)
    assert str(check) == "pearson 89.40 of 100, Keras 90.00, on 10,000 examples"


def test_a_few_lost_labels_may_be_chance(judged, tmp_path, monkeypatch):
    """The file of another model loses three labels and gains two: more than 0.5 points."""
    classifier, _ = judged
    other = scramble(make_model(arguments={"labels": classifier.labels}), seed=9)
    other.preprocessor = classifier.preprocessor
    mine, theirs = ([a["label"] for a in m.predict_text(list(TEXTS))] for m in (classifier, other))
    differ = [i for i in range(len(TEXTS)) if mine[i] != theirs[i]]
    same = [i for i in range(len(TEXTS)) if mine[i] == theirs[i]]
    labels = [theirs[i] if i in differ[3:] else mine[i] for i in range(len(TEXTS))]
    examples = texts(labels).take(same + differ[:5])
    write = export.tflite
    monkeypatch.setattr(convert, "tflite", lambda model, path: write(other, path))
    check = export.check_accuracy(classifier, tmp_path / "a.tflite", examples)
    assert (check.lost, check.gained, check.p_value) == (3, 2, 0.5)
    assert check.drop == pytest.approx(100 / len(examples))
    assert check.drop > 0.5
    assert (tmp_path / "a.tflite").exists()


def test_a_file_of_one_length_is_measured_at_that_length(judged, preprocessor, tmp_path):
    classifier, right = judged
    export.tflite(classifier, tmp_path / "short.tflite", sequence_length=6)
    with running(tmp_path / "short.tflite") as process:
        found = measured(classifier, right, process).points
    assert classifier.preprocessor is preprocessor
    short = make_model(
        preprocessor=preprocessor.with_length(6), arguments={"labels": classifier.labels}
    )
    short.set_weights(classifier.get_weights())
    assert found == pytest.approx(measured(short, right).points, abs=1e-6)
    assert found < 100


@pytest.mark.filterwarnings("error:divide by zero")
def test_scores_alone_are_enough(judged):
    classifier, right = judged
    names = ("token_ids", "segment_ids", "padding_mask")
    signature = {"inputs": {name: [-1, -1] for name in names}, "outputs": ["scores"]}

    def run(signature, inputs):
        scores = np.asarray(classifier.scores(classifier(inputs)))
        return {"scores": np.where(scores < 0.1, 0, scores)}

    process = SimpleNamespace(run=run, signatures={"serving_default": signature})
    assert measured(classifier, right, process).points == pytest.approx(100)


def test_bad_arguments(judged, tmp_path):
    classifier, right = judged
    with pytest.raises(
        InputError, match="This MaskedLanguageModel has no metric on labeled examples"
    ):
        export.check_accuracy(make_model("masked_lm"), tmp_path / "a.onnx", right)
    with pytest.raises(InputError, match="a quantized file must end in .tflite or .onnx"):
        export.check_accuracy(classifier, tmp_path / "a.txt", right, quantize="dynamic")
    with pytest.raises(InputError, match="version is -1, but must be 0 or more"):
        export.check_accuracy(classifier, tmp_path / "served", right, version=-1)
    with pytest.raises(InputError, match="max_drop is -1, but must be 0 points or more"):
        export.check_accuracy(classifier, tmp_path / "a.onnx", right, -1)
    with pytest.raises(InputError, match=r"dev.csv, line 0: the label 'perhaps' is unknown"):
        export.check_accuracy(classifier, tmp_path / "a.onnx", texts(["perhaps"] * len(TEXTS)))
    with pytest.raises(InputError, match="There is no quantization 'int4'"):
        export.check_accuracy(classifier, tmp_path / "a.tflite", right, quantize="int4")
    regression = make_model(
        arguments={"num_labels": 1, "problem_type": "regression"},
        preprocessor=classifier.preprocessor,
    )
    with pytest.raises(InputError, match="On dev.csv, pearson of the model is not a number"):
        export.check_accuracy(regression, tmp_path / "a.tflite", texts(["1"] * len(TEXTS)))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_file_that_takes_texts(judged, tmp_path):
    classifier, right = judged
    export.tflite(classifier, tmp_path / "text.tflite", text=True)
    report = export.verify(
        classifier, [tmp_path / "text.tflite"], list(TEXTS[:9]), 0, examples=right
    )
    assert [row.takes for row in report.rows] == ["text"]
    assert report.rows[0].difference <= 1e-5
    assert report.rows[0].points == report.points == 100
    assert str(report).endswith("accuracy, of 100, on 80 examples; Keras: 100.00.")


@pytest.mark.slow
def test_texts_alone_judge_no_tagger(preprocessor, tmp_path):
    model, examples, _ = make("token_classifier", preprocessor)
    export.tflite(model, tmp_path / "text.tflite", text=True)
    with (
        running(tmp_path / "text.tflite") as process,
        pytest.raises(InputError, match="the metric of a TokenClassifier can be measured only"),
    ):
        measured(model, examples, process)


def test_a_saved_model_is_judged(judged, tmp_path, monkeypatch):
    classifier, right = judged
    place, options = tmp_path / "served", {"dtype": "bfloat16", "logits": True}
    check = export.check_accuracy(classifier, place, right, 20, version=1, **options)
    assert check.model == 100
    assert check.drop <= 20
    warm_up = (place / "1" / saved_model.WARM_UP).read_bytes()
    assert b"served" in warm_up
    export.saved_model(classifier, place, version=2)

    write = saved_model.saved_model
    other = scramble(make_model(arguments={"labels": classifier.labels}), seed=9)
    other.preprocessor = classifier.preprocessor
    monkeypatch.setattr(saved_model, "saved_model", lambda model, path: write(other, path))
    before = (place / "2" / "saved_model.pb").read_bytes()
    with pytest.raises(ExportError, match="served/2 is refused: accuracy"):
        export.check_accuracy(classifier, place, right, version=2)
    assert (place / "2" / "saved_model.pb").read_bytes() == before
    assert sorted(path.name for path in place.iterdir()) == ["1", "2"]
    with pytest.raises(InputError, match="not empty"):
        export.check_accuracy(classifier, place, right)
