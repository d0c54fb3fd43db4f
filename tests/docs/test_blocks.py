"""Every code block of docs/ is executed, page by page, and prints what the page says.

The blocks of a page run in their order, in one directory, and its Python blocks share their names.
A block "text" is what the block before it prints or, if that fails, how its error ends.
"""

import contextlib
import io
import traceback
from pathlib import Path

import pytest

from tests.blocks import ROOT, assert_shown, blocks, execute, user_files
from tests.marks import others_slow

DOCS = ROOT / "docs"
PAGES = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
WITH_BLOCKS = [name for name, page in PAGES.items() if blocks(page)]
# tests/docs/test_families.py and test_troubleshooting.py
OF_OTHER_TESTS = ("guides/families.md", "troubleshooting.md")
# Whatever starts TensorFlow anew, block by block, or trains.
QUICK = ("errors.md", "guides/checkpoints.md", "guides/text.md")


@pytest.mark.parametrize(
    "name",
    others_slow([name for name in WITH_BLOCKS if name not in OF_OTHER_TESTS], quick=QUICK),
)
def test_every_block_does_what_the_page_says(name, tmp_path, monkeypatch, forks):
    user_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": name}
    following = blocks(PAGES[name])
    assert following[0][0] != "text", f"no block prints\n{following[0][1]}"
    for (language, code), (next_language, expected) in zip(
        following, [*following[1:], ("", "")], strict=True
    ):
        if language == "text":
            assert next_language != "text", f"no block prints\n{expected}"
            continue
        output, failed = run(language, code, names, forks.bin)
        if next_language == "text":
            assert_shown(expected, output, code)
        else:
            assert not failed, f"{code}\n{output}"


def run(language, code, names, programs):
    """Returns what a block prints, or its error, and whether it failed."""
    if language != "python":
        done = execute(language, code, Path(), programs)
        failed = done.returncode != 0
        return done.stderr if failed else done.stdout, failed
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "block", "exec"), names)
    except Exception as error:
        return "".join(traceback.format_exception_only(error)), True
    return printed.getvalue(), False


def test_the_tests_of_blocks_notice_a_difference():
    with pytest.raises(AssertionError, match="prints"):
        assert_shown("a ... of 3", "a share of 4", "")
    with pytest.raises(AssertionError, match="prints"):
        assert_shown("good 0.98", "bad 0.98", "")
    assert_shown("a ... of\n4", "a share\nof 4", "")
    assert_shown("good 0.98", "good 0.9134", "")
    assert run("python", "1 / 0", {}, None) == ("ZeroDivisionError: division by zero\n", True)
