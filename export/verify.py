"""Every artifact in its own runtime, against the Keras model, on given texts."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.errors import InputError
from keras_bert.export import worker
from keras_bert.export.check import Arrays, ExportError, Run, difference, explaining, reference
from keras_bert.export.onnx import onnx_runner
from keras_bert.export.saved_model import input_names_of
from keras_bert.export.signatures import answers_of, input_names
from keras_bert.export.tflite import fixed_length, tflite_runner

BATCH_SIZES = (1, 8)

# (inputs, seconds to repeat for) to (outputs, median milliseconds)
Call = Callable[[Arrays, float], tuple[Arrays, float]]


@dataclasses.dataclass(frozen=True)
class Row:
    """What was found out about one way into one artifact.

    Args:
        artifact: its path.
        takes: "text", "text pair" or "ids".
        megabytes: its size on disk, 10^6 bytes each.
        difference: the largest absolute difference of any output to the Keras model's.
        agreement: percentage of the discrete answers (labels, tokens) that are the same; None
            if the task has none.
        milliseconds: batch size to the median latency on one thread.
    """

    artifact: str
    takes: str
    megabytes: float
    difference: float
    agreement: float | None
    milliseconds: dict[int, float]


@dataclasses.dataclass(frozen=True)
class Report:
    """The rows and the number of texts they are about; `str` makes a table."""

    rows: tuple[Row, ...]
    texts: int

    def __str__(self) -> str:
        header = ["artifact", "takes", "MB", "largest difference", "same answers"]
        header += [f"ms, batch {size}" for size in BATCH_SIZES]
        lines = [header] + [
            [
                row.artifact,
                row.takes,
                f"{row.megabytes:.2f}",
                f"{row.difference:.1e}",
                "-" if row.agreement is None else f"{row.agreement:.2f} %",
                *(f"{row.milliseconds[size]:.2f}" for size in BATCH_SIZES),
            ]
            for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(
                cell.ljust(width) if index < 2 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rule = "  ".join("-" * width for width in widths)
        end = f"{self.texts} texts against Keras; latency: median on one thread."
        return "\n".join([table[0], rule, *table[1:], end])


@dataclasses.dataclass
class _Case:
    """One row while it is being filled."""

    path: Path
    takes: str
    call: Call
    inputs: Arrays  # all texts, as this artifact takes them
    ids: Arrays  # the same as ids, for the reference
    difference: float = 0.0
    same: int = 0
    decisions: int = 0


def verify(
    model: keras.Model,
    paths: Sequence[str | os.PathLike],
    texts: Any,
    seconds: float = 1.0,
) -> Report:
    """Runs artifacts where they are to run, and compares them with the model.

    A SavedModel runs in a fresh process with TensorFlow and tensorflow-text alone, from text
    and from ids; a `.tflite` file in ai-edge-litert and an `.onnx` file in onnxruntime, from
    the ids of the model's preprocessor.

    Args:
        model: the model that the artifacts were made from.
        paths: directories of SavedModels, `.tflite` and `.onnx` files.
        texts: a list of N strings; a tuple of two such lists for pairs; or, for a model without
            preprocessor, ids `[N, T]` int32 by name.
        seconds: how long to measure each latency.

    Returns:
        One row for each artifact; for a SavedModel one for each way into it.

    Raises:
        InputError: if there are no texts, or a path is not an artifact.
        ExportError: if an artifact cannot be run.
    """
    answers = answers_of(model)
    if not paths:
        raise InputError("There are no artifacts to verify; give at least one path.")
    with contextlib.ExitStack() as stack:
        cases = [
            case
            for path in map(Path, paths)
            for case in stack.enter_context(_runtime(path)(model, path, texts))
        ]
        count = len(cases[0].ids["token_ids"])
        for start in range(0, count, max(BATCH_SIZES)):
            part = slice(start, start + max(BATCH_SIZES))
            expected: dict[int, dict[str, np.ndarray]] = {}  # by length: ids are the same then
            for case in cases:
                ids = _take(case.ids, part)
                length = ids["token_ids"].shape[1]
                if length not in expected:
                    expected[length] = reference(model, ids)
                actual, _ = case.call(_take(case.inputs, part), 0)
                case.difference = max(case.difference, difference(expected[length], actual))
                of_model, of_artifact = (
                    answers.decisions(model, outputs, ids["padding_mask"])
                    for outputs in (expected[length], actual)
                )
                if of_model is not None and of_artifact is not None:
                    case.same += int((of_model == of_artifact).sum())
                    case.decisions += of_model.size
        return Report(tuple(_row(case, seconds) for case in cases), count)


def _row(case: _Case, seconds: float) -> Row:
    return Row(
        artifact=str(case.path),
        takes=case.takes,
        megabytes=_bytes(case.path) / 1e6,
        difference=case.difference,
        agreement=100 * case.same / case.decisions if case.decisions else None,
        milliseconds={
            size: case.call(
                {k: np.resize(v, (size, *v.shape[1:])) for k, v in case.inputs.items()}, seconds
            )[1]
            for size in BATCH_SIZES
        },
    )


def _take(arrays: Arrays, part: slice) -> dict[str, np.ndarray]:
    return {name: array[part] for name, array in arrays.items()}


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


# Each runtime opens an artifact and gives the ways into it.


@contextlib.contextmanager
def _saved_model_cases(model: Any, path: Path, texts: Any) -> Iterator[list[_Case]]:
    ids = _ids(model, texts)
    with _process(path) as request:

        def case(takes: str, signature: str, inputs: Arrays) -> _Case:
            def call(inputs: Arrays, seconds: float) -> tuple[Arrays, float]:
                return request(signature, inputs, seconds)

            return _Case(path, takes, call, inputs, ids)

        cases = []
        if isinstance(texts, tuple):
            columns = dict(zip(("text", "text_pair"), map(_strings, texts), strict=True))
            cases.append(case("text pair", "text_pair", columns))
        elif not isinstance(texts, Mapping):
            cases.append(case("text", "serving_default", {"text": _strings(texts)}))
        names = input_names_of(path)
        renamed = {names.get(k, k): v for k, v in _inputs(model, ids).items()}
        yield [*cases, case("ids", "ids", renamed)]


def _local_cases(
    load: Callable[[Path], Run], length: Callable[[Path], int | None]
) -> Callable[..., contextlib.AbstractContextManager[list[_Case]]]:
    """A runtime that runs in this process and takes ids, of one length or of any."""

    def cases(model: Any, path: Path, texts: Any) -> contextlib.AbstractContextManager[list[_Case]]:
        with explaining(f"Loading {path}"):
            run, ids = load(path), _ids(model, texts, length(path))

        def call(inputs: Arrays, seconds: float) -> tuple[Arrays, float]:
            with explaining(f"Running {path}"):
                return worker.repeat(lambda: run(inputs), seconds)

        return contextlib.nullcontext([_Case(path, "ids", call, _inputs(model, ids), ids)])

    return cases


_RUNTIMES = {
    ".tflite": _local_cases(tflite_runner, fixed_length),
    ".onnx": _local_cases(onnx_runner, lambda path: None),
}


def _runtime(path: Path) -> Callable[..., contextlib.AbstractContextManager[list[_Case]]]:
    if (path / "saved_model.pb").is_file():
        return _saved_model_cases
    if path.suffix in _RUNTIMES and path.is_file():
        return _RUNTIMES[path.suffix]
    raise InputError(
        f"{path} is not an artifact: expected the directory of a SavedModel, or a file that "
        f"ends in {' or '.join(_RUNTIMES)}."
    )


@contextlib.contextmanager
def _process(directory: Path) -> Iterator[Callable[..., tuple[Arrays, float]]]:
    """A fresh process that holds a SavedModel, as a function of requests to it."""
    with tempfile.TemporaryFile() as errors:
        # -P: the folder of the script, in which there is an onnx.py, is no place to import from.
        process = subprocess.Popen(
            [sys.executable, "-P", worker.__file__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def request(signature: str, inputs: Arrays, seconds: float) -> tuple[Arrays, float]:
            with contextlib.suppress(BrokenPipeError):
                worker.send(stdin, {**inputs, "signature": signature, "seconds": seconds})
            reply = worker.receive(stdout)
            if reply is None:
                errors.seek(0)
                last = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
                raise ExportError(f"{directory} cannot be loaded: {' '.join(last) or 'no reason'}.")
            if "error" in reply:
                raise ExportError(f"Running {directory} failed: {reply['error']}.")
            return reply, float(reply.pop("milliseconds"))

        try:
            yield request
        finally:
            process.kill()
            process.wait()
            stdin.close()
            stdout.close()


def _strings(texts: Any) -> np.ndarray:
    """Texts as an array of bytes `[N]`."""
    from keras_bert.text.strings import to_strings

    return to_strings(texts).numpy()


def _inputs(model: Any, ids: Arrays) -> dict[str, np.ndarray]:
    return {name: ids[name] for name in input_names(model)}


def _ids(model: Any, texts: Any, length: int | None = None) -> dict[str, np.ndarray]:
    """Ids `[N, T]` of what is to be verified; T is `length`, where that is given."""
    if isinstance(texts, Mapping):
        return _given_ids(texts, length)
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is None:
        raise InputError(
            f"This {type(model).__name__} has no preprocessor, so it cannot be verified on texts; "
            "give token_ids and padding_mask [N, T] in a dictionary instead."
        )
    if length is not None:
        preprocessor = preprocessor.with_length(length)
    ids = {name: np.asarray(array) for name, array in preprocessor(texts).items()}
    return _not_empty(ids)


def _given_ids(arrays: Mapping[str, Any], length: int | None) -> dict[str, np.ndarray]:
    if "token_ids" not in arrays:
        raise InputError(f"The ids hold {sorted(arrays)}, but need 'token_ids' [N, T].")
    token_ids = np.asarray(arrays["token_ids"], "int32")
    defaults = {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": np.ones_like(token_ids),
    }
    ids = {name: np.asarray(arrays.get(name, array), "int32") for name, array in defaults.items()}
    missing = 0 if length is None else length - token_ids.shape[1]
    if missing < 0:
        raise InputError(f"The ids have {token_ids.shape[1]} tokens; the artifact takes {length}.")
    return _not_empty({k: np.pad(v, ((0, 0), (0, missing))) for k, v in ids.items()})


def _not_empty(ids: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if not len(ids["token_ids"]):
        raise InputError("There are no texts to verify the artifacts on; give at least one.")
    return ids
