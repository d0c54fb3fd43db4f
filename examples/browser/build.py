"""Put a classifier, fill-mask, or both on a static page that runs them in the browser.

    npm ci --omit=dev --prefix examples/browser
    python examples/browser/build.py reviews/model run/model --output site
    python -m http.server --directory site

A model is any directory that `keras_bert.load` opens, with a WordPiece vocabulary.
"""

import argparse
import functools
import itertools
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import keras_bert as kb
from keras_bert import export
from keras_bert.atomic import replacing, written_with
from keras_bert.errors import InputError, KerasBertError
from keras_bert.text.wordpiece.tokenizer import load_normalizer

HERE = Path(__file__).parent
THEME = Path(kb.__file__).parent / "visualize" / "theme.css"
PAGE = ("index.html", "style.css", "page.js", "model.js", "tokenizer.js")
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
OF_MODEL = ("model.onnx", "vocab.txt", "characters.json", "options.json")
MODELS = "models.json"  # lists the models' folders in the order of the page
TASKS = {
    kb.SequenceClassifier: "classifier",
    kb.MaskedLanguageModel: "fill-mask",
    kb.PretrainingModel: "fill-mask",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "models", nargs="+", help="directories of a classifier, a masked LM, or both"
    )
    parser.add_argument("--output", type=Path, default=Path("site"), help="the page's directory")
    parser.add_argument(
        "--runtime",
        type=Path,
        default=HERE / "node_modules" / "onnxruntime-web" / "dist",
        help="directory of onnxruntime-web's files; default: where npm puts them",
    )
    arguments = parser.parse_args()
    try:
        build(arguments.models, arguments.output, arguments.runtime)
    except KerasBertError as error:
        sys.exit(str(error))
    print(f"Now: python -m http.server --directory {arguments.output}")


def build(models: list[str], output: Path, runtime: Path) -> None:
    if not all((runtime / name).is_file() for name in RUNTIME):
        raise InputError(
            f"{runtime} has no onnxruntime-web; run: npm ci --omit=dev --prefix {HERE}."
        )
    with replacing(output, owned=earlier_site) as site:
        (site / "ort").mkdir(parents=True)
        for name in PAGE:
            shutil.copyfile(HERE / name, site / name)
        shutil.copyfile(THEME, site / THEME.name)
        for name in RUNTIME:
            shutil.copyfile(runtime / name, site / "ort" / name)
        folders = [f"models/{number}" for number in range(len(models))]
        for directory, folder in zip(models, folders, strict=True):
            write_model(directory, site / folder)
        write_json(site / MODELS, folders)


def earlier_site(site: Path) -> list[str]:
    """Returns the names of the files that `build` wrote into a directory."""
    page = (*PAGE, THEME.name, *(f"ort/{name}" for name in RUNTIME))
    names = written_with(MODELS, *page)(site)
    models = (path for name in OF_MODEL for path in site.glob(f"models/*/{name}"))
    return [*names, *(path.relative_to(site).as_posix() for path in models)]


def write_model(directory: str, folder: Path) -> None:
    """Writes the files of one model: the ONNX file, and the data of its tokenizer."""
    model = kb.load(directory)
    task = next((name for kind, name in TASKS.items() if isinstance(model, kind)), None)
    if task is None:
        raise InputError(
            f"{directory} is a model of the class {type(model).__name__}; the page runs "
            "SequenceClassifier, MaskedLanguageModel and PretrainingModel."
        )
    if model.preprocessor is None:
        raise InputError(f"{directory} has no tokenizer, so its model cannot take texts.")
    export.onnx(model, folder / "model.onnx")
    size = (folder / "model.onnx").stat().st_size
    options = {
        "task": task,
        "megabytes": round(size / 1e6, 1),
        "parameters": f"{model.count_params():,}",
    }
    if task == "classifier":
        options |= {"labels": model.labels, "problem_type": model.problem_type}
    write_tokenizer(model.preprocessor, folder, options)


def write_tokenizer(
    preprocessor: kb.Preprocessor, folder: Path, options: dict[str, Any] | None = None
) -> None:
    """Writes `vocab.txt`, `characters.json` and `options.json` for the tokenizer in JavaScript."""
    tokenizer = preprocessor.tokenizer
    if not isinstance(tokenizer, kb.WordPiece):
        raise InputError(f"The page splits texts by WordPiece only, not by {tokenizer.kind}.")
    folder.mkdir(parents=True, exist_ok=True)
    preprocessor.vocabulary.save(folder / "vocab.txt")
    table = character_table(
        lowercase=tokenizer.lowercase,
        strip_accents=tokenizer.strip_accents,
        split_cjk=tokenizer.split_cjk,
    )
    write_json(folder / "characters.json", table)
    text = {
        "sequence_length": preprocessor.sequence_length,
        "special_tokens": preprocessor.vocabulary.special_tokens,
        "max_characters_per_word": tokenizer.max_characters_per_word,
    }
    write_json(folder / "options.json", {**(options or {}), **text})


@functools.cache
def character_table(*, lowercase: bool, strip_accents: bool, split_cjk: bool) -> dict[str, Any]:
    """Runs the tokenizer's operations on every character and returns what they do.

    Returns:
        `removed`, `space` and `alone` are lists of ranges `[first, last]` of code points: removed
        characters, characters that become a space, and characters that are words by themselves.
        `replaced` maps characters to their replacements. All other characters are letters.
    """
    characters = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]
    normalizer = load_normalizer(lowercase=lowercase, strip_accents=strip_accents)
    # Between two letters, so that NUL does not end the string.
    contexts = [f"a{character}a" for character in characters]
    normalized = normalizer.normalize(tf.constant(contexts)).numpy()
    changed = {
        character: written.decode()[1:-1]
        for character, context, written in zip(characters, contexts, normalized, strict=True)
        if context.encode() != written
    }
    # For unchanged characters, the pieces of "a", the character, "a" show its kind.
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a"]
    splitter = kb.WordPiece(kb.Vocabulary(tokens), lowercase=False, split_cjk=split_cjk)
    pieces = splitter.tokenize(contexts).to_tensor(shape=[None, 3]).numpy()

    def around(*word: str) -> set[str]:
        rows = (pieces == [tokens.index(piece) for piece in word]).all(axis=1)
        return {characters[row] for row in np.flatnonzero(rows)} - set(changed)

    def becoming(text: str) -> set[str]:
        return {character for character, written in changed.items() if written == text}

    return {
        "removed": ranges(becoming("")),
        "space": ranges(becoming(" ") | around("a", "a", "[PAD]")),
        "alone": ranges(around("a", "[UNK]", "a")),
        "replaced": {c: written for c, written in changed.items() if written not in ("", " ")},
    }


def ranges(characters: set[str]) -> list[list[int]]:
    """Returns `[first, last]` of each run of consecutive code points, in order."""
    runs = itertools.groupby(
        enumerate(sorted(map(ord, characters))), lambda pair: pair[1] - pair[0]
    )
    ends = ([code_point for _, code_point in run] for _, run in runs)
    return [[run[0], run[-1]] for run in ends]


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")), "utf-8")


if __name__ == "__main__":
    main()
