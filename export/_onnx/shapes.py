"""Shapes in an ONNX graph: told once, instead of computed again and again."""

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnxruntime.tools import symbolic_shape_infer

_BATCH, _SEQUENCE = "batch", "sequence"
_LARGEST = 2**31 - 1


def with_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same with the symbolic shapes of everything, as far as they can be told.

    Loops, and what depends on them, are left out: the inference does not take them.
    """
    known = onnx.ModelProto()
    known.CopyFrom(proto)
    del known.graph.node[:]
    unknown = set[str]()
    for node in proto.graph.node:
        loops = any(attribute.HasField("g") for attribute in node.attribute)
        if loops or unknown & set(node.input):
            unknown |= set(node.output)
        else:
            known.graph.node.append(node)
    outputs = [output for output in proto.graph.output if output.name not in unknown]
    del known.graph.output[:]
    known.graph.output.extend(outputs)
    logging.getLogger(symbolic_shape_infer.__name__).setLevel(logging.ERROR)
    # Its `infer_shapes` leaves a file in the working directory where it does not know everything.
    inference = symbolic_shape_infer.SymbolicShapeInference(_LARGEST, True, False, 0)
    inference._preprocess(known)
    while inference.run_:
        inference._infer_impl()
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(inference.out_mp_.graph.value_info)
    return proto


def fix_shapes(graph: onnx_ir.Graph) -> None:
    """Lets every `Reshape` whose result is known have a constant, or the shape of the inputs."""
    shapes: dict[tuple[int | str, ...], onnx_ir.Value] = {}
    for node in list(graph):
        if node.op_type != "Reshape" or node.outputs[0].shape is None:
            continue
        sizes = [_size(size) for size in node.outputs[0].shape]
        free = [size for size in sizes if not isinstance(size, int)]
        if len(free) <= 1:
            target = _constant(graph, [size if isinstance(size, int) else -1 for size in sizes])
        elif free == sizes[:2] == [_BATCH, _SEQUENCE]:
            rest = tuple(sizes[2:])
            if rest not in shapes:
                shapes[rest] = _inputs_shape(graph, rest)
            target = shapes[rest]
        else:
            continue
        node.replace_input_with(1, target)


def _size(size: Any) -> int | str:
    return size if isinstance(size, int) else str(size.value)


def _inputs_shape(graph: onnx_ir.Graph, rest: Iterable[Any]) -> onnx_ir.Value:
    """The sizes `[batch, sequence, *rest]`, computed at the beginning of the graph."""
    shape = onnx_ir.node("Shape", [graph.inputs[0]])
    nodes = [shape]
    if rest:
        inputs = [shape.outputs[0], _constant(graph, rest)]
        nodes.append(onnx_ir.node("Concat", inputs, {"axis": 0}))
    graph.insert_before(graph[0], nodes)
    return nodes[-1].outputs[0]


def _constant(graph: onnx_ir.Graph, numbers: Iterable[Any]) -> onnx_ir.Value:
    name = f"shape_{len(graph.initializers)}"
    tensor = onnx_ir.tensor(np.array(list(numbers), "int64"), name=name)
    value = onnx_ir.val(name, const_value=tensor)
    graph.register_initializer(value)
    return value
