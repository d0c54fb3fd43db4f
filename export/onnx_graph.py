"""What the conversion leaves behind in an ONNX graph, and what stands there instead.

A graph from tf2onnx computes shapes again and again, and writes layer normalization, GELU and
lookups as many small operators that onnxruntime does not put together. `RULES` is a table of such
leftovers; `onnxscript` finds and replaces them. The tokens of a batch stay one matrix, so that
onnxruntime makes each dense layer one `Gemm`.
"""
# mypy: disable-error-code="no-untyped-def"

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx_ir.passes import common
from onnxruntime.tools import symbolic_shape_infer
from onnxscript import rewriter

BATCH, SEQUENCE = "batch", "sequence"
_ALL = 2**31 - 1  # an index beyond every end
_COUNTED = re.compile(r"(.+)_\d+")  # TensorFlow counts scopes of one name
_DERIVED = "~"  # after the name of a weight, of what is made of it
_CONVERTED = re.compile(r"(__\d+)?(:\d+)?$")  # what tf2onnx puts after a name


def clean(proto: onnx.ModelProto, weights: dict[str, np.ndarray]) -> onnx_ir.Model:
    """Makes a graph short, and names what is in it.

    Args:
        proto: what tf2onnx wrote, with inputs `[batch, sequence]`.
        weights: the model's by their names, `layer_0/attention/query/kernel`, which constants get.

    Raises:
        LookupError: if tf2onnx wrote an operator that ONNX does not have.
    """
    version = next(opset.version for opset in proto.opset_import if not opset.domain)
    for node in proto.graph.node:
        if not onnx.defs.has(node.op_type, version, node.domain):
            raise LookupError(f"ONNX has no operator {node.op_type}")
    model = onnx_ir.from_proto(_with_shapes(proto))
    _name_weights(model.graph, weights)
    _fix_shapes(model.graph)
    common.RemoveUnusedNodesPass()(model)
    while RULES.apply_to_model(model):  # one makes room for another
        pass
    _tidy(model)
    for name, value in list(model.graph.initializers.items()):
        if name.rstrip(_DERIVED) not in model.graph.initializers:
            value.name = name.rstrip(_DERIVED)
    _name_rest(model.graph, weights)
    return model


def tidy(model: onnx_ir.Model) -> None:
    """Removes what is not used any more, and puts the rest in order."""
    common.RemoveUnusedNodesPass()(model)
    common.RemoveUnusedOpsetsPass()(model)
    common.TopologicalSortPass()(model)


def _tidy(model: onnx_ir.Model) -> None:
    """Removes what is there twice, and notes about what was rewritten."""
    for step in (
        common.IdentityEliminationPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.DeduplicateHashedInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.ClearMetadataAndDocStringPass(),
    ):
        step(model)
    tidy(model)
    # Shapes of what lies between are those of before.
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = value.type = None


# Shapes.


def _with_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
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
    inference = symbolic_shape_infer.SymbolicShapeInference(_ALL, True, False, 0)
    inference._preprocess(known)
    while inference.run_:
        inference._infer_impl()
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(inference.out_mp_.graph.value_info)
    return proto


def _fix_shapes(graph: onnx_ir.Graph) -> None:
    """Lets every `Reshape` whose result is known have a constant, or the shape of the inputs."""
    shapes: dict[tuple[int | str, ...], onnx_ir.Value] = {}
    for node in list(graph):
        if node.op_type != "Reshape" or node.outputs[0].shape is None:
            continue
        sizes = [_size(size) for size in node.outputs[0].shape]
        free = [size for size in sizes if not isinstance(size, int)]
        if len(free) <= 1:
            target = _constant(graph, [size if isinstance(size, int) else -1 for size in sizes])
        elif free == sizes[:2] == [BATCH, SEQUENCE]:
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


# Rules: each has a pattern, what replaces it, and when. Arguments after `op` are values of the
# graph, by the names that both give them. Operands stand in the order in which tf2onnx has them.

_Rule = tuple[Callable, Callable, Callable]
_SQRT_2 = math.sqrt(2)


def _array(value: onnx_ir.Value | None) -> np.ndarray | None:
    """A constant's numbers."""
    if value is None or value.const_value is None:
        return None
    return value.const_value.numpy()


def _vector(op: Any, value: onnx_ir.Value) -> onnx_ir.Value:
    """A constant `[1, ..., H]` as `[H]`."""
    array = value.const_value.numpy()  # type: ignore[union-attr]
    if array.ndim == 1:
        return value
    name = f"{value.name}{_DERIVED}"
    graph = value.graph
    if graph is not None and name in graph.initializers:
        return graph.initializers[name]
    return op.initializer(onnx_ir.tensor(array.ravel(), name=name))


