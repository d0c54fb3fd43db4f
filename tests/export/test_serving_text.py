"""Text signatures answer as `predict_text` does, in a process without keras_bert."""

import json
import random
import re
from collections import Counter

import keras
import numpy as np
import pytest

from keras_bert import InputError, Preprocessor, export
from keras_bert.export._saved_model import text_signatures as serving_text
from keras_bert.export.process import running
from tests.text.test_loading import byte_pair, sentencepiece

from .conftest import HARD_TEXTS, make_model

LABELS = {
    "iob1": ("I-ORG", "O", "B-ORG", "I-PER"),
    "iob2": ("O", "B-FILM", "I-FILM", "B-PLACE", "I-PLACE"),
    "bioes": ("O", "B-A", "I-A", "E-A", "S-A", "S-B", "B-B", "E-B", "I-B"),
    None: ("PER", "O", "place"),
}
WORDS = ("the", "film", "was", "good", "bad", "mat", "it's", "U.S.", "中国", "!", "cat", "é\u0301")


def swept(*values):
    return pytest.param(*values, marks=pytest.mark.sweep)


def repeats(text):
    """Whether a word comes so often that sequences of labels may differ by rounding alone."""
    return max(Counter(text.split()).values(), default=0) > 20


def texts_of(count, seed=0):
    """Hard ones, and ordinary ones of up to several windows."""
    generator = random.Random(seed)
    hard = [text[:2000] for text in HARD_TEXTS if "\ud800" not in text and not repeats(text)]
    return hard + [
        " ".join(generator.choices(WORDS, k=generator.randint(1, 90))) for _ in range(count)
    ]


def stress_texts(shared_data, count):
    lines = (shared_data / "text" / "tokenizer_stress.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in random.Random(1).sample(lines, count)]
    surrogates = re.compile("[\ud800-\udfff]")
    return [text[:3000] for text in texts if not surrogates.search(text) and not repeats(text)]


# Arguments of the preprocessor, and what families with such a tokenizer configure.
FAMILIES = {
    "byte_pair": (
        {"tokenizer": byte_pair(), "separators_in_pair": 2, "num_segments": 1},
        {"position_offset": 1, "num_segments": 1},
    ),
    "llama3": (
        {
            "tokenizer": byte_pair(pattern="llama3", ignore_merges=True),
            "separator_at_end": False,
            "num_segments": 1,
        },
        {"rotary_base": 1e4, "num_segments": 1},
    ),
    "sentencepiece": (
        {"tokenizer": sentencepiece(with_mask=False, last_tokens=["[MASK]"])},
        {"relative_positions": 16, "num_segments": 0},
    ),
}


def model_of(task, arguments, kind, preprocessor):
    keras.utils.set_random_seed(0)
    config = {}
    if kind in FAMILIES:
        text, config = FAMILIES[kind]
        preprocessor = Preprocessor(sequence_length=32, **text)
    size = len(preprocessor.vocabulary)
    return make_model(task, arguments, preprocessor, vocabulary_size=size, **config)


def assert_same_answers(model, path, *columns, top_k=5):
    """In a process in which Keras and this package cannot be imported."""
    signature = serving_text.text_signature(model)
    expected = signature.predict(model, columns, top_k)
    inputs = {
        name: np.array([text.encode() for text in texts], object)
        for name, texts in zip(signature.inputs, columns, strict=True)
    }
    with running(path) as process:
        outputs = process.run(signature.name, inputs)
        none = process.run(signature.name, {n: np.array([], object) for n in inputs})
    assert {len(value) for value in none.values()} == {0}
    found = signature.read(outputs)
    for texts, a, b in zip(zip(*columns, strict=True), expected, found, strict=True):
        assert serving_text.same(a, b, 1e-5), (texts, a, b)
    return expected


@pytest.mark.parametrize(
    ("kind", "scheme", "crf"),
    [
        ("wordpiece", "iob2", True),
        swept("llama3", "iob2", False),
        swept("wordpiece", "iob2", False),
        swept("byte_pair", "bioes", True),
        swept("byte_pair", "bioes", False),
        swept("sentencepiece", "iob1", True),
        swept("sentencepiece", "iob1", False),
        swept("wordpiece", None, True),
        swept("wordpiece", None, False),
    ],
)
def test_entities(kind, scheme, crf, preprocessor, shared_data, tmp_path):
    arguments = {"labels": LABELS[scheme], "scheme": scheme, "crf": crf}
    model = model_of("token_classifier", arguments, kind, preprocessor)
    export.saved_model(model, tmp_path / "1")
    found = assert_same_answers(model, tmp_path / "1", texts_of(20) + stress_texts(shared_data, 60))
    assert sum(map(len, found)) > 100
    assert len({entity["label"] for entities in found for entity in entities}) > 1


@pytest.mark.slow
def test_the_score_of_a_long_entity(preprocessor, tmp_path):
    """Sums of so many equal numbers drift in float32."""
    model = model_of(
        "token_classifier", {"labels": LABELS[None], "scheme": None}, "wordpiece", preprocessor
    )
    kernel, bias = model.head.get_weights()
    model.head.set_weights([0 * kernel, np.add(bias, [1.3, 0.0, 0.1])])
    export.saved_model(model, tmp_path / "1")
    (entities,) = assert_same_answers(model, tmp_path / "1", ["good film " * 20_000])
    assert [entity["end"] for entity in entities] == [199_999]


@pytest.mark.parametrize(
    ("kind", "threshold"),
    [
        ("wordpiece", 0.02),
        swept("wordpiece", None),
        swept("byte_pair", 0.02),
        swept("sentencepiece", 0.1),
    ],
)
def test_answers(kind, threshold, preprocessor, shared_data, tmp_path):
    model = model_of("span_classifier", {"null_threshold": threshold}, kind, preprocessor)
    export.saved_model(model, tmp_path / "1")
    contexts = texts_of(20) + stress_texts(shared_data, 60)
    questions = texts_of(len(contexts), seed=3)[-len(contexts) :]
    questions[:4] = ["", "who", "the " * 90, " "]
    found = assert_same_answers(model, tmp_path / "1", questions, contexts)
    assert len({answer["answer"] for answer in found}) > 10
    assert "" in {answer["answer"] for answer in found}


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("masked_lm", "wordpiece"),
        swept("masked_lm", "byte_pair"),
        swept("masked_lm", "sentencepiece"),
        swept("pretraining", "wordpiece"),
        swept("pretraining", "byte_pair"),
        swept("pretraining", "sentencepiece"),
    ],
)
def test_masks(task, kind, preprocessor, tmp_path):
    model = model_of(task, {}, kind, preprocessor)
    export.saved_model(model, tmp_path / "1", top_k=3)
    mask = model.preprocessor.vocabulary.mask
    texts = [f"the {mask} was", f"{mask}{mask} good {mask}", f"a\0 {mask}!", f"é {mask} 中"]
    found = assert_same_answers(model, tmp_path / "1", texts, top_k=3)
    assert [len(masks) for masks in found] == [1, 3, 1, 1]
    assert {len(tokens) for masks in found for tokens in masks} == {3}
    with running(tmp_path / "1") as process:
        outputs = process.run("fill_mask", {"text": np.array([b"no mask", b""], object)})
    assert outputs["tokens"].tolist() == [[[b""] * 3]] * 2
    assert outputs["scores"].tolist() == [[[-1] * 3]] * 2
    with pytest.raises(InputError, match="top_k is 0, but must be from 1 to"):
        export.saved_model(model, tmp_path / "2", top_k=0)
