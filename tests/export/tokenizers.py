"""How the tokenizers of other runtimes read texts: a table of the lines that they read otherwise.

    python -m tests.export.tokenizers --data ../shared/data --phone .venv-phone/bin/python

prints it as Markdown, for the 4,952 hard lines and prose, 10,000 lines together. A line is put
down to the first cause for which the runtime reads it as we do once the text has been prepared in
that one respect, in the way of our tokenizer. `make test-phone` makes the environment with
MediaPipe; without `--phone` the table has onnxruntime-extensions alone.
"""

import argparse
import gzip
import json
import re
import subprocess
import tempfile
import types
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import tensorflow as tf
from onnx import TensorProto, helper

import keras_bert as kb
from keras_bert.export._onnx import text_input as onnx_text
from keras_bert.export._tflite.metadata import READERS, with_metadata
from keras_bert.export.process import running
from keras_bert.layers.configured import INPUTS
from keras_bert.tasks.embedder import TextEmbedder
from keras_bert.text.byte_pair.tokenizer import BytePair
from keras_bert.text.byte_pair.training import SPECIAL_TOKENS
from tests.text.reference import is_cjk

LENGTH = 256  # tokens of a line that are compared
LINES = 10_000
SEVERAL, OTHER = "several of these together", "none of these"
_UNKNOWN = "\ua66e"  # a letter that no vocabulary has

Reader = Callable[[list[str]], list[list[int]]]
"""Texts to their tokens."""


def ours(tokenizer: kb.WordPiece) -> Reader:
    preprocessor = kb.Preprocessor(tokenizer, LENGTH)

    def read(texts: list[str]) -> list[list[int]]:
        inputs = preprocessor(texts)
        return _unpadded(inputs["token_ids"], inputs["padding_mask"])

    return read


def onnxruntime_extensions(tokenizer: kb.WordPiece, folder: Path) -> Reader:
    model = types.SimpleNamespace(text_preprocessor=kb.Preprocessor(tokenizer, LENGTH))
    nodes, constants = onnx_text.reading(model)
    texts = helper.make_tensor_value_info("text", TensorProto.STRING, ["batch"])
    ids = [helper.make_tensor_value_info(n, TensorProto.INT32, ["batch", "T"]) for n in INPUTS]
    graph = helper.make_graph(nodes, "tokenizer", [texts], ids, constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(onnx_text.DOMAIN, 1)]
    path = folder / "tokenizer.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)

    def read(texts: list[str]) -> list[list[int]]:
        rows = []
        with running(path) as process:
            for start in range(0, len(texts), 256):
                part = np.array([text.encode() for text in texts[start : start + 256]], object)
                found = process.run("serving_default", {"text": part})
                rows += _unpadded(found["token_ids"], found["padding_mask"])
        return rows

    return read


def mediapipe(tokenizer: kb.WordPiece, folder: Path, python: str) -> Reader:
    """MediaPipe tells no tokens, but runs a model whose embedding they are."""
    path = folder / "tokenizer.tflite"
    specifications = [tf.TensorSpec([1, LENGTH], tf.int32, name=name) for name in INPUTS]

    @tf.function(input_signature=specifications, autograph=False)
    def tell(*arrays: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, mask = arrays[INPUTS.index("token_ids")], arrays[INPUTS.index("padding_mask")]
        return {"embedding": tf.cast(ids * mask - (1 - mask), tf.float32)}  # -1 is padding

    # Without a module the converter leaves out the signature.
    functions = [tell.get_concrete_function()]
    converter = tf.lite.TFLiteConverter.from_concrete_functions(functions, tf.Module())
    model = types.SimpleNamespace(text_preprocessor=kb.Preprocessor(tokenizer, LENGTH))
    path.write_bytes(with_metadata(converter.convert(), model, READERS[TextEmbedder]))

    def read(texts: list[str]) -> list[list[int]]:
        requests = folder / "requests.json"
        requests.write_text(json.dumps([("embed", str(path), texts)]), "utf-8")
        client = str(Path(__file__).with_name("phone_client.py"))
        done = subprocess.run([python, client, str(requests)], capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-2000:])
        (answers,) = json.loads(done.stdout)
        ids = np.asarray(answers, "int32").reshape(len(texts), LENGTH)
        return _unpadded(ids, ids >= 0)

    return read


