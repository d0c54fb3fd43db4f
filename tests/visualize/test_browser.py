"""The page of attention in Chromium: `make test-browser` runs this."""

import json
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_bert import visualize
from tests.chromium import find_chromium
from tests.finetuning import tiny

pytestmark = pytest.mark.browser
SCRIPT = Path(__file__).parent / "browser" / "explore.mjs"


def explore(page, *steps, address="#layer=0&head=0", **options):
    url = page.as_uri()
    job = {"url": url + address, "executable": find_chromium(), "steps": steps, **options}
    command = ["node", str(SCRIPT), json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["complaints"] == []
    assert {request.split("#")[0] for request in seen["requests"]} <= {url, "about:srcdoc"}
    return seen


@pytest.fixture(scope="module")
def attention():
    """Returns the attention of a model as deep as BERT, for two texts of 128 tokens."""
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 12, "num_heads": 12, "hidden_size": 48, "max_positions": 128}
    encoder = tiny.encoder(initializer_range=0.6, **sizes)
    encoder.preprocessor = tiny.preprocessor(128)
    words = np.random.default_rng(0).choice(tiny.WORDS, 125)
    found = visualize.attention(encoder, " ".join(words[:60]), " ".join(words[60:]))
    assert found.weights.shape == (12, 12, 128, 128)
    return found


