"""The table of families, and the guide to a new one, followed in a copy of the package."""

import os
import shutil
import subprocess
import sys

from keras_bert.families import FAMILIES
from tests.blocks import ROOT, assert_shown, blocks
from tests.docs.test_blocks import DOCS
from tests.families import COLUMNS, NAMES


def test_every_family_has_a_row_in_the_table():
    lines = (DOCS / "guides" / "families.md").read_text(encoding="utf-8").splitlines()
    assert f"| {' | '.join(COLUMNS)} |" in lines
    for family in FAMILIES:
        assert sum(line.startswith(f"| {NAMES[family][0]} | ") for line in lines) == 1


def test_a_family_is_a_file_and_a_line(tmp_path):
    page = blocks(DOCS / "guides" / "families.md")
    (_, family), (language, line), (_, use), (_, expected) = page
    package = tmp_path / "copy" / "keras_bert"
    shutil.copytree(ROOT / "keras_bert", package)
    shutil.copytree(ROOT / "export", package / "export")
    (package / "families" / "toy.py").write_text(family, encoding="utf-8")
    listed = package / "families" / "__init__.py"
    assert language == "diff"
    assert [each[0] for each in line.splitlines()].count("+") == 1
    listed.write_text(changed(listed.read_text(encoding="utf-8"), line), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-c", f"{use}\nassert kb.__file__.startswith({str(package)!r})"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.returncode, done.stderr[-3000:]
    assert_shown(expected, done.stdout, use)
    assert (tmp_path / "toy.tflite").stat().st_size > 10_000


def changed(text, change):
    """A text with a hunk of a diff applied, which must fit in one place."""
    before, after = (
        "".join(line[1:] for line in change.splitlines(keepends=True) if line[0] in signs)
        for signs in (" -", " +")
    )
    assert text.count(before) == 1, change
    return text.replace(before, after)
