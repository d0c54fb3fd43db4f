"""Integrated gradients: their axioms, another way to compute them, and the colored text."""

import html
import json
import re

import keras
import numpy as np
import pytest

import keras_bert as kb
from keras_bert import visualize
from keras_bert.errors import InputError
from keras_bert.families import FAMILIES
from tests.checkpoints.huggingface import FIXTURES
from tests.finetuning import tiny
from tests.jax_backend import run_on_jax
from tests.marks import others_swept

TEXT, SECOND = "The film, it was good", "a bad  book"


def sharp(**arguments):
    """A classifier whose logits depend on its inputs clearly."""
    model = tiny.classifier({"num_layers": 2}, labels=["a", "b", "c"], **arguments)
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        if len(variable.shape) == 2:
            variable.assign(rng.normal(0.0, 0.5, variable.shape))
    return model


@pytest.fixture(scope="module")
def model():
    return sharp()


def ids_of(model, texts, masked):
    inputs = {name: np.array(x) for name, x in model.preprocessor(texts).items()}
    vocabulary = model.preprocessor.vocabulary
    if masked:
        ids, special = inputs["token_ids"], (0, vocabulary.cls_id, vocabulary.separator_id)
        inputs["token_ids"] = np.where(np.isin(ids, special), ids, vocabulary.mask_id)
    return inputs


@pytest.mark.parametrize("second", [None, SECOND])
@pytest.mark.parametrize("label", ["a", "c", None])
def test_the_values_add_up_to_the_difference_of_the_logits(model, label, second, caplog):
    found = visualize.attribution(model, TEXT, second, label=label)
    texts = [TEXT] if second is None else ([TEXT], [second])
    logits, masked = (np.asarray(model(ids_of(model, texts, m)))[0] for m in (False, True))
    index = logits.argmax() if label is None else "abc".index(label)
    assert found.label == "abc"[index]
    assert found.score == pytest.approx(np.exp(logits)[index] / np.exp(logits).sum(), rel=1e-4)
    difference = logits[index] - masked[index]
    assert abs(difference) > 0.1
    assert found.values.sum() == pytest.approx(difference, rel=1e-3, abs=1e-4)
    assert found.logit - found.baseline_logit == pytest.approx(difference, abs=1e-4)
    assert not caplog.records
    special = [token.special for token in found.tokens]
    assert not found.values[special].any()


def test_equal_to_differences_of_logits_along_the_line(model):
    """The integral by the midpoint rule, the derivatives by central differences: no gradients."""
    found = visualize.attribution(model, TEXT, label="b")
    count, points, small = len(found.tokens), 200, 1e-2
    start, end = (
        np.array(model.encoder.embeddings(ids_of(model, [TEXT], m)["token_ids"][:, :count]))[0]
        for m in (True, False)
    )
    places = (np.arange(points) + 0.5) / points
    line = start + places[:, None, None] * (end - start)
    ids = np.ones((points, count), "int32")
    for token in range(count):
        step = np.zeros_like(line)
        step[:, token] = small * (end - start)[token]
        up, down = (
            np.asarray(model({"token_ids": ids, "embeddings": line + sign * step}))[:, 1]
            for sign in (1, -1)
        )
        derivative = (up.astype("float64") - down) / (2 * small)
        assert found.values[token] == pytest.approx(derivative.mean(), abs=2e-3)


def test_without_attention_a_part_is_the_effect_of_a_mask():
    """If the logits are the mean of functions of single tokens, each token has its own part."""
    model = tiny.classifier({"num_layers": 1}, pooling="mean")
    for layer in model.encoder.encoder_layers:  # the sum of the blocks is left alone
        for dense in (layer.attention.output_projection, layer.output_projection):
            dense.set_weights([np.zeros_like(value) for value in dense.get_weights()])
    found = visualize.attribution(model, "the good film", label="good")
    assert found.values[0] == 0
    inputs = ids_of(model, ["the good film"], False)
    with_mask = []
    for place in (1, 2, 3):
        changed = inputs["token_ids"].copy()
        changed[0, place] = model.preprocessor.vocabulary.mask_id
        logits = np.asarray(model({**inputs, "token_ids": changed}))[0]
        with_mask.append(found.logit - logits[1])
    assert [token.text for token in found.tokens[:4]] == ["[CLS]", "the", "good", "film"]
    np.testing.assert_allclose(found.values[1:4], with_mask, atol=1e-3)


@pytest.mark.parametrize("family", others_swept(list(FAMILIES), quick=("bert", "deberta-v2")))
def test_every_family(family):
    encoder = kb.load(FIXTURES / f"{family}-model")
    config = encoder.config
    preprocessor = kb.Preprocessor(
        kb.WordPiece(kb.Vocabulary(tiny.TOKENS)),
        16,
        separators_in_pair=2 if config.num_segments < 2 else 1,
        num_segments=config.num_segments,
    )
    model = kb.SequenceClassifier(encoder, 2, preprocessor=preprocessor)
    model.head.logits.kernel.assign(10 * model.head.logits.kernel)
    inputs = preprocessor(([TEXT], [SECOND]))
    embeddings = encoder.embeddings(
        *(inputs[n] for n in ("token_ids", "segment_ids", "padding_mask"))
    )
    np.testing.assert_array_equal(model(inputs), model({**inputs, "embeddings": embeddings}))
    found = visualize.attribution(model, TEXT, SECOND)
    difference = found.logit - found.baseline_logit
    assert found.values.sum() == pytest.approx(difference, rel=0.02, abs=1e-3)
    assert np.abs(found.values).max() > 0


