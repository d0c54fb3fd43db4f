"""The page that runs models in the browser: how it is written, its tokenizer, the page itself.

Tests with the mark `browser` need node, the packages of examples/browser/package.json and, but
for those of the tokenizer, Chromium; without them they fail. `make test-browser` runs them.
"""

import contextlib
import functools
import json
import random
import runpy
import shutil
import subprocess
import sys
import threading
import unicodedata
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import keras_bert as kb
from keras_bert.tasks.fill_mask import fill_mask
from tests.chromium import find_chromium
from tests.finetuning import tiny
from tests.text import stress
from tests.text.code_points import assigned_characters

EXAMPLE = Path(__file__).parents[2] / "examples" / "browser"
SCRIPTS = Path(__file__).parent / "browser"
RUNTIME = EXAMPLE / "node_modules" / "onnxruntime-web" / "dist"
BUILD = runpy.run_path(str(EXAMPLE / "build.py"), run_name="build")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

browser = pytest.mark.browser


def save(model, directory):
    kb.save(model, directory)
    return str(directory)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Directories of a classifier and a masked LM."""
    folder = tmp_path_factory.mktemp("models")
    masked = kb.MaskedLanguageModel(tiny.encoder(), preprocessor=tiny.preprocessor())
    return [save(tiny.classifier(), folder / "classifier"), save(masked, folder / "masked")]


def build(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["build.py", *map(str, arguments)])
    BUILD["main"]()


# What is written


@pytest.fixture
def runtime(tmp_path):
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in BUILD["RUNTIME"]:
        (folder / name).write_text(name)
    return folder


def test_the_page_is_complete(monkeypatch, tmp_path, runtime, models, capsys):
    site = tmp_path / "site"
    for some in (models[1:], models):  # the second over the first
        build(monkeypatch, *some, "--output", site, "--runtime", runtime)
    assert f"--directory {site}" in capsys.readouterr().out
    files = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    names = ("characters.json", "model.onnx", "options.json", "vocab.txt")
    assert files == {
        "models.json",
        BUILD["THEME"].name,
        *BUILD["PAGE"],
        *(f"ort/{name}" for name in BUILD["RUNTIME"]),
        *(f"models/{number}/{name}" for number in (0, 1) for name in names),
    }
    assert json.loads((site / "models.json").read_text()) == ["models/0", "models/1"]
    options = json.loads((site / "models/0/options.json").read_text())
    assert options["task"] == "classifier"
    assert options["labels"] == ["bad", "good"]
    assert options["sequence_length"] == 16
    assert json.loads((site / "models/1/options.json").read_text())["task"] == "fill-mask"
    assert (site / "models/1/vocab.txt").read_text().split("\n") == [*tiny.TOKENS, ""]


def test_refusals(monkeypatch, tmp_path, runtime, models):
    def refused(*arguments):
        with pytest.raises(SystemExit) as ended:
            build(monkeypatch, *arguments, "--output", tmp_path / "site")
        assert not (tmp_path / "site").exists()
        return str(ended.value)

    assert "run: npm ci" in refused(*models, "--runtime", tmp_path / "nowhere")
    encoder = save(tiny.encoder(), tmp_path / "encoder")
    assert "of the class Encoder;" in refused(encoder, "--runtime", runtime)
    without = save(tiny.classifier(preprocessor=None), tmp_path / "without")
    assert "has no tokenizer" in refused(without, "--runtime", runtime)
    bytes_ = kb.BytePair(kb.Vocabulary([*SPECIAL, *"ab"]), merges=[])
    other = tiny.classifier(preprocessor=kb.Preprocessor(bytes_, 16))
    assert "not by byte_pair" in refused(save(other, tmp_path / "o"), "--runtime", runtime)


def test_character_table():
    table = BUILD["character_table"](lowercase=True, strip_accents=True, split_cjk=True)

    def within(kind, character):
        return any(first <= ord(character) <= last for first, last in table[kind])

    assert all(within("removed", c) for c in "\0\u0301\u200b\ufffd")
    assert all(within("space", c) for c in "\t \u00a0\u2028\u3000")
    assert all(within("alone", c) for c in "!$中。")
    assert [table["replaced"].get(c) for c in "AÉa"] == ["a", "e", None]
    assert not any(within(kind, "a") for kind in ("removed", "space", "alone"))


def test_the_lock_file_names_no_host():
    lock = json.loads((EXAMPLE / "package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
    wanted = json.loads((EXAMPLE / "package.json").read_text())
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == version


# The tokenizer


def node(script, argument, standard_input=""):
    if shutil.which("node") is None:
        pytest.fail("node is not installed: the tests of the mark `browser` need it")
    command = ["node", str(SCRIPTS / script), argument]
    done = subprocess.run(command, input=standard_input, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def differences(tokenizer, texts, folder, ways=(False, True)):
    """Texts of which JavaScript makes other ids, special tokens as plain text or read."""
    BUILD["write_tokenizer"](kb.Preprocessor(tokenizer), folder)
    different = []
    for allow in ways:
        job = json.dumps({"texts": texts, "allowSpecialTokens": allow})
        found = node("tokenize.mjs", str(folder), job)
        expected = tokenizer.tokenize(texts, allow_special_tokens=allow).to_list()
        rows = zip(texts, found, expected, strict=True)
        different += [text for text, ours, theirs in rows if ours != theirs]
    return different


@pytest.mark.private_data
@browser
@pytest.mark.parametrize("name", ["bert-base-uncased", "bert-base-cased"])
def test_ids_of_hard_lines(shared_data, name, tmp_path):
    texts = [line["text"] for line in stress.stress_lines(shared_data)]
    assert len(texts) == 4952
    texts += ["\ud800a", "a\udc00[MASK]", "\udc00\ud800", "\0[SEP\0]", "x\0y", "a" * 100, "a" * 101]
    tokenizer = stress.load_wordpiece(shared_data / "vocabs" / name)
    assert differences(tokenizer, texts, tmp_path) == []


@browser
@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_of_every_character(lowercase, tmp_path):
    characters = assigned_characters()
    known = [c for c in characters if unicodedata.category(c) not in ("Cc", "Cf", "Zs", "Zl", "Zp")]
    vocabulary = kb.Vocabulary([*SPECIAL, *known, *(f"##{c}" for c in known)])
    tokenizer = kb.WordPiece(vocabulary, lowercase=lowercase)
    texts = [f"a{c}b {c} x{c}" for c in characters]
    assert differences(tokenizer, texts, tmp_path, ways=[False]) == []


@browser
@pytest.mark.parametrize(
    "options",
    [
        {"max_characters_per_word": 4},
        {"strip_accents": False},
        {"lowercase": False, "strip_accents": True},
        {"split_cjk": False, "max_characters_per_word": 7},
    ],
)
def test_ids_with_other_options(options, tmp_path):
    pieces = [
        "un",
        "##aff",
        "##able",
        "unaff",
        "a",
        "##a",
        "é",
        "中",
        "##国",
        "a-b",
        "##-",
        "#",
        "pad",
    ]
    special = dict(zip(("pad", "unknown", "cls", "separator", "mask"), SPECIAL, strict=True))
    vocabulary = kb.Vocabulary([*SPECIAL, *pieces], **special | {"pad": "pad"})
    parts = [*SPECIAL, *"unaffablÉé中国-#. \t\0Σß\u0301", "unaffable", "a-b", "İ", "\ud800", "🎼"]
    draw = random.Random(0)
    texts = ["".join(draw.choices(parts, k=draw.randrange(12))) for _ in range(2000)]
    assert differences(kb.WordPiece(vocabulary, **options), texts, tmp_path) == []


# The page


@contextlib.contextmanager
def served(folder):
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def opened(site, texts=(), screenshot=None, dark=False):
    with served(site) as url:
        job = {"url": url, "executable": find_chromium(), "texts": texts, "dark": dark}
        seen = node("drive.mjs", json.dumps(job | {"screenshot": screenshot and str(screenshot)}))
        assert all(request.startswith((url, "data:")) for request in seen["requests"])
    return seen


@pytest.fixture(scope="module")
def site(tmp_path_factory, models):
    folder = tmp_path_factory.mktemp("site") / "site"
    BUILD["build"](models, folder, RUNTIME)
    return folder


@browser
def test_the_page_answers_as_keras_does(site, models, tmp_path):
    texts = ["the film was good", "A poor BOOK, ünknown \ufffd words", "good " * 40]
    masked = ["the [MASK] was good", "a [MASK] is a [MASK] ."]
    bad = [[0, "  \n"], [1, "no mask"], [1, "a " * 20 + "[MASK]"]]
    typed = [*([0, text] for text in texts), *([1, text] for text in masked), *bad]
    screenshot = tmp_path / "page.png"
    seen = opened(site, typed, screenshot)
    assert seen["complaints"] == []
    assert seen["loaded"] == ["Ready.", "Ready."]
    assert screenshot.read_bytes().startswith(b"\x89PNG")
    first, second, cut, *filled, empty, without, beyond = seen["answers"]

    classifier = kb.load(models[0])
    for answer, expected in zip((first, second, cut), classifier.predict_text(texts), strict=True):
        (rows,) = answer["lists"]
        assert {row["label"] for row in rows} == {"bad", "good"}
        (best,) = (row for row in rows if row["chosen"])
        assert best["label"] == expected["label"]
        assert best["score"] == pytest.approx(expected["score"], abs=1e-4)
        assert sum(row["score"] for row in rows) == pytest.approx(1, abs=1e-5)
    assert first["status"].startswith("4 tokens, ")
    assert first["status"].endswith(" ms")
    assert cut["status"].startswith("Cut: the text has 40 tokens, the model read the first 14.")

    for answer, expected in zip(filled, fill_mask(kb.load(models[1]), masked), strict=True):
        for rows, tokens in zip(answer["lists"], expected, strict=True):
            assert [row["label"] for row in rows] == [token["token"] for token in tokens]
            scores = [token["score"] for token in tokens]
            assert [row["score"] for row in rows] == pytest.approx(scores, abs=1e-4)

    assert (empty["status"], empty["lists"]) == ("There is nothing to read: type a text.", [])
    assert without["status"].startswith("There is no [MASK]: write it")
    assert beyond["status"].startswith("There is no [MASK] within the first 14 tokens")


@browser
@pytest.mark.parametrize("problem_type", ["multi_label", "regression"])
def test_other_classifiers(problem_type, tmp_path):
    model = tiny.classifier(problem_type=problem_type)
    BUILD["build"]([save(model, tmp_path / "model")], tmp_path / "site", RUNTIME)
    seen = opened(tmp_path / "site", [[0, "the film was good"]], dark=True)
    (answer,) = seen["answers"]
    (rows,) = answer["lists"]
    (expected,) = model.predict_text(["the film was good"])
    if problem_type == "regression":
        assert [row["score"] for row in rows] == pytest.approx(expected["score"], abs=1e-4)
    else:
        scores = {row["label"]: row["score"] for row in rows}
        assert scores == pytest.approx(expected["scores"], abs=1e-4)
        chosen = {row["label"] for row in rows if row["chosen"]}
        assert chosen == set(expected["labels"])


@browser
def test_what_is_missing_is_named(site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    (tmp_path / "site/models/0/model.onnx").unlink()
    (tmp_path / "site/models/1/model.onnx").write_bytes(b"no model")
    first, second = opened(tmp_path / "site")["loaded"]
    assert first.startswith("models/0/model.onnx is missing (404): write the page again")
    assert second.startswith("models/1/model.onnx could not be opened: ")
    (tmp_path / "site/models.json").unlink()
    (loaded,) = opened(tmp_path / "site")["loaded"]
    assert loaded.startswith("models.json is missing")
