"""Shortens the graph that tf2onnx writes, and names its nodes after the model's layers."""

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx_ir.passes import common
from onnxruntime.tools import symbolic_shape_infer

from keras_bert.export._onnx.rewrite_rules import DERIVED, RULES, constant_of


def clean(proto: onnx.ModelProto, weights: dict[str, np.ndarray]) -> onnx_ir.Model:
    """Shortens a graph, and names its nodes and constants.

    Args:
        proto: the graph that tf2onnx wrote, with inputs `[batch, sequence]`.
        weights: the model's weights by name, such as `layer_0/attention/query/kernel`. Constants
            of the graph get these names.

    Raises:
        LookupError: if tf2onnx wrote an operator that ONNX does not have.
    """
    version = next(opset.version for opset in proto.opset_import if not opset.domain)
    for node in proto.graph.node:
        if not onnx.defs.has(node.op_type, version, node.domain):
            raise LookupError(f"ONNX has no operator {node.op_type}")
    model = onnx_ir.from_proto(with_shapes(proto))
    name_weights(model.graph, weights)
    fix_shapes(model.graph)
    common.RemoveUnusedNodesPass()(model)
    while RULES.apply_to_model(model):  # after one rule changed the graph, another may match
        pass
    _deduplicate(model)
    name_rest(model.graph, weights)
    return model


def tidy(model: onnx_ir.Model) -> None:
    """Removes unused nodes and operator sets, and sorts the other nodes."""
    common.RemoveUnusedNodesPass()(model)
    common.RemoveUnusedOpsetsPass()(model)
    common.TopologicalSortPass()(model)


def _eliminate_identities(model: onnx_ir.Model) -> None:
    """Removes `Identity` nodes, except nodes that copy one output of the graph to another.

    Without such a node, the graph would lose an output.
    """
    twins = [
        node
        for node in model.graph
        if node.op_type == "Identity"
        and all(value and value.is_graph_output() for value in (*node.inputs, *node.outputs))
    ]
    for node in twins:
        node.domain = "kept"
    common.IdentityEliminationPass()(model)
    for node in twins:
        node.domain = ""


def _deduplicate(model: onnx_ir.Model) -> None:
    """Removes duplicate constants and nodes, and the metadata that the rewriter added."""
    _eliminate_identities(model)
    for step in (
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.DeduplicateHashedInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.ClearMetadataAndDocStringPass(),
    ):
        step(model)
    tidy(model)
    # Remove the shapes of inner values, because they are outdated.
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = value.type = None


_COUNTED = re.compile(r"(.+)_\d+")  # TensorFlow numbers scopes of the same name
_CONVERTED = re.compile(r"(__\d+)?(:\d+)?$")  # suffix that tf2onnx adds to a name


def name_weights(graph: onnx_ir.Graph, weights: dict[str, np.ndarray]) -> None:
    """Names each constant that is a weight of the model after this weight."""
    names: dict[bytes, list[str]] = {}
    for name, weight in weights.items():
        names.setdefault(_content(weight), []).append(name)
    for value in list(graph.initializers.values()):
        array = constant_of(value)
        if array is not None and array.dtype == np.float32 and array.size > 1:
            for name in names.pop(_content(array), [])[:1]:
                value.name = name


def _content(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array, "float32").tobytes()


def name_rest(graph: onnx_ir.Graph, weights: Collection[str]) -> None:
    """Names nodes after their layers, and results after their nodes. Numbers other constants."""
    for name, value in list(graph.initializers.items()):
        if name.rstrip(DERIVED) not in graph.initializers:
            value.name = name.rstrip(DERIVED)
    layers = {part for name in weights for part in name.split("/")}
    scopes: dict[onnx_ir.Node, str] = {}
    for node in reversed(graph):
        name = _CONVERTED.sub("", node.outputs[0].name or "")
        users = [use.node for use in node.outputs[0].uses()]
        inputs = (value.name or "" for value in node.inputs if value is not None)
        own = [name for name in inputs if name in weights]
        if own:
            scopes[node] = own[0].rpartition("/")[0]
        elif "/" in name or not users:
            parts = (_uncounted(part, layers) for part in name.split("/")[:-1])
            scopes[node] = "/".join(part for part in parts if part in layers)
        else:
            scopes[node] = scopes.get(users[0], "")
    count = Counter[str]()
    for node in graph:
        name = "/".join(filter(None, (scopes[node], node.op_type)))
        count[name] += 1
        node.name = name if count[name] == 1 else f"{name}_{count[name]}"
        for index, value in enumerate(node.outputs):
            if not value.is_graph_output():
                value.name = f"{node.name}:{index}"
    others = [value for name, value in graph.initializers.items() if name not in weights]
    for index, value in enumerate(others):
        value.name = f"constant_{index}"


def _uncounted(part: str, layers: set[str]) -> str:
    match = _COUNTED.fullmatch(part)
    return match[1] if match and part not in layers else part


_BATCH, _SEQUENCE = "batch", "sequence"
_LARGEST = 2**31 - 1


def with_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Adds symbolic shapes of all values whose shapes can be inferred.

    The results of loops, and of nodes that depend on loops, get no shapes, because the inference
    does not support loops.
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
    # `infer_shapes` would leave a file in the working directory if a shape is unknown.
    inference = symbolic_shape_infer.SymbolicShapeInference(_LARGEST, True, False, 0)
    # The library does not know the operator `ReduceMax`, whose shapes are like `ReduceMean`'s.
    inference.dispatcher_["ReduceMax"] = inference._infer_ReduceMean
    inference._preprocess(known)
    while inference.run_:
        inference._infer_impl()
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(inference.out_mp_.graph.value_info)
    return proto


def fix_shapes(graph: onnx_ir.Graph) -> None:
    """Replaces the target shapes of `Reshape` nodes whose result has a known shape.

    If at most one size is not constant, the new target is a constant. If the shape is `[batch,
    sequence]` and constant sizes, the graph computes the target from the shape of its inputs. Other
    `Reshape` nodes stay as they are.
    """
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
    """Computes the sizes `[batch, sequence, *rest]` at the beginning of the graph."""
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