def _unpadded(ids, mask) -> list[list[int]]:
    ids, mask = np.asarray(ids), np.asarray(mask).astype(bool)
    return [row[kept].tolist() for row, kept in zip(ids, mask, strict=True)]


# Causes: what our tokenizer does to texts, done beforehand.


def _is_control(character: str) -> bool:
    is_control = unicodedata.category(character) in ("Cc", "Cf") or character == "\ufffd"
    return is_control and character not in "\t\n\r"


def _is_punctuation(character: str) -> bool:
    ascii_symbol = character.isascii() and not character.isalnum() and character.isprintable()
    return (ascii_symbol and character != " ") or unicodedata.category(character)[0] == "P"


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(map(change, text))


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def _special_tokens_apart(text: str) -> str:
    return re.sub(r"\[(PAD|UNK|CLS|SEP|MASK)\]", r"[ \1 ]", text)


def _words(text: str) -> list[str]:
    """Words, and what is between them."""
    pieces = re.split(r"(\s)", text)
    apart = (
        "".join(f"\0{c}\0" if _is_punctuation(c) or is_cjk(c) else c for c in piece)
        for piece in pieces
    )
    return [word for piece in apart for word in piece.split("\0") if word]


class Cause(NamedTuple):
    """Something that tokenizers do in different ways.

    Args:
        name: in the table.
        example: a text of the kind.
        prepare: does to a text what our tokenizer does, so that others need not.
        is_ours: whether a tokenizer does so, by its options.
    """

    name: str
    example: str
    prepare: Callable[[str], str]
    is_ours: Callable[[kb.WordPiece], bool] = lambda tokenizer: True


CAUSES = (
    Cause(
        "capital letters of ASCII stay",
        "The film",
        _each(lambda c: c.lower() if c.isascii() else c),  # to us it matters, to others not
        lambda tokenizer: not tokenizer.lowercase,
    ),
    Cause(
        "special tokens in the text are text",
        "a [MASK] b",
        _special_tokens_apart,
    ),
    Cause(
        "NUL, control and format characters are dropped",
        "the\u200b film\x07",
        _each(lambda c: "" if _is_control(c) else c),
    ),
    Cause(
        "white space beyond ASCII parts words",
        "good\u00a0film\u3000x",
        _each(lambda c: " " if unicodedata.category(c)[0] == "Z" else c),
    ),
    Cause(
        "ideographs are words",
        "x\u4e2d\U00020001y",
        _each(lambda c: f" {c} " if is_cjk(c) else c),
        lambda tokenizer: tokenizer.split_cjk,
    ),
    Cause(
        "letters beyond ASCII lose their case",
        "\u00d8re \u0416",
        _each(lambda c: c if c.isascii() else c.lower()),
        lambda tokenizer: tokenizer.lowercase,
    ),
    Cause(
        "accents are dropped",
        "caf\u00e9 \u0219i e\u0301",
        _without_accents,
        lambda tokenizer: tokenizer.strip_accents,
    ),
    Cause(
        "punctuation beyond ASCII parts words",
        "x\u2019y \u00abz\u00bb \u2e52",
        _each(lambda c: f" {c} " if _is_punctuation(c) else c),
    ),
    Cause(
        "words may have 100 characters, not bytes",
        "\u0e01" * 40,
        lambda text: "".join(_UNKNOWN if len(w.encode()) > 100 else w for w in _words(text)),
    ),
)
MISSING_PIECE = "words with a missing piece are unknown as a whole"


def _with_unknown_words(tokenizer: kb.WordPiece, texts: list[str]) -> list[str]:
    """Texts in which each word that is unknown to us is one unknown letter."""
    split = [_words(text) for text in texts]
    words = sorted({word for row in split for word in row})
    read = tokenizer.tokenize(words).to_list() if words else []
    unknown = tokenizer.vocabulary.unknown_id
    missing = {word for word, ids in zip(words, read, strict=True) if unknown in ids}
    return ["".join(_UNKNOWN if w in missing else w for w in row) for row in split]