@pytest.mark.parametrize("problem_type", ["multi_label", "regression"])
def test_scores_of_other_problems(problem_type):
    model = sharp(problem_type=problem_type)
    found = visualize.attribution(model, TEXT, label="b")
    prediction = model.predict_text([TEXT])[0]
    expected = prediction["score"][1] if problem_type == "regression" else prediction["scores"]["b"]
    assert found.score == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_few_steps_are_reported(model, caplog):
    visualize.attribution(model, TEXT, label="b", steps=1)
    assert "Raise steps, which is 1" in caplog.text


def test_batches_of_points_change_nothing(model):
    one, two = (visualize.attribution(model, TEXT, batch_size=size).values for size in (5, 64))
    np.testing.assert_allclose(one, two, atol=1e-5)


def text_of(element):
    return html.unescape(re.sub(r"<[^>]+>", "", element))


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "</script><script>alert(1)</script>",
        'ש"לום 🙂 film <img src=x onerror=alert(1)>\n book',
    ],
)
def test_the_colored_text_is_the_text(model, text):
    found = visualize.attribution(model, text, text)
    element = found.to_html()
    lines = re.findall(r'<div dir="auto"[^>]*>(.*?)</div>', element, re.DOTALL)
    assert [text_of(line) for line in lines] == [text, text]
    assert not re.search("<script|<img", element)
    assert found._repr_html_() == element
    values = [float(value) for value in re.findall(r'title="([^"]*)"', element)]
    written = [value for token, value in zip(found.tokens, found.values, strict=True) if token.end]
    assert sum(values) == pytest.approx(sum(written), abs=1e-3 * len(values))
    largest = re.findall(r"rgba\([\d, ]+, ([\d.]+)\)", "".join(lines))
    assert max(map(float, largest)) == 0.75


def test_tokens_of_one_character_are_one_part():
    token = visualize.tokens.Token
    found = visualize.Attribution(
        "a",
        0.5,
        ("x🙂y",),
        (token("x", 0, False, 0, 1), token("f", 0, False, 1, 2), token("9", 0, False, 1, 2)),
        np.array([1.0, 0.25, 0.5], "float32"),
        1.0,
        0.0,
    )
    assert found._spans(0) == [(0, 1, 1.0), (1, 2, 0.75)]
    assert text_of(found.to_html()).startswith("x🙂y")


def test_the_page_is_one_file(model, tmp_path):
    found = visualize.attribution(model, "good " * 40, sequence_length=20)
    found.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert found.to_html() in page
    assert "22 tokens were cut off." in page
    assert not re.search(r"https?:|@import|url\(|\bsrc=", page)
    with pytest.raises(InputError, match="there is no folder .*nowhere; create it first"):
        found.save(tmp_path / "nowhere" / "page.html")


def test_refusals(model):
    for arguments, message in (
        ({"label": "d"}, "The model has no label 'd'. .*Its labels are 'a', 'b', 'c'"),
        ({"steps": 0}, "steps is 0, but must be 1 or more"),
        ({"second_text": ""}, "The second text, '', has no token"),
    ):
        with pytest.raises(InputError, match=message):
            visualize.attribution(model, TEXT, **arguments)
    with pytest.raises(InputError, match="A Encoder has no labels of texts"):
        visualize.attribution(tiny.encoder(), TEXT)
    diverged = sharp()
    diverged.set_weights([np.full_like(weights, np.nan) for weights in diverged.get_weights()])
    with pytest.raises(InputError, match="logits are not finite"):
        visualize.attribution(diverged, TEXT)


def test_half_precision():
    model = sharp()
    half = tiny.classifier({"num_layers": 2, "dtype": "mixed_bfloat16"}, labels=["a", "b", "c"])
    half.set_weights(model.get_weights())
    one, two = (visualize.attribution(each, TEXT, label="b").values for each in (model, half))
    np.testing.assert_allclose(one, two, atol=0.15 * np.abs(one).max())


JAX_PROGRAM = """
import json, sys
import keras
import keras_bert as kb
from keras_bert import visualize

assert keras.backend.backend() == "jax"
model = kb.load(sys.argv[1] + "/model")
found = visualize.attribution(model, sys.argv[2], label="b")
json.dump(found.values.tolist(), open(sys.argv[1] + "/found.json", "w"))
"""


@pytest.mark.sweep
def test_the_same_values_on_jax(model, tmp_path):
    kb.save(model, tmp_path / "model")
    run_on_jax(JAX_PROGRAM, str(tmp_path), TEXT)
    found = json.loads((tmp_path / "found.json").read_text())
    np.testing.assert_allclose(
        found, visualize.attribution(model, TEXT, label="b").values, atol=1e-4
    )


def test_other_backends_are_refused(model, monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "torch")
    with pytest.raises(InputError, match="Gradients need TensorFlow or JAX, but Keras computes"):
        visualize.attribution(model, TEXT)