@pytest.fixture(scope="module")
def page(attention, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    attention.save(path)
    assert path.stat().st_size < 4e6
    return path


def weakest(size):
    """The weight, in steps of 1/255, from which on there are lines before the user chooses."""
    return min(max(round(1.5 * 255 / size), 1), 8)


def number(weight):
    """As the page writes it."""
    weight = np.rint(weight * 255) / 255
    return f"{weight:.3f}" if weight < 0.1 else f"{weight:.2f}"


def named(weights):
    """Index and number of the tokens that weights `[T]` mark."""
    marked = np.flatnonzero(np.rint(weights * 255) >= weakest(len(weights)))
    return [[index, number(weights[index])] for index in marked.tolist()]


def test_it_is_ready_in_three_seconds(page):
    assert explore(page)["seconds"] < 3


def test_pointing_pinning_and_escape(page, attention):
    words = [token.text for token in attention.tokens]
    states = explore(
        page,
        ["head", 3, 7],
        ["hover", "from", 5],
        ["hover", "to", 9],
        ["click", "to", 9],
        ["hover", "from", 2],  # a pinned token stays
        ["head", 1, 2],  # in other heads too
        ["click", "to", 9],
        ["leave"],
        ["click", "from", 6],
        ["press", "Escape"],
    )["states"]
    start, head, from_5, to_9, pinned, still, other, unpinned, left, again, cleared = states
    assert start["title"] == "Layer 1, head 1"
    assert start["from"] == start["to"] == words
    assert head["title"] == "Layer 4, head 8"
    assert head["head"] == ["Layer 4, head 8"]
    weights = attention.weights[3, 7]
    drawn = int((np.rint(weights * 255) >= weakest(128)).sum())
    assert head["readout"].startswith(f"Lines for {drawn:,} of 16,384 weights, 0.012 or more.")
    assert head["focus"] == head["named"] == []

    assert from_5["focus"] == [words[5]]
    assert from_5["named"] == named(weights[5])
    best = np.argsort(-np.rint(weights[5] * 255), kind="stable")[0]
    said = f"{words[best]} {number(weights[5, best])}"
    assert f"attends to {said}" in from_5["readout"]
    assert 0 < from_5["ink"] < head["ink"] / 2

    assert to_9["named"] == named(weights[:, 9])
    assert "is attended to by" in to_9["readout"]
    assert to_9["pinned"] == []
    assert pinned["pinned"] == still["pinned"] == other["pinned"] == [words[9]]
    assert pinned["named"] == still["named"] == to_9["named"]
    assert other["named"] == named(attention.weights[1, 2, :, 9])
    assert unpinned["pinned"] == left["pinned"] == left["focus"] == []
    assert again["pinned"] == [words[6]]
    assert cleared["pinned"] == cleared["focus"] == cleared["named"] == []
    assert cleared["ink"] > again["ink"]


def test_it_starts_at_a_strong_head_with_a_token_pinned(page, attention):
    (state,) = explore(page, address="")["states"]
    plain = [i for i, token in enumerate(attention.tokens) if not token.special]
    most = {}
    for layer, head in np.ndindex(12, 12):
        weights = attention.weights[layer, head]
        most[layer, head] = {i: max(weights[i, j] for j in plain if abs(i - j) > 1) for i in plain}
    layer, head = max(most, key=lambda place: sum(most[place].values()))
    token = max(plain, key=most[layer, head].get)
    assert state["title"] == f"Layer {layer + 1}, head {head + 1}"
    assert state["pinned"] == [attention.tokens[token].text]
    assert state["named"] == named(attention.weights[layer, head, token])


def test_filters(page, attention):
    words = {(t.segment, t.special, i): t.text for i, t in enumerate(attention.tokens)}
    texts = [[word for (s, *_), word in words.items() if s == segment] for segment in (0, 1)]
    plain = [
        [word for (s, special, _), word in words.items() if s == segment and not special]
        for segment in (0, 1)
    ]
    ways = {"A to A": (0, 0), "A to B": (0, 1), "B to A": (1, 0), "B to B": (1, 1)}
    states = explore(
        page,
        *(["choose", way] for way in ways),
        ["choose", "without special tokens"],
        ["click", "from", 70],
        ["choose", "A to B"],  # where the pinned token is not
        ["choose", "all"],
    )["states"]
    for state, (first, second) in zip(states[1:5], ways.values(), strict=True):
        assert (state["from"], state["to"]) == (texts[first], texts[second])
    without, pinned, gone, everything = states[5:]
    assert (without["from"], without["to"]) == (plain[1], plain[1])
    inside = [i for i, token in enumerate(attention.tokens) if token.segment and not token.special]
    of_70 = np.rint(attention.weights[0, 0, 70, inside] * 255).sum() / 255
    assert f"; {of_70:.0%} of its attention is shown".replace("%", " %") in pinned["readout"]
    assert gone["pinned"] == []
    assert (gone["from"], gone["to"]) == (plain[0], plain[1])
    assert everything["from"] == plain[0] + plain[1]


def test_keys_alone(page, attention):
    words = [token.text for token in attention.tokens]
    states = explore(
        page,
        ["press", "Tab"],  # the texts, which scroll
        ["press", "Tab"],
        ["press", "ArrowDown"],
        ["press", "ArrowRight"],
        *[["press", "Tab"]] * 4,
        ["press", "ArrowDown"],
        ["press", "ArrowRight"],
        ["press", "Enter"],
        ["press", "ArrowDown"],
        ["press", " "],
    )["states"]
    assert states[4]["title"] == "Layer 2, head 2"
    on_list, down, right, pinned, moved, other = states[-6:]
    weights = attention.weights[1, 1]
    assert on_list["active"] == words[0]
    assert on_list["named"] == named(weights[0])
    assert down["named"] == named(weights[1])
    assert right["named"] == pinned["named"] == moved["named"] == named(weights[:, 1])
    assert right["pinned"] == []
    assert pinned["pinned"] == moved["pinned"] == [words[1]]
    assert other["named"] == named(weights[:, 2])


def test_long_texts_scroll(page, attention):
    states = explore(page, ["hover", "from", 3], ["wheel", 1500], ["leave"])["states"]
    assert states[0]["scrolled"] == 0
    assert states[-1]["scrolled"] > 1000
    assert states[-1]["ink"] > 0


def test_hostile_texts_and_a_named_view(tmp_path):
    text = "</script><img src=x onerror=document.title='lost'> שלום 🙂 <b>film</b>"
    model = tiny.classifier(preprocessor=tiny.preprocessor(64))
    found = visualize.attention(model, text)
    found.save(tmp_path / "page.html")
    address = "#layer=0&head=1&to=2"
    (state,) = explore(tmp_path / "page.html", address=address, dark=True)["states"]
    assert state["from"] == [token.text for token in found.tokens]
    assert state["title"] == "Layer 1, head 2"
    assert state["named"] == named(found.weights[0, 1, :, 2])
    assert "[UNK] (“\u2068/\u2069”, characters 1 to 2)" in state["readout"]


def test_in_a_notebook(tmp_path, attention):
    page = tmp_path / "notebook.html"
    page.write_text(f"<title>Notebook</title><p>{attention._repr_html_()}", "utf-8")
    *_, state = explore(page, ["head", 0, 0], ["press", "Escape"], ["hover", "to", 2])["states"]
    assert state["named"] == named(attention.weights[0, 0, :, 2])