def causes_of(tokenizer: kb.WordPiece, read: Reader, texts: list[str]) -> dict[int, str]:
    """The texts that a reader reads otherwise than we do, by their numbers, with the cause."""
    read_by_us = ours(tokenizer)

    def are_alike(texts: list[str]) -> list[bool]:
        return [a == b for a, b in zip(read_by_us(texts), read(texts), strict=True)]

    left = [i for i, alike in enumerate(are_alike(texts)) if not alike]
    causes: dict[int, str] = {}
    prepared = [texts[i] for i in left]

    def name_those_alike(name: str, changed: list[str]) -> None:
        """Gives the cause's name to those of `left` which are read as they should be now."""
        tried = {i: text for i, text in zip(left, changed, strict=True) if i not in causes}
        alike = are_alike(list(tried.values()))
        causes.update({i: name for i, same in zip(tried, alike, strict=True) if same})

    for cause in CAUSES:
        if not cause.is_ours(tokenizer):
            continue
        name_those_alike(cause.name, [cause.prepare(texts[i]) for i in left])
        prepared = [cause.prepare(text) for text in prepared]
    name_those_alike(MISSING_PIECE, _with_unknown_words(tokenizer, [texts[i] for i in left]))
    name_those_alike(SEVERAL, _with_unknown_words(tokenizer, prepared))
    return {i: causes.get(i, OTHER) for i in left}


def table(tokenizers: dict[str, kb.WordPiece], readers: dict, texts: list[str], hard: int) -> str:
    """Markdown: a row a cause, a column a vocabulary and a runtime.

    Args:
        tokenizers: by name.
        readers: (tokenizer, folder) to a reader, by name.
        texts: the hard ones first.
        hard: how many are.
    """
    columns = {}
    for vocabulary, tokenizer in tokenizers.items():
        for runtime, make in readers.items():
            with tempfile.TemporaryDirectory() as folder:
                found = causes_of(tokenizer, make(tokenizer, Path(folder)), texts)
            counts = Counter(found.values())
            counts[f"**of {hard:,} hard lines**"] = sum(i < hard for i in found)
            counts[f"**of {len(texts) - hard:,} lines of prose**"] = sum(i >= hard for i in found)
            columns[f"{runtime}, {vocabulary}"] = counts
    names = [name for name in next(iter(columns.values())) if name.startswith("**")]
    names += [*(cause.name for cause in CAUSES), MISSING_PIECE, SEVERAL, OTHER]
    rows = [["lines read otherwise", *columns], ["---"] + ["---:"] * len(columns)]
    rows += [
        [name, *(f"{c[name]:,}" if c[name] else "" for c in columns.values())] for name in names
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def lines(data: Path, count: int = LINES) -> tuple[list[str], int]:
    """The hard lines, then prose; and how many are hard."""
    hard = (data / "text/tokenizer_stress.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line)["text"] for line in hard]
    found = [text.encode("utf-8", "replace").decode() for text in found]
    with gzip.open(data / "corpora/novels.txt.gz", "rt", encoding="utf-8") as file:
        prose = [text for text in map(str.strip, file) if text][: count - len(found)]
    return found + prose, len(found)


def real_tokenizer(data: Path, name: str) -> Any:
    """Returns the tokenizer of one of the vocabularies in the data."""
    folder = data / "vocabs" / name
    if (folder / "merges.txt").exists():
        return BytePair.load(folder, special_tokens=SPECIAL_TOKENS)
    if (folder / "spm.model").exists():
        roles = {"pad": "[PAD]", "unknown": "[UNK]", "cls": "[CLS]", "separator": "[SEP]"}
        return kb.SentencePiece(
            (folder / "spm.model").read_bytes(),
            last_tokens=["[MASK]"],
            special_tokens=roles | {"mask": "[MASK]"},
        )
    vocabulary = kb.Vocabulary.from_file(folder / "vocab.txt")
    return kb.WordPiece(vocabulary, lowercase="uncased" in name)


NAMES = ("bert-base-uncased", "bert-base-cased")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of data for tests")
    parser.add_argument("--phone", help="a Python with MediaPipe")
    parser.add_argument("--vocabulary", choices=NAMES, help="one of them instead of all")
    arguments = parser.parse_args()
    readers = {"onnxruntime-extensions": onnxruntime_extensions}
    if arguments.phone:
        readers["MediaPipe"] = lambda t, folder: mediapipe(t, folder, arguments.phone)
    names = [arguments.vocabulary] if arguments.vocabulary else NAMES
    tokenizers = {name: real_tokenizer(arguments.data, name) for name in names}
    print(table(tokenizers, readers, *lines(arguments.data)))


if __name__ == "__main__":
    main()
