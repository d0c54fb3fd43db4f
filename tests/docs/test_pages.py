"""Links lead somewhere, every page is in the menu, every public name in the reference."""

import inspect
import pkgutil
import re
import tomllib

import pytest

import keras_bert
from keras_bert import export, finetuning, metrics, visualize
from tests.blocks import ROOT
from tests.docs.test_blocks import DOCS, PAGES

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)", re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "BUILD_NOTES.md", "benchmarks/README.md")


def text_of(page):
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """As GitHub and Sphinx make them of headings."""
    for heading in re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES.values(), *(ROOT / name for name in TOP)], ids=str)
def test_every_link_leads_somewhere(page):
    for target in LINK.findall(text_of(page)):
        if not target.startswith(("http://", "https://")):
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            assert there.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


def menu_of(name):
    """Returns the pages in the menu of an index page, and in the menus of index pages below it."""
    text = PAGES[name].read_text(encoding="utf-8")
    menu = "\n".join(re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    folder = name.removesuffix("index.md")
    for line in menu.splitlines():
        if re.fullmatch(r"[\w/-]+", line):
            page = f"{folder}{line}.md"
            yield page
            if page.endswith("/index.md"):
                yield from menu_of(page)


def test_every_page_is_in_the_menu():
    assert sorted(menu_of("index.md")) == sorted(set(PAGES) - {"index.md"})


def index():
    return PAGES["index.md"].read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES.values())
    described = dict(re.findall(r"^- `(keras_bert[\w.]+)`: (.*)$", pages, re.MULTILINE))
    for name, sentence in described.items():
        found = pkgutil.resolve_name(name)
        if callable(found):
            assert sentence == " ".join(inspect.getdoc(found).split("\n\n")[0].split()), name
    packages = {"keras_bert": keras_bert, "keras_bert.export": export}
    packages |= {"keras_bert.finetuning": finetuning, "keras_bert.visualize": visualize}
    public = {f"{package}.{name}" for package, of in packages.items() for name in of.__all__}
    public |= {f"keras_bert.metrics.{name}" for name in ("measure", *metrics.METRICS)}
    assert public <= set(described), public - set(described)


def test_every_extra_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall("^\\| (`.*`) \\|", index(), re.MULTILINE)
    explained = re.findall("`(.+?)`", " ".join(rows))
    assert len(explained) == len(set(explained))
    assert set(project["optional-dependencies"]) - set(explained) <= {"test"}
    assert set(explained) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("source", ["keras_bert", "export"])
def test_every_error_is_in_the_tour(source):
    tour = (DOCS / "errors.md").read_text(encoding="utf-8")
    for path in (ROOT / source).rglob("*.py"):
        for name in re.findall(r"^class (\w+Error)\(", path.read_text(encoding="utf-8"), re.M):
            assert name in tour, path