def _last(shape: onnx_ir.Value) -> int | None:
    """The last size that a `Reshape` asks for, if it is one whose sizes are not zeros."""
    sizes, node = _array(shape), shape.producer()
    if node is not None and node.op_type == "Concat":  # the inputs' sizes, and these
        sizes = _array(node.inputs[-1])
    return int(sizes[-1]) if sizes is not None and sizes.size and np.all(sizes) else None


def _matrix(value: onnx_ir.Value) -> tuple[int | None, int | None]:
    """The rank and the number of columns of a value, None where they are not known."""
    if value.shape is not None:
        last = value.shape[-1] if len(value.shape) else None
        return len(value.shape), last if isinstance(last, int) else None
    node = value.producer()
    if node is None or node.inputs[0] is None:
        return None, None
    rank, columns = _matrix(node.inputs[0])
    if node.op_type == "MatMul" and node.inputs[1] is not None:
        return rank, _matrix(node.inputs[1])[1]
    # Of these, the first input is as large as the result.
    alike = ("Add", "Div", "Erf", "LayerNormalization", "Mul")
    return (rank, columns) if node.op_type in alike else (None, None)


def _layer_norm() -> _Rule:
    """Keras' moments and TensorFlow's batch normalization, to one `LayerNormalization`."""

    def pattern(op, x, axes, epsilon, gamma, beta):
        mean = op.ReduceMean(x, axes)
        centered = op.Sub(x, mean)
        variance = op.ReduceMean(op.Mul(centered, centered), axes)
        scale = op.Mul(op.Reciprocal(op.Sqrt(op.Add(variance, epsilon))), gamma)
        return op.Add(op.Mul(x, scale), op.Add(op.Mul(op.Neg(mean), scale), beta))

    def replacement(op, x, axes, epsilon, gamma, beta):
        gamma, beta = _vector(op, gamma), _vector(op, beta)
        number = float(epsilon.const_value.numpy())
        return op.LayerNormalization(x, gamma, beta, axis=-1, epsilon=number)

    def check(context, x, axes, epsilon, gamma, beta):
        numbers = [_array(value) for value in (axes, epsilon, gamma, beta)]
        if any(number is None for number in numbers):
            return False
        axes, epsilon, gamma, beta = numbers
        last = axes.tolist() in ([-1], [gamma.ndim - 1])  # Keras gives gamma the rank of x
        return last and epsilon.size == 1 and gamma.size == beta.size == gamma.shape[-1]

    return pattern, replacement, check


_NUMBERS = (_SQRT_2, 1.0, 0.5)


def _numbers(op: Any) -> list[Any]:
    return [op.Constant(value_float=number) for number in _NUMBERS]


def _erf_gelu(op: Any, x: Any, root: Any, one: Any, half: Any) -> Any:
    """0.5 x (1 + erf(x / √2))."""
    return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, root)), one)), half)


def _gelu() -> _Rule:
    """GELU in the order in which onnxruntime looks for it."""

    def pattern(op, x):
        return op.Mul(op.Mul(0.5, x), op.Add(1.0, op.Erf(op.Mul(x, 1 / _SQRT_2))))

    def replacement(op, x):
        return _erf_gelu(op, x, *_numbers(op))

    return pattern, replacement, _always


def _lookup() -> _Rule:
    """Indices that count from the end where they are negative, which `Gather` does by itself."""

    def pattern(op, table, ids, rows, zero, axis):
        negative = op.Less(op.Cast(ids), zero)
        from_end = op.Mul(op.Cast(negative), op.Add(ids, rows))
        from_start = op.Mul(ids, op.Cast(op.Not(negative)))
        return op.Gather(table, op.Add(from_end, from_start), axis=axis)

    def replacement(op, table, ids, rows, zero, axis):
        return op.Gather(table, ids, axis=axis)

    def check(context, table, ids, rows, zero, axis):
        size = _array(rows)
        return (
            size is not None
            and table.shape is not None
            and size.size == 1
            and int(size.item()) == table.shape[axis.as_int()]
            and not np.any(_array(zero))
        )

    return pattern, replacement, check


def _one_hot_product() -> _Rule:
    """One row of a small table for each token, without a matrix in between."""

    def pattern(op, ids, depth, values, before, table, after):
        one_hot = op.OneHot(ids, depth, values, _allow_other_attributes=True)
        return op.Reshape(op.MatMul(op.Reshape(one_hot, before), table), after)

    def replacement(op, ids, depth, values, before, table, after):
        return op.MatMul(op.OneHot(ids, depth, values, axis=-1), table)

    return pattern, replacement, _always


def _bias_before_reshape() -> _Rule:
    """A dense layer's bias beside its product, for onnxruntime to make both one `Gemm`."""

    def pattern(op, x, kernel, shape, bias):
        return op.Add(op.Reshape(op.MatMul(x, kernel), shape), bias)

    def replacement(op, x, kernel, shape, bias):
        return op.Reshape(op.Add(op.MatMul(x, kernel), bias), shape)

    def check(context, x, kernel, shape, bias):
        numbers = _array(bias)
        return numbers is not None and numbers.shape == (_matrix(kernel)[1],) == (_last(shape),)

    return pattern, replacement, check


