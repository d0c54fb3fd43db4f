"""Runs artifacts in their runtimes and compares them with the Keras model on given texts."""

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from tqdm import tqdm

from keras_bert.errors import InputError
from keras_bert.export._onnx.openvino_runtime import computes_in_bfloat16
from keras_bert.export._verify.accuracy import measured, official_metric
from keras_bert.export._verify.signatures import Signature, output_names, signatures_for
from keras_bert.export._verify.speed import Speed, measure_speed
from keras_bert.export.artifact_checks import difference, reference, zero_padding
from keras_bert.export.formats import ONNX, format_of
from keras_bert.export.process import Process, megabytes, running
from keras_bert.export.signatures import (
    Arrays,
    check_exportable,
    ids_of,
    task_outputs_of,
    without_padding,
)
from keras_bert.extras import require
from keras_bert.tasks.registry import task_of

BATCH_SIZES = (1, 8)
_MOST_TEXTS = 64


@dataclasses.dataclass(frozen=True)
class Row:
    """Comparison of one signature of an artifact with the Keras model.

    Args:
        artifact: path of the artifact.
        takes: "text", "text pair" or "ids".
        runtime: package and version of the runtime.
        openvino: "float32" or "bfloat16" if the runtime is OpenVINO with this precision, or "".
        megabytes: size on disk, in units of 10^6 bytes.
        difference: largest absolute difference of any output from the Keras model's output.
        agreement: percentage of equal discrete answers (labels, tokens), or None if the task has
            no discrete answers.
        milliseconds: median latency on the texts by batch size, on one thread.
        points: the task's metric on labeled examples, times 100, if it was measured.
        speed: latencies for several shapes, throughput and memory, if they were measured.
    """

    artifact: str
    takes: str
    runtime: str
    megabytes: float
    difference: float
    agreement: float | None
    milliseconds: dict[int, float]
    points: float | None = None
    speed: Speed | None = None
    openvino: str = ""

    @property
    def name(self) -> str:
        """Path of the artifact, with OpenVINO's precision."""
        return f"{self.artifact}, OpenVINO {self.openvino}" if self.openvino else self.artifact


