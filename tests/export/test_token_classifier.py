"""A tagger with a CRF decodes in every format as in Keras."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import InputError, export
from keras_bert.export import artifact_checks
from keras_bert.layers.crf import IGNORED
from tests.marks import others_swept

from .conftest import HARD_TEXTS, TOKENS, make_model, random_ids
from .test_formats import FORMATS

LABELS = ("O", "B-FILM", "I-FILM", "B-PLACE", "I-PLACE")
FRAME = ("[PAD]", "[CLS]", "[SEP]")


@pytest.fixture(scope="module")
def tagger(preprocessor):
    """Its vocabulary is somewhat larger than the tokenizer's, as it is often made to be."""
    arguments = {"labels": LABELS, "crf": True, "scheme": "iob2"}
    return make_model("token_classifier", arguments, preprocessor, vocabulary_size=len(TOKENS) + 6)


def keras_tags(model, ids, logits):
    """Row by row without any mask: only what begins a word goes into the CRF."""
    tags = np.full(ids["token_ids"].shape, IGNORED)
    for row, (token_ids, mask) in enumerate(
        zip(ids["token_ids"], ids["padding_mask"], strict=True)
    ):
        names = [TOKENS[i] if i < len(TOKENS) else "##unknown" for i in token_ids[mask == 1]]
        first = [
            token
            for token, (before, name) in enumerate(itertools.pairwise(["x", *names]))
            if name not in FRAME and (not name.startswith("##") or before in FRAME)
        ]
        if first:
            chosen = np.asarray(logits)[row][first]
            tags[row, first] = model.crf.decode(chosen[None], np.ones((1, len(chosen))))[0]
    return tags


@pytest.mark.parametrize("kind", others_swept(FORMATS))
def test_tags_equal_keras(kind, tagger, tmp_path):
    write, load = FORMATS[kind]
    write(tagger, tmp_path / f"a.{kind}")
    run = load(tmp_path / f"a.{kind}")
    for seed, (batch, length) in enumerate([(1, 1), (4, 33), (2, 64), (7, 2)]):
        ids = random_ids(batch, length, seed=seed)
        logits = tagger(ids)
        found = {name: np.asarray(value) for name, value in run(ids).items()}
        assert set(found) == {"logits", "tags"}
        assert found["tags"].dtype == np.int32
        np.testing.assert_allclose(found["logits"], logits, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(found["tags"], keras_tags(tagger, ids, logits))
    assert len(np.unique(found["tags"])) > 1


def test_tags_of_texts(tagger, tmp_path):
    export.saved_model(tagger, tmp_path / "a")
    signature = tf.saved_model.load(str(tmp_path / "a")).signatures["serving_default"]
    texts = [text for text in HARD_TEXTS if "\ud800" not in text]
    found = signature(text=tf.constant(texts))
    ids = {name: np.asarray(x) for name, x in tagger.preprocessor(texts).items()}
    np.testing.assert_array_equal(found["tags"], keras_tags(tagger, ids, tagger(ids)))


def test_of_one_shape_and_quantized(tagger, tmp_path):
    paths = {name: tmp_path / f"{name}.tflite" for name in ("none", "float16", "dynamic")}
    for name, path in paths.items():
        export.tflite(tagger, path, quantize=name, sequence_length=16)
    texts = ["The film was good!", "bad film", "", "xyzzy was the good good film"] * 4
    report = export.verify(tagger, list(paths.values()), texts, seconds=0)
    agreement = dict(zip(paths, (row.agreement for row in report.rows), strict=True))
    assert agreement["none"] == 100
    assert min(agreement.values()) > 80
    assert report.rows[0].difference < 1e-5


@pytest.mark.parametrize("kind", others_swept(FORMATS))
def test_without_tokenizer_or_random_field_there_are_logits_alone(kind, preprocessor, tmp_path):
    write, load = FORMATS[kind]
    crf = {"labels": LABELS, "crf": True}
    models = [
        make_model("token_classifier", crf),
        make_model("token_classifier", {"labels": LABELS}, preprocessor),
    ]
    for number, model in enumerate(models):
        write(model, tmp_path / f"{number}.{kind}")
        assert set(load(tmp_path / f"{number}.{kind}")(random_ids(2, 5))) == {"logits"}


def test_other_tags_are_no_export(tagger):
    ids = random_ids(2, 5)
    expected = artifact_checks.reference(tagger, ids)
    changed = expected | {"tags": expected["tags"] + 1}
    artifact_checks.compare("file", expected, expected, 1e-5)
    artifact_checks.compare("file", expected, changed, 0.25)  # quantized weights may choose others
    with pytest.raises(InputError, match="The file chooses other tags than the model"):
        artifact_checks.compare("file", expected, changed, 1e-5)
