"""Stores an ONNX graph's weights as float16, or as int8 with activations quantized at run time.

The integer products are computed as by onnxruntime's `quantize_dynamic`, with two differences:

- `quantize_dynamic` uses one scale for all rows of an activation. Here each row has its own scale,
  except after a layer normalization.
- `quantize_dynamic` uses one scale for an embedding table, and does not quantize a table that is
  also an output matrix. Here each row of a table has its own scale. Lookups and the output matrix
  use the same int8 table.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import onnx_ir

from keras_bert.export.quantization import kept_float

_FEWEST = 16  # rows and columns: quantizing a smaller matrix saves neither space nor time
_LEAST = 1e-12  # replaces 0 as the largest value of a row, because 0 cannot be a scale
_FLOAT32 = onnx_ir.DataType.FLOAT


def store(
    model: onnx_ir.Model, quantize: str, weights: Collection[str], keep_float: Sequence[str]
) -> None:
    """Quantizes each matrix of a graph once, even if several nodes use it.

    Args:
        model: the graph, changed in place.
        quantize: "float16" or "dynamic"; "none" does nothing.
        weights: names of all weights of the model.
        keep_float: layers that stay float32, given by parts of these names.

    Raises:
        InputError: if there is no such layer.
    """
    kept = kept_float(keep_float, {name: [name] for name in weights})
    matrices = [
        value
        for value in list(model.graph.initializers.values())
        if value.name not in kept and _is_large(value)
    ]
    if quantize != "none":
        for matrix in matrices:
            _STORES[quantize](model.graph, matrix)


def _is_large(value: onnx_ir.Value) -> bool:
    """Whether a value is a matrix of float32 that is worth quantizing."""
    tensor = value.const_value
    if tensor is None or tensor.dtype != _FLOAT32 or len(tensor.shape) != 2:
        return False
    return min(tensor.shape.numpy()) >= _FEWEST


def _store_half(graph: onnx_ir.Graph, matrix: onnx_ir.Value) -> None:
    """Stores a matrix in float16. Runtimes convert it to float32 when they load the file."""
    users, name = list(matrix.uses()), matrix.name
    half = _constant(graph, f"{name}:float16", _array(matrix).astype("float16"))
    (whole,) = _insert(graph, graph[0], "Cast", [half], f"{name}_Cast", to=_FLOAT32.value)
    for node, index in users:
        node.replace_input_with(index, whole)


def _store_integers(graph: onnx_ir.Graph, matrix: onnx_ir.Value) -> None:
    """Stores a matrix in int8 where it is the right factor of a product or an embedding table."""
    for node, index in list(matrix.uses()):
        if node.op_type == "MatMul" and index == 1:
            _replace_product(graph, node, *_quantized(graph, matrix, axis=0))
        elif node.op_type == "Gather" and index == 0 and _axis(node) == 0:
            _replace_lookup(graph, node, *_quantized(graph, matrix, axis=1))
        elif node.op_type == "Transpose":  # a table that is also an output matrix
            integers, scale = _quantized(graph, matrix, axis=1)
            turned = _insert(graph, node, "Transpose", [integers], f"{node.name}_int8", perm=[1, 0])
            for product, place in list(node.outputs[0].uses()):
                if product.op_type == "MatMul" and place == 1:
                    _replace_product(graph, product, turned[0], scale)


_STORES: dict[str, Callable[[onnx_ir.Graph, onnx_ir.Value], None]] = {
    "float16": _store_half,
    "dynamic": _store_integers,
}


def _quantized(
    graph: onnx_ir.Graph, matrix: onnx_ir.Value, axis: int
) -> tuple[onnx_ir.Value, onnx_ir.Value]:
    """Returns a matrix as int8, and the scales of its columns (axis 0) or rows (axis 1), `[N]`.

    Processors without VNNI add two neighboring products of uint8 and int8 in 16 bits, which hold
    at most 32767. So the scale also limits the sum of two neighbors in a column. The sum is at most
    127, or 128 after rounding, and 255 · 128 = 32640 fits.
    """
    name = f"{matrix.name}:int8"
    if name not in graph.initializers:
        array = _array(matrix)
        columns = array if axis == 0 else array.T
        pairs = columns[:-1] + columns[1:]
        largest = np.maximum(np.abs(columns).max(0), np.abs(pairs).max(0))
        scale = np.where(largest > 0, largest, 1).astype("float32") / np.float32(127)
        integers = np.rint(array / np.expand_dims(scale, axis)).astype("int8")
        _constant(graph, name, integers)
        _constant(graph, f"{matrix.name}:scale", scale)
    return graph.initializers[name], graph.initializers[f"{matrix.name}:scale"]


def _replace_product(
    graph: onnx_ir.Graph, node: onnx_ir.Node, integers: onnx_ir.Value, scale: onnx_ir.Value
) -> None:
    """Computes `x W` on integers: quantizes x to uint8 and multiplies it by W in int8.

    The result is multiplied by the scales of x and W. If x is the output of a layer normalization,
    x has one scale, because its rows have similar sizes. In other activations, some rows are many
    times as large as others. With one scale, the small rows would use only a few integers. So each
    row is divided by its largest absolute value.
    """
    x, name = node.inputs[0], node.name
    assert x is not None
    before = x.producer()
    largest = None
    if before is not None and before.op_type == "LayerNormalization":
        outputs = _insert(graph, node, "DynamicQuantizeLinear", [x], f"{x.name}_uint8", 3)
        rows, row_scale, zero = outputs
    else:
        (sizes,) = _insert(graph, node, "Abs", [x], f"{x.name}_absolute")
        last, zeroth, first = (_number(graph, [axis], "int64") for axis in (-1, 0, 1))
        (most,) = _insert(graph, node, "ReduceMax", [sizes, last], f"{x.name}_most", keepdims=1)
        # If x has no rows, onnxruntime's `ReduceMax` keeps all columns, so `Slice` takes one.
        (one,) = _insert(graph, node, "Slice", [most, zeroth, first, last], f"{x.name}_column")
        least = _number(graph, _LEAST, "float32")
        (largest,) = _insert(graph, node, "Max", [one, least], f"{x.name}_largest")
        (even,) = _insert(graph, node, "Div", [x, largest], f"{x.name}_even")
        row_scale, zero = _number(graph, 1 / 127, "float32"), _number(graph, 128, "uint8")
        (rows,) = _insert(graph, node, "QuantizeLinear", [even, row_scale, zero], f"{x.name}_uint8")
    (total,) = _insert(graph, node, "MatMulInteger", [rows, integers, zero], f"{name}_int32")
    (number,) = _insert(graph, node, "Cast", [total], f"{name}_Cast", to=_FLOAT32.value)
    (scales,) = _insert(graph, node, "Mul", [row_scale, scale], f"{name}_scale")
    (product,) = _insert(graph, node, "Mul", [number, scales], f"{name}_product")
    if largest is not None:  # not part of `scales`, which onnxruntime would take for a scalar
        (product,) = _insert(graph, node, "Mul", [product, largest], f"{name}_rows")
    _replace(graph, node, product)


def _replace_lookup(
    graph: onnx_ir.Graph, node: onnx_ir.Node, integers: onnx_ir.Value, scale: onnx_ir.Value
) -> None:
    """Looks up rows of int8 and multiplies each row by its scale."""
    beside = f"{scale.name}_column"
    column = graph.initializers.get(beside) or _constant(graph, beside, _array(scale)[:, None])
    ids, name = node.inputs[1], node.name
    assert ids is not None
    (rows,) = _insert(graph, node, "Gather", [integers, ids], f"{name}_int8", axis=0)
    (number,) = _insert(graph, node, "Cast", [rows], f"{name}_Cast", to=_FLOAT32.value)
    (scales,) = _insert(graph, node, "Gather", [column, ids], f"{name}_scale", axis=0)
    (product,) = _insert(graph, node, "Mul", [number, scales], f"{name}_product")
    _replace(graph, node, product)


def _insert(
    graph: onnx_ir.Graph,
    before: onnx_ir.Node,
    operator: str,
    inputs: Sequence[onnx_ir.Value],
    name: str,
    outputs: int = 1,
    **attributes: Any,
) -> Sequence[onnx_ir.Value]:
    """Inserts a node and returns its results. An existing node of this name is used again."""
    for use in inputs[0].uses():
        if use.node.name == name:
            return use.node.outputs
    node = onnx_ir.node(operator, inputs, attributes, num_outputs=outputs, name=name)
    for index, value in enumerate(node.outputs):
        value.name = f"{name}:{index}"
    graph.insert_before(before, node)
    return node.outputs


def _replace(graph: onnx_ir.Graph, node: onnx_ir.Node, value: onnx_ir.Value) -> None:
    """Replaces the node's only result by a value."""
    if node.outputs[0].is_graph_output():
        value.name, node.outputs[0].name = node.outputs[0].name, f"{node.name}_float32"
        value.shape, value.type = node.outputs[0].shape, node.outputs[0].type
    node.outputs[0].replace_all_uses_with(value, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _number(graph: onnx_ir.Graph, number: Any, kind: str) -> onnx_ir.Value:
    """Returns a number as a constant that all products share."""
    name = f"{kind}_{number}"
    return graph.initializers.get(name) or _constant(graph, name, np.array(number, kind))


def _constant(graph: onnx_ir.Graph, name: str, array: np.ndarray) -> onnx_ir.Value:
    value = onnx_ir.val(name, const_value=onnx_ir.tensor(array, name=name))
    graph.register_initializer(value)
    return value


def _array(value: onnx_ir.Value) -> np.ndarray:
    assert value.const_value is not None
    return value.const_value.numpy()


def _axis(node: onnx_ir.Node) -> int:
    attribute = node.attributes.get("axis")
    return 0 if attribute is None else attribute.as_int()
