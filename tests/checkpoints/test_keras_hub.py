"""KerasHub's BERT, live and as preset directories."""

import json
import sys

import keras_hub
import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from tests.checkpoints.test_google import VOCABULARY, google_encoder, randomised
from tests.layers.test_encoder import padded_batch


def theirs(make=lambda backbone: backbone, seed=4):
    return randomised(make(keras_hub.models.BertBackbone(50, 3, 4, 24, 40, 0.1, 16)), seed)


THEIRS = {
    "backbone": lambda b: b,
    "classifier": lambda b: keras_hub.models.BertTextClassifier(b, 3, dropout=0.2),
    "masked lm": keras_hub.models.BertMaskedLM,
}
OURS = {
    "encoder": lambda e: e,
    "classifier": lambda e: kb.SequenceClassifier(e, labels=["no", "maybe", "yes"], dropout=0.3),
    "masked lm": lambda e: kb.MaskedLanguageModel(e, activation="gelu", layer_norm_epsilon=1e-5),
}


def check_equal(model, other):
    """The numbers of our model and of theirs."""
    inputs = padded_batch()
    if isinstance(other, keras_hub.models.BertMaskedLM):
        positions = np.array([[0, 2], [1, 1], [0, 0]], "int32")
        expected = {"": other({**inputs, "mask_positions": positions})}
        actual = {"": model({**inputs, "masked_positions": positions})}
    else:
        expected, actual = (m(inputs) for m in (other, model))
        if not isinstance(expected, dict):
            expected, actual = {"": expected}, {"": actual}
    for name, value in expected.items():
        rows = inputs["padding_mask"][..., None] if name == "sequence_output" else 1
        np.testing.assert_allclose(rows * actual[name], rows * value, rtol=0, atol=1e-5)


def check_same_weights(one, two):
    """The outputs are equal to the last bit."""
    ours = [{v.path: np.asarray(v) for v in model.weights} for model in (one, two)]
    assert ours[0].keys() == ours[1].keys()
    assert all(np.array_equal(ours[0][path], ours[1][path]) for path in ours[0])


@pytest.mark.parametrize("make", THEIRS.values(), ids=THEIRS)
def test_from_keras_hub_and_back(make, caplog):
    other = theirs(make)
    model = kb.from_keras_hub(other)
    check_equal(model, other)
    check_same_weights(kb.to_keras_hub(model), other)
    assert not caplog.records


@pytest.mark.parametrize("make", OURS.values(), ids=OURS)
def test_to_keras_hub_and_back(make, tmp_path, caplog):
    model = randomised(make(google_encoder()))
    check_equal(model, kb.to_keras_hub(model))
    kb.save(model, tmp_path / "preset", format="keras-hub")
    loaded = kb.load(tmp_path / "preset")
    assert not caplog.records
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    for name, variable in named_variables(model).items():
        assert np.array_equal(variable, named_variables(loaded)[name])
    kb.save(loaded, tmp_path / "native")
    check_equal(kb.load(tmp_path / "native"), kb.to_keras_hub(model))


@pytest.mark.parametrize("make", THEIRS.values(), ids=THEIRS)
def test_their_presets(make, tmp_path, caplog):
    other = theirs(make)
    other.save_to_preset(str(tmp_path / "preset"))
    check_equal(kb.load(tmp_path / "preset"), other)
    kb.save(kb.load(tmp_path / "preset"), tmp_path / "ours", format="keras-hub")
    check_same_weights(type(other).from_preset(str(tmp_path / "ours")), other)
    assert not caplog.records


def test_another_task_and_options(caplog):
    classifier = kb.from_keras_hub(theirs(THEIRS["classifier"]), labels=["a", "b", "c"])
    assert classifier.labels == ("a", "b", "c")
    tagger = kb.from_keras_hub(theirs(), task="token_classifier", num_labels=2)
    assert isinstance(tagger, kb.TokenClassifier)
    assert "classifier/logits/kernel" in caplog.text


def test_pooler_that_is_not_there_is_mentioned(caplog):
    model = randomised(OURS["masked lm"](google_encoder(pooler=False)))
    check_equal(model, kb.to_keras_hub(model))
    assert "no pooled_dense/kernel" in caplog.text


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("make", OURS.values(), ids=OURS)
def test_text_format(make, lowercase, tmp_path):
    vocabulary = kb.Vocabulary((*VOCABULARY, "A", "##b"))
    model = make(google_encoder(vocabulary_size=len(vocabulary)))
    wordpiece = kb.WordPiece(vocabulary, lowercase=lowercase)
    model.preprocessor = kb.Preprocessor(wordpiece, sequence_length=9)
    kb.save(model, tmp_path / "preset", format="keras-hub")
    loaded = kb.load(tmp_path / "preset").preprocessor
    assert loaded.sequence_length == 9
    texts = (["Ab a?", "é"], ["c", "a b c d e f g h i j"])
    for name, value in model.preprocessor(texts).items():
        assert np.array_equal(loaded(texts)[name], value)
    kind = keras_hub.models.BertTextClassifierPreprocessor
    read = kind.from_preset(str(tmp_path / "preset"), sequence_length=9)
    for name, value in read(x=tuple(map(np.array, texts))).items():
        assert np.array_equal(value, model.preprocessor(texts)[name])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: google_encoder(activation="gelu"), "its activation is 'gelu', but the library"),
        (lambda: google_encoder(layer_norm_epsilon=1e-5), "its layer_norm_epsilon is 1e-05"),
        (lambda: kb.MaskedLanguageModel(google_encoder()), "its activation is 'gelu_tanh'"),
        (lambda: kb.PretrainingModel(google_encoder()), "has no PretrainingModel"),
    ],
)
def test_what_keras_hub_cannot_express_is_refused(make, message):
    with pytest.raises(kb.InputError, match=message):
        kb.to_keras_hub(make())


def test_what_cannot_be_expressed_here_is_refused(tmp_path):
    softmax = keras_hub.models.BertTextClassifier(theirs(), 3, activation="softmax")
    with pytest.raises(kb.InputError, match="activation on its logits"):
        kb.from_keras_hub(softmax)
    with pytest.raises(kb.InputError, match="Encoder is not one of"):
        kb.from_keras_hub(google_encoder())


def test_damage_is_named(tmp_path):
    theirs().save_to_preset(str(tmp_path))
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"class_name": "GemmaBackbone"}))
    with pytest.raises(kb.CheckpointError, match="class_name 'GemmaBackbone' is not supported"):
        kb.load(tmp_path)
    path.write_text(json.dumps(values))
    (tmp_path / "model.weights.h5").write_bytes(b"nonsense")
    with pytest.raises(kb.CheckpointError, match="KerasHub cannot open this"):
        kb.load(tmp_path)


def test_without_keras_hub_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(kb.InputError, match=r'pip install -e "\.\[keras-nlp\]"'):
        kb.to_keras_hub(google_encoder())


def test_the_two_models_share_no_memory():
    other = theirs()
    model = kb.from_keras_hub(other)
    before = [np.array(variable) for variable in other.weights]
    for variable in model.weights:
        variable.assign_add(np.ones(variable.shape, "float32"))
    assert all(map(np.array_equal, before, other.weights))
