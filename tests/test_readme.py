"""Every code block of README.md is executed, in its order, in one directory."""

import json
import shutil

import pytest

from keras_bert.families import FAMILIES
from tests.blocks import ROOT, blocks, run, user_files
from tests.families import COLUMNS, NAMES

MAKE = "make demo\nmake test\n"  # the tests themselves; the demo has one of its own


@pytest.mark.slow
def test_every_block_runs(tmp_path):
    assert shutil.which("bash")
    user_files(tmp_path)
    for language, code in blocks(ROOT / "README.md"):
        if code != MAKE:
            run(language, code, tmp_path)
    assert (tmp_path / "serving" / "1" / "saved_model.pb").exists()
    for name in ("curves.png", "names.png", "mistakes.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    teams = [json.loads(line) for line in (tmp_path / "teams.jsonl").read_text().splitlines()]
    assert {line["label"] for line in teams} <= {"sales", "repair"}
    assert len(teams) == 24
    assert len(json.loads((tmp_path / "predictions.json").read_text())) == 24


def test_every_family_has_a_row_in_the_table():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert f"| {' | '.join(COLUMNS)} |" in lines
    for family in FAMILIES:
        assert sum(line.startswith(f"| {NAMES[family][0]} | ") for line in lines) == 1