@dataclasses.dataclass(frozen=True)
class Report:
    """Comparison of several artifacts. `str` returns it as a table.

    Args:
        rows: one row for each signature of each artifact.
        texts: number of texts that the artifacts were compared on.
        metric: name of the task's metric, if it was measured.
        points: the Keras model's metric, times 100.
        examples: number of examples that the metric was measured on.
    """

    rows: tuple[Row, ...]
    texts: int
    metric: str | None = None
    points: float | None = None
    examples: int = 0

    def __str__(self) -> str:
        header = ["artifact", "takes", "MB", "largest difference", "same answers"]
        header += [f"ms, batch {size}" for size in BATCH_SIZES]
        header += [self.metric] if self.metric else []
        lines = [header] + [
            [
                row.name,
                row.takes,
                f"{row.megabytes:.2f}",
                f"{row.difference:.1e}",
                "-" if row.agreement is None else f"{row.agreement:.2f} %",
                *(f"{row.milliseconds[size]:.2f}" for size in BATCH_SIZES),
                *([f"{row.points:.2f}"] if row.points is not None else []),
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
        if self.metric:
            end += f" {self.metric}, of 100, on {self.examples} examples; Keras: {self.points:.2f}."
        return "\n".join([table[0], rule, *table[1:], end])


@dataclasses.dataclass
class _Case:
    """A signature that is being compared. Its results become a `Row`."""

    process: Process
    signature: Signature
    inputs: Arrays  # all texts, in the form that the signature takes
    ids: Arrays  # ids of all texts, for the Keras model
    difference: float = 0.0
    same: int = 0
    decisions: int = 0


def verify(
    model: keras.Model,
    paths: Sequence[str | os.PathLike],
    texts: Any = None,
    seconds: float = 1.0,
    *,
    examples: Any = None,
    speed: bool = False,
    openvino: bool = False,
) -> Report:
    """Runs artifacts in their runtimes and compares them with the model.

    Each artifact runs in a fresh process without this package and without Keras. A SavedModel runs
    in TensorFlow with tensorflow-text's operators, a `.tflite` file in ai-edge-litert, and an
    `.onnx` file in onnxruntime or, on request, also in OpenVINO.

    Args:
        model: the model that the artifacts were made from.
        paths: directories of SavedModels, `.tflite` and `.onnx` files.
        texts: a list of N strings; a tuple of two such lists for pairs; or, for a model without
            preprocessor, ids `[N, T]` int32 by name. By default, the first texts of `examples`.
        seconds: time to measure each latency.
        examples: labeled examples to measure the task's metric on.
        speed: whether to measure latencies for several shapes, throughput, start-up time and
            memory, too. This takes minutes.
        openvino: whether to run the ONNX files also in OpenVINO: in float32 and, if the processor
            has instructions for it, in bfloat16. The files must take ids.

    Returns:
        A row for each signature that takes the texts or their ids. Most artifacts have one such
        signature; a SavedModel can have several.

    Raises:
        InputError: if there are no texts, a path is not an artifact, the model has no metric, or
            OpenVINO is not installed or has no ONNX file to run.
        ExportError: if an artifact cannot be run.

    Example:
        >>> found = export.verify(model, ["served/1", "model.tflite"], ["a fine film"])
        >>> max(row.difference for row in found.rows) < 1e-4
        True
    """
    check_exportable(model)
    if not paths:
        raise InputError("There are no artifacts to verify; give at least one path.")
    metric = None if examples is None else official_metric(model)
    texts = _texts_of(model, examples) if texts is None else texts
    with contextlib.ExitStack() as stack:
        runs = [(path, "") for path in paths] + (_in_openvino(paths) if openvino else [])
        processes = [stack.enter_context(running(path, 1, other)) for path, other in runs]
        cases = [case for process in processes for case in _cases(model, process, texts)]
        _compare(model, cases)
        rows = [_row(case, seconds) for case in cases]
        if metric is not None:
            found = {process: measured(model, examples, process).points for process in processes}
            rows = [
                dataclasses.replace(row, points=found[case.process])
                for row, case in zip(rows, cases, strict=True)
            ]
    if speed:
        bar = tqdm(zip(rows, cases, strict=True), "Measuring speed", len(rows), disable=None)
        rows = [
            dataclasses.replace(
                row,
                speed=measure_speed(
                    model, case.process.path, case.signature, texts, seconds, row.openvino
                ),
            )
            for row, case in bar
        ]
    count = len(cases[0].ids["token_ids"])
    if metric is None:
        return Report(tuple(rows), count)
    return Report(tuple(rows), count, metric, measured(model, examples).points, len(examples))


def _in_openvino(paths: Sequence[str | os.PathLike]) -> list[tuple[str | os.PathLike, str]]:
    """Returns the ONNX files, each with the precisions that OpenVINO can run it in."""
    core = require("openvino", "openvino", "Measuring in OpenVINO").Core()
    files = [path for path in paths if format_of(path) is ONNX]
    if not files:
        raise InputError("OpenVINO runs ONNX files, but no path is one; add one, or leave it out.")
    precisions = ["float32"] + ["bfloat16"] * computes_in_bfloat16(core)
    return [(path, precision) for path in files for precision in precisions]


def _texts_of(model: Any, examples: Any) -> Any:
    """Returns the texts of the first `_MOST_TEXTS` examples.

    For an embedder, the texts of pairs are only the first text of each pair.

    Raises:
        InputError: if there are no examples.
    """
    if examples is None:
        raise InputError("There are no texts to compare on; give texts or examples.")
    inputs = examples.take(range(min(len(examples), _MOST_TEXTS))).inputs
    is_pair = isinstance(inputs, tuple) and task_of(model) == "embedder"
    return inputs[0] if is_pair else inputs


def _cases(model: Any, process: Process, texts: Any) -> list[_Case]:
    cases = []
    for signature in signatures_for(process, output_names(model), texts):
        ids = ids_of(model, texts, signature.length)
        cases.append(_Case(process, signature, signature.inputs(texts, ids), ids))
    return cases


def _compare(model: Any, cases: Sequence[_Case]) -> None:
    """Computes the differences between artifacts and model, a few texts at a time."""
    decisions = task_outputs_of(model).decisions
    for start in range(0, len(cases[0].ids["token_ids"]), max(BATCH_SIZES)):
        part = slice(start, start + max(BATCH_SIZES))
        by_length: dict[int, dict[str, np.ndarray]] = {}  # outputs of the model
        for case in cases:
            inputs = {name: array[part] for name, array in case.inputs.items()}
            actual = case.process.run(case.signature.name, inputs)
            whole = {name: array[part] for name, array in case.ids.items()}
            for ids in (whole, without_padding(whole)):  # some artifacts leave out padding
                length = ids["token_ids"].shape[1]
                if length not in by_length:
                    by_length[length] = reference(model, ids)
                expected = {
                    k: v for k, v in by_length[length].items() if k in case.signature.outputs
                }
                if all(k in actual and actual[k].shape == v.shape for k, v in expected.items()):
                    break
            mask = np.asarray(ids["padding_mask"])
            found = difference(zero_padding(expected, mask), zero_padding(actual, mask))
            case.difference = max(case.difference, found)
            # A classifier's decisions need its scores only, others need all outputs.
            if "scores" not in expected and len(expected) < len(by_length[length]):
                continue
            of_model = decisions(model, expected, mask)
            if of_model is None:
                continue
            case.decisions += of_model.size
            if np.isfinite(found):  # otherwise the shapes may differ
                of_artifact = decisions(model, actual, mask)
                case.same += int((of_model == of_artifact).sum())


def _row(case: _Case, seconds: float) -> Row:
    def milliseconds(size: int) -> float:
        inputs = first(case.inputs, size)
        if case.signature.takes == "ids" and case.signature.length is None:
            # Remove padding, as a signature that takes texts does.
            trimmed = without_padding(first(case.ids, size))
            inputs = case.signature.inputs(None, {k: np.asarray(v) for k, v in trimmed.items()})
        return case.process.time(case.signature.name, inputs, seconds).milliseconds

    def first(arrays: Arrays, size: int) -> Arrays:
        return {k: np.resize(v, (size, *v.shape[1:])) for k, v in arrays.items()}

    return Row(
        artifact=str(case.process.path),
        takes=case.signature.takes,
        runtime=case.process.runtime,
        openvino=case.process.openvino,
        megabytes=megabytes(case.process.path),
        difference=case.difference,
        agreement=100 * case.same / case.decisions if case.decisions else None,
        milliseconds={size: milliseconds(size) for size in BATCH_SIZES},
    )
