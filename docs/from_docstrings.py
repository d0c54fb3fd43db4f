"""Fill the reference pages: replace an item for a public name by the docstring of that name.

In the repository, an item has the first sentence of the docstring. A test compares them.

griffe parses the source, so TensorFlow is not imported. A docstring has Google's sections with
Markdown inside. It becomes Markdown that Sphinx reads with the page.
"""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
LINE = re.compile(r"^- `(keras_bert[\w.]+)`: .*$", re.MULTILINE)
OPTIONS = re.compile(r"^- Options of `(keras_bert[\w.]+)`$", re.MULTILINE)
LISTED = ("parameters", "attributes", "returns", "raises", "yields")
OF_KERAS = ("build", "from_config", "get_build_config", "get_config")  # as in any Keras layer


def setup(app: Any) -> dict[str, bool]:
    """Registers the replacement with Sphinx, which calls this function."""
    app.connect("source-read", _fill_in)
    return {"parallel_read_safe": True}


def _fill_in(app: Any, page: str, source: list[str]) -> None:
    for name in LINE.findall(source[0]):  # the page is built again when a docstring changes
        app.env.note_dependency(str(find(name).filepath))
    source[0] = OPTIONS.sub(lambda line: "\n".join(describe_options(line[1])), source[0])
    source[0] = LINE.sub(lambda line: "\n".join(describe(line[1])), source[0])


def describe(name: str) -> Iterator[str]:
    """Returns the lines of Markdown for a public class or function, with a heading of level 2."""
    found = find(name)
    if not found.docstring:
        raise ValueError(f"{name} has no docstring")
    yield f"## {name.rpartition('.')[2]}"
    yield from _described(found, name)
    if found.is_class:
        for method in found.all_members.values():
            if _is_public(method):
                yield f"### {found.name}.{method.name}"
                yield from _described(method, method.name)


def describe_options(name: str) -> Iterator[str]:
    """Yields lines of Markdown: a table of the fields of a configuration, such as a `Recipe`."""
    module, _, last = name.rpartition(".")
    options = getattr(importlib.import_module(module), last)
    from keras_bert.options import expected_range, expected_type, fields

    yield "| option | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in fields(options).items():
        allowed = ", ".join(filter(None, (expected_type(field.annotation), expected_range(field))))
        default = "needed" if field.is_required() else f"`{json.dumps(field.default)}`"
        yield f"| `{name}` | {allowed} | {default} | {field.description} |"


def find(name: str) -> Any:
    """Finds the class, function or table with a public name.

    Raises:
        KeyError: if there is no such name.
    """
    path, _, last = name.replace("keras_bert.export", "export").rpartition(".")
    folder, *inside = path.split(".")
    package = _package(folder)
    package = package[".".join(inside)] if inside else package
    if folder == "export":  # this folder is installed as keras_bert.export
        found = package[last]
        while found.is_alias:
            found = package[found.target_path.removeprefix("keras_bert.export.")]
        return found
    if "_MODULES" in package.members:  # names that the package imports when they are used
        modules = importlib.import_module(path)._MODULES
        package = _package(folder)[".".join((*inside, modules[last]))]
    return package[last].final_target if package[last].is_alias else package[last]


@cache
def _package(name: str) -> Any:
    return griffe.load(
        name,
        search_paths=[ROOT],
        allow_inspection=False,
        docstring_parser="google",
        docstring_options={
            "returns_multiple_items": False,
            "returns_named_value": False,
            "warn_missing_types": False,  # types stand in signatures, or in fields of pydantic
            "warn_unknown_params": False,
        },
    )


def _is_public(member: Any) -> bool:
    named = not member.name.startswith("_") and member.name not in OF_KERAS
    return named and member.is_function and bool(member.docstring)


def _described(found: Any, name: str) -> Iterator[str]:
    if found.is_class or found.is_function:
        yield from ("", "```python", _signature(found, name), "```", "")
    for section in found.docstring.parsed if found.docstring else ():
        kind, value = section.kind.value, section.value
        if kind == "text":
            yield from (value, "")
        elif kind == "admonition":  # "Example:"
            code = value.contents.startswith(">>>")
            yield from (f"{section.title}:", "")
            yield from ("```pycon", value.contents, "```", "") if code else (value.contents, "")
        elif kind in LISTED:
            yield from (f"{kind.capitalize()}:", "")
            yield from (_item(item, kind, found) for item in value)
            yield ""
        else:
            raise ValueError(f"{name}: a section {kind!r} has no form here")


def _signature(found: Any, name: str) -> str:
    parameters, star = [], False
    for parameter in found.parameters:
        if parameter.name in ("self", "cls"):
            continue
        star = star or parameter.kind == griffe.ParameterKind.var_positional
        if parameter.kind == griffe.ParameterKind.keyword_only and not star:
            parameters.append("*")
            star = True
        parameters.append(_parameter(parameter))
    line = f"{name}({', '.join(parameters)})"
    if len(line) > 80:
        line = f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + ")"
    returns = None if found.is_class else found.returns
    return f"{line} -> {returns}" if returns else line


def _parameter(parameter: Any) -> str:
    stars = {"variadic positional": "*", "variadic keyword": "**"}.get(parameter.kind.value, "")
    typed = f": {parameter.annotation}" if parameter.annotation else ""
    default = "" if stars or parameter.required else f" = {parameter.default}"
    return f"{stars}{parameter.name}{typed}{default}"


def _item(item: Any, kind: str, found: Any) -> str:
    text = " ".join(item.description.split())
    if kind != "returns":
        name = item.annotation if kind == "raises" else item.name
        return f"- `{name}`: {text}"
    # griffe reads the words before a colon, such as "N dictionaries: ...", as a type.
    typed = str(item.annotation) != str(found.returns)
    return f"- {item.annotation}: {text}" if typed else f"- {text}"