def _gelu_before_reshape() -> _Rule:
    """What treats every row alike comes before a `Reshape` of rows, not after it."""

    def pattern(op, x, shape):
        return _erf_gelu(op, op.Reshape(x, shape), *_NUMBERS)

    def replacement(op, x, shape):
        return op.Reshape(_erf_gelu(op, x, *_numbers(op)), shape)

    return pattern, replacement, _always


def _normalization_before_reshape() -> _Rule:
    """The same for layer normalization, whose rows have to stay whole."""

    def pattern(op, x, shape, gamma, beta, axis, epsilon):
        rows = op.Reshape(x, shape)
        return op.LayerNormalization(rows, gamma, beta, axis=axis, epsilon=epsilon)

    def replacement(op, x, shape, gamma, beta, axis, epsilon):
        rows = op.LayerNormalization(x, gamma, beta, axis=axis, epsilon=epsilon)
        return op.Reshape(rows, shape)

    def check(context, x, shape, gamma, beta, axis, epsilon):
        size = gamma.const_value.shape[0]
        return _matrix(x)[1] == size and _last(shape) == size

    return pattern, replacement, check


def _reshape_twice() -> _Rule:
    """The second of two says it all, as none of them has zeros."""

    def pattern(op, x, first, second):
        return op.Reshape(op.Reshape(x, first), second)

    def replacement(op, x, first, second):
        return op.Reshape(x, second)

    def check(context, x, first, second):
        return _last(second) is not None

    return pattern, replacement, check


def _reshape_to_itself() -> _Rule:
    """Rows of a matrix `[-1, H]` that has H columns already."""

    def pattern(op, x, shape):
        return op.Reshape(x, shape)

    def replacement(op, x, shape):
        return op.Identity(x)

    def check(context, x, shape):
        sizes = _array(shape)
        return sizes is not None and (sizes.size, sizes.tolist()) == (
            _matrix(x)[0],
            [-1, _matrix(x)[1]],
        )

    return pattern, replacement, check


def _scaled_product() -> _Rule:
    """The scale of queries as part of their weights, unless those have other uses."""

    def pattern(op, x, kernel, bias, scale):
        return op.Mul(op.Add(op.MatMul(x, kernel), bias), scale)

    def scaled(op, value, scale):
        array = _array(value) * _array(scale)
        return op.initializer(onnx_ir.tensor(array, name=f"{value.name}{_DERIVED}"))

    def replacement(op, x, kernel, bias, scale):
        return op.Add(op.MatMul(x, scaled(op, kernel, scale)), scaled(op, bias, scale))

    def check(context, x, kernel, bias, scale):
        number = _array(scale)
        constant = kernel.const_value is not None and bias.const_value is not None
        return constant and number is not None and number.ndim == 0 and len(kernel.uses()) == 1

    return pattern, replacement, check


def _first_token() -> _Rule:
    """The vector of `[CLS]`."""

    def pattern(op, x):
        return op.Squeeze(op.Slice(x, [0, 0], [_ALL, 1], [0, 1]), [1])

    def replacement(op, x):
        return op.Gather(x, op.Constant(value_int=0), axis=1)

    return pattern, replacement, _always


def _always(context: Any, **values: Any) -> bool:
    return True


_TABLE: dict[str, Callable[[], _Rule]] = {
    "lookup": _lookup,
    "one-hot product": _one_hot_product,
    "layer normalization": _layer_norm,
    "gelu": _gelu,
    "scaled product": _scaled_product,
    "first token": _first_token,
    "bias before reshape": _bias_before_reshape,
    "gelu before reshape": _gelu_before_reshape,
    "normalization before reshape": _normalization_before_reshape,
    "reshape twice": _reshape_twice,
    "reshape to itself": _reshape_to_itself,
}
_SHARED = {"reshape twice"}  # where what is left out may have other uses
RULES = rewriter.RewriteRuleSet(
    [
        rewriter.RewriteRule(*rule(), name=name, remove_nodes=name not in _SHARED)
        for name, rule in _TABLE.items()
    ]
)


# Names.


def _name_weights(graph: onnx_ir.Graph, weights: dict[str, np.ndarray]) -> None:
    """Gives constants that are weights of the model their names there."""
    names: dict[bytes, list[str]] = {}
    for name, weight in weights.items():
        names.setdefault(_content(weight), []).append(name)
    for value in list(graph.initializers.values()):
        array = _array(value)
        if array is not None and array.dtype == np.float32 and array.size > 1:
            for name in names.pop(_content(array), [])[:1]:
                value.name = name


def _content(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array, "float32").tobytes()


def _name_rest(graph: onnx_ir.Graph, weights: Collection[str]) -> None:
    """Names nodes after the layer that they belong to, and their results after them."""
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
