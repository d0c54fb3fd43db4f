import base64
import dataclasses
import html
import json
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert as kb
from keras_bert import visualize
from keras_bert.cli import main
from keras_bert.errors import InputError
from keras_bert.families import FAMILIES
from tests.checkpoints.huggingface import FIXTURES
from tests.finetuning import tiny
from tests.marks import others_swept

ONE_STEP = 1 / 255


def data_of(page):
    """Returns the page's data as a browser reads it: up to the first end of the element."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script', page, re.S)
    data = json.loads(text)
    size = len(data["tokens"])
    data["weights"] = np.array(
        [
            [np.frombuffer(base64.b64decode(head), "uint8").reshape(size, size) for head in layer]
            for layer in data["weights"]
        ]
    )
    return data


@pytest.fixture(scope="module")
def model():
    return tiny.classifier({"num_layers": 3, "num_heads": 4})


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("second", others_swept(["a bad book", None]))
def test_weights_are_those_of_the_padded_batch(family, second):
    encoder = kb.load(FIXTURES / f"{family}-model")
    config = encoder.config
    encoder.preprocessor = kb.Preprocessor(
        kb.WordPiece(kb.Vocabulary(tiny.TOKENS)),
        16,
        separators_in_pair=2 if config.num_segments < 2 else 1,
        num_segments=config.num_segments,
    )
    text = "the film was good"
    page = visualize.attention(encoder, text, second)
    inputs = encoder.preprocessor([text] if second is None else ([text], [second]))
    length = int(inputs["padding_mask"].numpy().sum())
    expected = encoder(inputs, return_attentions=True)["attentions"]
    expected = np.stack([keras.ops.convert_to_numpy(x)[0, :, :length, :length] for x in expected])
    np.testing.assert_allclose(page.weights, expected, atol=1e-5)

    data = data_of(page.to_html())
    assert data["weights"].shape == (config.num_layers, config.num_heads, length, length)
    np.testing.assert_allclose(data["weights"] / 255, expected, atol=ONE_STEP)
    segments = [token["segment"] for token in data["tokens"]]
    assert segments == sorted(segments)
    assert segments.count(1) == (0 if second is None else 4)  # with its separator


def test_the_page_starts_with_the_strongest_weight_between_words_that_are_no_neighbors(model):
    page = visualize.attention(model, "the film was good", "a bad book")
    weights = np.full_like(page.weights, 0.1)
    weights[2, 1, 1:4, 1:4] = 0.9  # neighbors, and the first word of four to the third
    weights[0, 2, :, 0] = weights[0, 3, 0, :] = 1.0  # special tokens
    weights[1, 3, 2, 7] = 1.0  # one pair of words; the head of more pairs wins
    found = dataclasses.replace(page, weights=weights)
    assert data_of(found.to_html())["start"] == "layer=2&head=1&from=1"
    assert data_of(visualize.attention(model, "the film").to_html())["start"] == ""


def test_tokens_and_their_places(model):
    first, second = "The film, [MASK] good", "Bäd book"
    tokens = visualize.attention(model, first, second).tokens
    assert [token.text for token in tokens if token.special] == ["[CLS]", "[SEP]", "[SEP]"]
    written = [
        (token.text, (first, second)[token.segment][token.start : token.end])
        for token in tokens
        if not token.special
    ]
    assert written == [
        ("the", "The"),
        ("film", "film"),
        ("[UNK]", ","),
        ("[MASK]", "[MASK]"),
        ("good", "good"),
        ("bad", "Bäd"),
        ("book", "book"),
    ]


def test_a_long_text_is_cut_and_the_page_says_so(model):
    page = visualize.attention(model, "good " * 20, "bad [SEP] film")
    assert len(page.tokens) == 16
    assert page.num_cut == 20 + 3 - (16 - 3)
    assert data_of(page.to_html())["cut"] == 10
    page = visualize.attention(model, "good " * 20, sequence_length=20)
    assert (len(page.tokens), page.num_cut) == (20, 2)
    with pytest.raises(InputError, match="32"):  # positions
        visualize.attention(model, "good " * 40, sequence_length=40)


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!--<script>",
        'שלום 🙂 \u2028 & "it\'s" é',
        "\ud800 film \udc00",
        "</SCRIPT ><img src=x onerror=alert(1)>",
        "null</script>",
    ],
)
def test_texts_cannot_leave_their_element(model, text):
    page = visualize.attention(model, text, text, with_attribution=True)
    plain = visualize.attention(model, "film", "film").to_html()
    written = page.to_html()
    assert visualize.attribution(model, text, text).to_html() in written
    assert data_of(written)["texts"] == [text, text]
    for sign in ("<script", "</script", "<img", "<!--"):
        assert written.lower().count(sign) == plain.lower().count(sign)
    assert written.encode().decode() == written


def test_the_page_is_complete_and_asks_for_nothing(model, tmp_path):
    path = tmp_path / "page.html"
    page = visualize.attention(model, "the film")
    page.save(path)
    page.save(path)  # over the first
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    written = path.read_text("utf-8")
    assert not re.search(r"https?:|@import|url\(|<link rel=.stylesheet|\bsrc=", written)
    assert "default-src 'none'" in written
    notebook = page._repr_html_()
    (inner,) = re.findall(r'srcdoc="([^"]*)"', notebook)
    assert html.unescape(inner) == written
    assert 'sandbox="allow-scripts"' in notebook


def test_refusals(model, tmp_path):
    for bad in ("", " \n", "\u200b"):
        with pytest.raises(InputError, match="The text, .* has no token"):
            visualize.attention(model, bad)
        with pytest.raises(InputError, match="The second text, .* has no token"):
            visualize.attention(model, "film", bad)
    with pytest.raises(InputError, match="must be a string, not a list"):
        visualize.attention(model, ["film"])
    with pytest.raises(InputError, match="This Encoder has no preprocessor"):
        visualize.attention(tiny.encoder(), "film")
    with pytest.raises(InputError, match="A Dense has no attention to show"):
        visualize.attention(keras.layers.Dense(2), "film")
    diverged = tiny.classifier()
    diverged.set_weights([np.full_like(weights, np.nan) for weights in diverged.get_weights()])
    with pytest.raises(InputError, match="attention is not finite"):
        visualize.attention(diverged, "film")
    with pytest.raises(InputError, match="there is no folder .*nowhere; create it first"):
        visualize.attention(model, "film").save(tmp_path / "nowhere" / "page.html")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(InputError, match="is not empty"):
        visualize.attention(model, "film").save(tmp_path / "full")


def test_half_precision():
    model = tiny.classifier({"dtype": "mixed_bfloat16"})
    page = visualize.attention(model, "the film was good")
    assert page.weights.dtype == np.float32
    np.testing.assert_allclose(page.weights.sum(-1), 1, atol=0.02)


def test_command(model, tmp_path, capsys):
    kb.save(model, tmp_path / "model")
    path = tmp_path / "page.html"
    command = ["attention", "--model", str(tmp_path / "model"), "the film", "was bad"]
    assert main([*command, "--output", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    expected = visualize.attention(model, "the film", "was bad").to_html()
    data = data_of(path.read_text("utf-8"))
    np.testing.assert_allclose(data["weights"], data_of(expected)["weights"], atol=1)
    assert data["texts"] == ["the film", "was bad"]
    short = tmp_path / "short.html"
    assert main([*command, "--output", str(short), "--sequence-length", "5"]) == 0
    assert len(data_of(short.read_text("utf-8"))["tokens"]) == 5
    assert 'class="attribution"' not in short.read_text("utf-8")
    assert main([*command, "--output", str(path), "--attribution"]) == 0
    assert 'class="attribution"' in path.read_text("utf-8")
    capsys.readouterr()
    assert main([*command, "--output", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_importing_costs_nothing():
    code = (
        "import sys\n"
        "from keras_bert import visualize\n"
        "assert not {'keras', 'tensorflow', 'matplotlib'} & set(sys.modules)\n"
        "assert set(visualize.__all__) <= set(dir(visualize))\n"
        "visualize.pretraining_curves\n"
        "assert not {'keras', 'tensorflow', 'matplotlib'} & set(sys.modules)\n"
        "assert all(getattr(visualize, name) for name in visualize.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
