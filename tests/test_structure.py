"""The rules of the layout, read from the source."""

import ast
import graphlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Each package may import those before it and itself; "checkpoints" builds any task, and the
# trainer writes checkpoints.
ORDER = (
    ("errors", "surrogates"),
    ("config", "options", "atomic", "extras", "progress", "allocator", "columns"),
    ("layers", "text", "metrics", "optimizers"),
    ("families",),
    ("tasks",),
    ("checkpoints", "distribution"),
    ("pretraining",),
    ("finetuning",),
    ("export", "visualize"),  # export judges artifacts by the metrics of fine-tuning
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
WITHOUT_TENSORFLOW = (
    "errors",
    "surrogates",
    "config",
    "options",
    "atomic",
    "extras",
    "progress",
    "allocator",
    "columns",
    "layers",
    "families",
    "tasks",
    "metrics",
    "visualize",
)


ON_ITS_BACKEND = ("fused.py",)  # imports TensorFlow only if Keras computes with it


def sources():
    for path in sorted((ROOT / "keras_bert").rglob("*.py")):
        parts = path.relative_to(ROOT / "keras_bert").with_suffix("").parts
        if parts != ("__init__",):
            yield parts[0], path
    for path in sorted((ROOT / "export").rglob("*.py")):
        yield "export", path


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("package", "path"), list(sources()), ids=lambda value: str(value)[-40:])
def test_nothing_imports_upwards(package, path):
    for name in imports(path):
        if name.startswith("keras_bert."):
            target = name.split(".")[1]
            if target in RANK:
                assert target == package or RANK[target] < RANK[package], f"{path} imports {name}"
        if package in WITHOUT_TENSORFLOW and path.name not in ON_ITS_BACKEND:
            assert name.split(".")[0] not in ("tensorflow", "tensorflow_text"), path


# What serves every family names none: a new one is a file in keras_bert/families.
FOR_EVERY_FAMILY = (
    "layers",
    "tasks",
    "export",
    "visualize",
    "pretraining/training/trainer.py",
    "pretraining/training/inputs.py",
)
FAMILY = re.compile(
    r"(?<!keras-)\bbert\b|roberta|camembert|distilbert|albert|electra|deberta", re.IGNORECASE
)


def words(tree):
    """Every name and text in a module but its docstrings, which cite papers."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    owners = [n for n in ast.walk(tree) if isinstance(n, documented) and ast.get_docstring(n)]
    docstrings = [owner.body[0].value for owner in owners]
    for node in ast.walk(tree):
        if node not in docstrings:
            yield from (value for _, value in ast.iter_fields(node) if isinstance(value, str))


def test_no_family_is_named_where_all_are_served():
    for _, path in sources():
        if str(path.relative_to(ROOT)).removeprefix("keras_bert/").startswith(FOR_EVERY_FAMILY):
            assert not [w for w in words(ast.parse(path.read_text())) if FAMILY.search(w)], path


def test_families_stay_small():
    for path in (ROOT / "keras_bert" / "families").glob("*.py"):
        assert len(path.read_text().splitlines()) < 200, path


def test_every_package_is_ranked_and_installed():
    files = (ROOT / "keras_bert").rglob("*/__init__.py")
    packages = {".".join(file.parent.relative_to(ROOT).parts) for file in files}
    files = (ROOT / "export").rglob("__init__.py")
    packages |= {".".join(("keras_bert", *file.parent.relative_to(ROOT).parts)) for file in files}
    assert {name.split(".")[1] for name in packages} <= set(RANK)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    of_files_alone = {
        f"keras_bert.{name}"
        for name in ("recipes", "text.byte_pair.tables", "text.wordpiece.tables")
    }
    assert set(declared["packages"]) == {"keras_bert"} | packages | of_files_alone


def test_public_names_exist_and_importing_the_package_brings_no_tensorflow():
    code = (
        "import sys, keras_bert\n"
        "assert not {'keras', 'tensorflow'} & set(sys.modules)\n"
        "assert all(getattr(keras_bert, name) for name in keras_bert.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Within pretraining, a module imports those of lower rank and its own folder. Imports for type
# hints count.
PRETRAINING_ORDER = (
    ("background", "config", "recipes"),
    ("data",),
    ("objectives",),
    ("resolve",),
    ("training",),
)


def test_modules_of_pretraining_import_nothing_upwards():
    rank = {name: rank for rank, names in enumerate(PRETRAINING_ORDER) for name in names}
    upwards = set()
    for path in (ROOT / "keras_bert" / "pretraining").rglob("*.py"):
        own = path.relative_to(ROOT / "keras_bert" / "pretraining").with_suffix("").parts[0]
        for name in imports(path):
            parts = name.split(".")
            target = parts[2] if parts[:2] == ["keras_bert", "pretraining"] and parts[2:] else ""
            if rank.get(target, 0) > rank.get(own, len(rank)):
                upwards.add((own, target))
    assert not upwards


MOST_MODULES = 16


def test_no_folder_has_many_modules():
    sizes = {}
    for root in ("keras_bert", "export"):
        for folder in {path.parent for path in (ROOT / root).rglob("*.py")}:
            if folder.name == "families":  # a module for each family
                continue
            modules = [p for p in folder.glob("*.py") if p.name != "__init__.py"]
            sizes[str(folder.relative_to(ROOT))] = len(modules)
    assert not {name: size for name, size in sizes.items() if size > MOST_MODULES}


def imports_of_module(path):
    """Imports outside of functions, those for type hints among them."""
    nodes = list(ast.parse(path.read_text()).body)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes.extend(child for child in ast.iter_child_nodes(node))


def test_there_is_no_import_circle():
    modules = {}
    for _, path in sources():
        under = path.relative_to(ROOT).with_suffix("").parts
        parts = under if under[0] == "keras_bert" else ("keras_bert", *under)
        modules[".".join(parts).removesuffix(".__init__")] = path
    graph = {}
    for module, path in modules.items():
        found = set()
        for name in imports_of_module(path):
            found.add(name if name in modules else name.rpartition(".")[0])
        graph[module] = found & set(modules)
    graphlib.TopologicalSorter(graph).prepare()
