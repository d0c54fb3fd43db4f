"""Writes an ONNX file that takes ids or texts, for servers and browsers."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.variables import named_variables, without_adapters
from keras_bert.errors import InputError
from keras_bert.export._onnx import runtime
from keras_bert.export.artifact_checks import Run, check, explaining, require
from keras_bert.export.formats import ONNX
from keras_bert.export.quantization import TOLERANCES, check_quantization
from keras_bert.export.signatures import check_exportable, ids_function

OPSETS = range(14, 19)  # versions that tf2onnx can write; the newest is the default
_AXES = ("batch", "sequence")


def onnx(
    model: keras.Model,
    path: str | os.PathLike,
    opset: int = OPSETS[-1],
    *,
    quantize: str = "none",
    keep_float: Sequence[str] = (),
    text: bool = False,
) -> Path:
    """Writes an ONNX file for any batch size and sequence length.

    The inputs are `token_ids`, `segment_ids`, `padding_mask` int32 `[batch, sequence]`. The
    outputs are float32 and have the same names as in the signature `ids` of a SavedModel. If the
    model has labels, the file's metadata has their names under `labels`, as a JSON list. The file
    uses only standard operators of ONNX. The weights in the file have the names of the model's
    weights.

    With `text`, a classifier or an embedder takes strings, `text` `[batch]`. A classifier also
    gives `labels` `[batch, L]` and, if a text has one label, the best `label` and its `score`
    `[batch]`. A regression gives none of these. The tokenizer comes from onnxruntime-extensions, so
    a program that opens the file must register this library (see `text_input.py`). If the library
    reads some sample texts differently from the model's tokenizer, a warning says so. The output
    `token_ids` shows the ids that the file used.

    Args:
        model: an `Encoder` or a task.
        path: the file, replaced if it exists.
        opset: version of ONNX's operators. Below 18, layer normalization takes several operators.
        quantize: "none"; "float16" (weights in half precision); "dynamic" (weights in int8,
            activations quantized while the file runs).
        keep_float: layers that stay float32, given by parts of their weights' names, with `*` for
            any text: "embeddings", "layer_0/attention", "*layer_norm".
        text: whether the file takes texts.

    Returns:
        The file's path.

    Raises:
        InputError: if an argument is not possible, or a package of the extra `onnx` is missing.
        ExportError: if the file does not give the model's answers in onnxruntime.

    Example:
        >>> model = keras_bert.load("run/model")
        >>> export.onnx(model, "model.onnx")
        PosixPath('model.onnx')
    """
    check_arguments(model, opset, quantize=quantize, keep_float=keep_float, text=text)
    model = without_adapters(model)
    with replacing(path) as scratch:
        with explaining("Converting to ONNX"):
            proto = _convert(model, opset, quantize, keep_float)
            scratch.write_bytes(proto.SerializeToString())
        # If tf2onnx does not know an operator, it writes an invalid file and reports success. Only
        # the runtime detects the error.
        with explaining("Loading the ONNX file"):
            run = onnx_runner(scratch)
        check(model, "ONNX file", run, TOLERANCES[quantize])
        if text:
            from keras_bert.export._onnx import text_input as onnx_text

            with explaining("Adding the tokenizer to the ONNX file"):
                proto = onnx_text.with_text(proto, model)
                named = scratch.with_suffix(".onnx")
                named.write_bytes(proto.SerializeToString())
            onnx_text.compare_texts(model, run, named)
            named.replace(scratch)
    return Path(path)


def check_arguments(
    model: keras.Model,
    opset: int = OPSETS[-1],
    *,
    quantize: str = "none",
    keep_float: Sequence[str] = (),
    text: bool = False,
) -> None:
    """Checks the arguments of `onnx` before a file is written.

    Raises:
        InputError: if an argument is not possible, or a package of the extra `onnx` is missing.
    """
    check_exportable(model)
    for package in ("onnx", "tf2onnx", "onnxruntime", "onnxscript"):
        require(package, "onnx")
    if opset not in OPSETS:
        raise InputError(f"opset is {opset}; it can be {OPSETS[0]} to {OPSETS[-1]}.")
    check_quantization(quantize, ONNX.quantizations, keep_float)
    if text:
        require("onnxruntime_extensions", "onnx-text")
        from keras_bert.export._onnx.text_input import check_text

        check_text(model)


def _convert(model: Any, opset: int, quantize: str, keep_float: Sequence[str]) -> Any:
    """Converts the model to a `ModelProto` and quantizes its weights."""
    import onnx_ir
    import tf2onnx

    from keras_bert.export._onnx import graph_cleanup as onnx_graph
    from keras_bert.export._onnx import quantization as onnx_quantization

    function = ids_function(model)
    proto, _ = tf2onnx.convert.from_function(
        function, input_signature=function.input_signature, opset=opset
    )
    _share_tables(proto.graph)
    for tensor in (*proto.graph.input, *proto.graph.output):
        for axis, name in zip(tensor.type.tensor_type.shape.dim, _AXES, strict=False):
            if not axis.HasField("dim_value"):
                axis.dim_param = name
    weights = {name: variable.numpy() for name, variable in named_variables(model).items()}
    graph = onnx_graph.clean(proto, weights)
    onnx_quantization.store(graph, quantize, weights, keep_float)
    onnx_graph.tidy(graph)
    proto = onnx_ir.to_proto(graph)
    if getattr(model, "labels", None):
        labels = json.dumps(model.labels, ensure_ascii=False)
        proto.metadata_props.add(key="labels", value=labels)
    return proto


def _share_tables(graph: Any) -> None:
    """Stores an embedding table only once if it is also an output matrix.

    tf2onnx stores the transposed matrix as a second copy. This function replaces the copy by a
    node that transposes the table. The runtime runs this node once, while it loads the file.
    """
    from onnx import helper, numpy_helper

    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for table in {node.input[0] for node in graph.node if node.op_type == "Gather"} & set(arrays):
        for name, array in arrays.items():
            if array.ndim == 2 and name != table and np.array_equal(array.T, arrays[table]):
                stored = next(tensor for tensor in graph.initializer if tensor.name == name)
                graph.initializer.remove(stored)
                graph.node.insert(0, helper.make_node("Transpose", [table], [name], perm=[1, 0]))


def onnx_runner(path: str | os.PathLike) -> Run:
    """Loads an ONNX file that takes ids; returns a function that runs it on one thread."""
    _, run = runtime.prepare(os.fspath(path), 1)()
    return lambda inputs: run(runtime.SIGNATURE, inputs)
