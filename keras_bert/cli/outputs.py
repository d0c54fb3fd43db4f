"""Files that a command is to write: never one of its inputs, nor a file of another kind."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from keras_bert.errors import InputError

OVERWRITE = click.option(
    "--overwrite",
    is_flag=True,
    help="Also replace existing files that this command did not write; never an input.",
)


def check_output(
    path: str | Path | None,
    inputs: Iterable[str | Path | None],
    is_ours: Callable[[bytes], bool],
    overwrite: bool,
) -> None:
    """Passes if a file may be written at a path.

    Args:
        path: the file; None passes.
        inputs: files and directories that the command reads; None is left out.
        is_ours: whether the command writes files with such content. These files and empty files
            are replaced.
        overwrite: whether other files are replaced as well.

    Raises:
        InputError: if the path is an input, under any name, or a file that may not be replaced.
    """
    path = Path(path) if path is not None else None
    if path is None or not path.exists() or path.is_dir():  # a directory is refused by its writer
        return
    if not path.is_file():
        raise InputError(f"{path} is not a regular file; choose another output.")
    sources = [Path(source) for source in inputs if source is not None]
    existing = [source for source in sources if source.exists()]
    if any(source.samefile(path) for source in existing):
        raise InputError(f"{path} is an input of this command; choose another output.")
    content = path.read_bytes()
    if not content or is_ours(content):
        return
    for source in existing:
        if source.resolve() in path.resolve().parents:
            raise InputError(f"{path} belongs to the input {source}; choose another output.")
    if not overwrite:
        raise InputError(
            f"{path} exists and is not a file that this command wrote; choose another output, or "
            "add --overwrite to replace it."
        )


def is_vocabulary(content: bytes) -> bool:
    """Whether the first line is the first token of the vocabularies that are learned here."""
    return content.startswith(b"[PAD]\n")


def is_token_ids(content: bytes) -> bool:
    """Whether a JSON object has an integer for each token."""
    return _is_object_of(int, content)


def is_merges(content: bytes) -> bool:
    """Whether the file begins as the merges of byte pairs do."""
    return content.startswith(b"#version")


def is_sentencepiece(content: bytes) -> bool:
    """Whether the first piece is the first one of the models that are learned here."""
    return content.startswith(b"\n") and b"<pad>" in content[:32]


def is_predictions(content: bytes) -> bool:
    """Whether the first line is a prediction. A text with only a score may be an example."""
    try:
        names = set(json.loads(content.partition(b"\n")[0]))
    except ValueError:
        return False
    return any(names >= kind for kind in _PREDICTIONS)


_PREDICTIONS = (
    {"text", "label", "score"},
    {"text", "labels", "scores"},
    {"text", "tags", "entities"},
    {"question", "answer", "start", "score"},
    {"context", "choice", "scores"},
    {"text", "embedding"},
    {"text", "cosine"},
    {"text", "cosines"},
)


def is_squad_predictions(content: bytes) -> bool:
    """Whether a JSON object has a text for each question."""
    return _is_object_of(str, content)


def is_picture(content: bytes) -> bool:
    """Whether matplotlib drew the picture. It names itself in PNG, SVG and PDF files."""
    return b"atplotlib" in content


def is_attention_page(content: bytes) -> bool:
    """Whether the page has the title and the place for the heads."""
    return b"<title>Attention</title>" in content and b'id="heads"' in content


def is_report(content: bytes) -> bool:
    """Whether the page, in Markdown or HTML, has a report's title."""
    return content.startswith(b"# Artifacts of a ") or b"<title>Artifacts of a " in content[:200]


def _is_object_of(kind: type, content: bytes) -> bool:
    try:
        values = json.loads(content)
    except ValueError:
        return False
    return isinstance(values, dict) and all(type(value) is kind for value in values.values())
