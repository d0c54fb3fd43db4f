"""MediaPipe and the Task Library run our files in their own environment: `make test-phone`."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from keras_bert import export

from .conftest import make_model
from .test_tflite_metadata import LABELS

pytestmark = pytest.mark.phone

TEXTS = [  # of which the tokenizers there make the same tokens
    "The film was good!",
    "",
    "GOOD bad, film? the-film.",
    "中 x中y zzz",
    "good film " * 100,
    "unheard-of words: qwertyuiop",
]
OTHER = "the \u00e9clair"  # accents stay there
QUESTION = "was the film good?"
CONTEXT = "the bad film was x. good film, the good film was the y z and bad"
_KEPT, _LONGEST = 5, 32  # of starts and of ends; tokens of an answer


@pytest.fixture(scope="module")
def answers(preprocessor, tmp_path_factory):
    """Returns the clients' answers for each file, and the models."""
    folder = tmp_path_factory.mktemp("phone")
    arguments = {"labels": LABELS}
    models = {
        "classifier": make_model("classifier", arguments, preprocessor),
        "multi_label": make_model(
            "classifier", arguments | {"problem_type": "multi_label"}, preprocessor
        ),
        "no_segments": make_model("classifier", arguments, preprocessor, num_segments=0),
        "embedder": make_model("embedder", preprocessor=preprocessor),
        "span_classifier": answering(
            make_model("span_classifier", preprocessor=preprocessor, max_positions=384)
        ),
    }
    for name, model in models.items():
        export.tflite(model, folder / f"{name}.tflite", metadata=True)
    options = {"quantize": "dynamic", "metadata": True}
    export.tflite(models["classifier"], folder / "small.tflite", **options)
    requests = [
        ("classify", "classifier", [*TEXTS, OTHER]),
        ("classify", "multi_label", TEXTS),
        ("classify", "no_segments", TEXTS),
        ("classify", "small", TEXTS),
        ("embed", "embedder", TEXTS),
        ("classify by task library", "classifier", TEXTS),
        ("answer", "span_classifier", [(QUESTION, CONTEXT)]),
        ("describe", "classifier", None),
    ]
    listed = [(kind, str(folder / f"{name}.tflite"), inputs) for kind, name, inputs in requests]
    (folder / "requests.json").write_text(json.dumps(listed), "utf-8")
    python = os.environ.get("PHONE_PYTHON")
    assert python, "PHONE_PYTHON names no Python with MediaPipe; run make test-phone"
    client = Path(__file__).with_name("phone_client.py")
    done = subprocess.run(
        [python, str(client), str(folder / "requests.json")], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    keys = [(kind, name) for kind, name, _ in requests]
    return models, dict(zip(keys, found, strict=True))


def answering(model):
    """Lets the tokens of the context score best, as training does."""
    inputs = model.preprocessor.with_length(384, padding="max_length")(([QUESTION], [CONTEXT]))
    hidden = np.asarray(model.encoder(inputs)["sequence_output"])[0]
    context = np.asarray(inputs["segment_ids"])[0] == 1
    direction = hidden[context].mean(0) - hidden[~context].mean(0)
    kernel = next(weight for weight in model.head.weights if weight.shape[0] == hidden.shape[1])
    kernel.assign(kernel + 5 * direction[:, None])
    return model


def inputs_of(model, texts):
    inputs = dict(model.preprocessor(texts))
    if model.config.num_segments <= 1:
        del inputs["segment_ids"]
    return inputs


@pytest.mark.parametrize(
    ("kind", "name", "largest"),
    [
        ("classify", "classifier", 1e-5),
        ("classify", "multi_label", 1e-5),
        ("classify", "no_segments", 1e-5),
        ("classify", "small", 0.05),
        ("classify by task library", "classifier", 1e-5),
    ],
)
def test_scores(kind, name, largest, answers):
    models, found = answers
    model = models.get(name, models["classifier"])
    expected = model.scores(model(inputs_of(model, TEXTS)))
    for row, heads in zip(expected, found[kind, name], strict=False):
        (scores,) = heads
        assert set(scores) == set(LABELS)
        np.testing.assert_allclose([scores[label] for label in LABELS], row, rtol=0, atol=largest)


def test_other_tokens_are_other_scores(answers):
    """Shows why the export warns."""
    models, found = answers
    model = models["classifier"]
    expected = model.scores(model(inputs_of(model, [OTHER])))[0]
    (scores,) = found["classify", "classifier"][-1]
    assert np.abs([scores[label] for label in LABELS] - expected).max() > 1e-5


def test_embeddings(answers):
    models, found = answers
    vectors = np.asarray(found["embed", "embedder"])[:, 0]
    np.testing.assert_allclose(vectors, models["embedder"].encode(TEXTS), rtol=0, atol=1e-5)


def test_answers(answers):
    models, found = answers
    preprocessor = models["span_classifier"].preprocessor.with_length(384, padding="max_length")
    inputs = preprocessor(([QUESTION], [CONTEXT]), return_offsets=True)
    place = {name: np.asarray(inputs.pop(name))[0] for name in ("starts", "ends")}
    separator = np.asarray(inputs["token_ids"])[0] == preprocessor.vocabulary.separator_id
    context = (np.asarray(inputs["segment_ids"])[0] == 1) & ~separator
    starts, ends = (np.asarray(x)[0] for x in models["span_classifier"](inputs).values())
    first, last = (np.argsort(-logits, kind="stable")[:_KEPT] for logits in (starts, ends))
    expected = [
        (starts[i] + ends[j], i, j)
        for i in first
        for j in last
        if context[i] and context[j] and i <= j < i + _LONGEST
    ]
    assert expected
    words = CONTEXT.split(" ")
    word = np.cumsum([c == " " for c in CONTEXT])
    rows = zip(
        sorted(expected, reverse=True)[:_KEPT], found["answer", "span_classifier"][0], strict=True
    )
    for (logit, i, j), answer in rows:
        assert (answer["start"], answer["end"]) == (i, j)
        assert answer["logit"] == pytest.approx(logit, abs=1e-4)
        begin, end = word[place["starts"][i]], word[place["ends"][j] - 1]
        assert answer["text"] == " ".join(words[begin : end + 1])


def test_description(answers):
    description, files = answers[1]["describe", "classifier"]
    (graph,) = description["subgraph_metadata"]
    names = {tensor["name"] for tensor in graph["input_tensor_metadata"]}
    assert names == {"ids", "mask", "segment_ids"}
    (output,) = graph["output_tensor_metadata"]
    assert output["associated_files"] == [{"name": "labels.txt", "type": "TENSOR_AXIS_LABELS"}]
    (unit,) = graph["input_process_units"]
    assert unit["options_type"] == "BertTokenizerOptions"
    assert unit["options"]["vocab_file"] == [{"name": "vocab.txt", "type": "VOCABULARY"}]
    assert sorted(files) == ["labels.txt", "vocab.txt"]
