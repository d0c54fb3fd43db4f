"""Rewrites an ONNX graph so that onnxruntime can fuse its operators.

tf2onnx writes layer normalization, GELU and lookups as many small operators that onnxruntime does
not fuse. `RULES` is a table of rules for `onnxscript`. A rule is three functions: a pattern, a
replacement and a condition. Their arguments are values of the graph and have the same names in all
three. Operands in a pattern have the same order as in the graphs of tf2onnx.

Several rules move or remove `Reshape` nodes, so that all tokens of a batch stay rows of one matrix.
Then onnxruntime runs each dense layer as one `Gemm`.
"""
# mypy: disable-error-code="no-untyped-def"

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir
from onnxscript import rewriter

DERIVED = "~"
"""Suffix of a constant that was computed from a weight, after the weight's name."""

_ALL = 2**31 - 1  # an index beyond every end
_Rule = tuple[Callable, Callable, Callable]
_SQRT_2 = math.sqrt(2)


def constant_of(value: onnx_ir.Value | None) -> np.ndarray | None:
    """Returns the numbers of a constant; None for other values."""
    if value is None or value.const_value is None:
        return None
    return value.const_value.numpy()


def _vector(op: Any, value: onnx_ir.Value) -> onnx_ir.Value:
    """Returns a constant `[1, ..., H]` as `[H]`."""
    array = value.const_value.numpy()  # type: ignore[union-attr]
    if array.ndim == 1:
        return value
    name = f"{value.name}{DERIVED}"
    graph = value.graph
    if graph is not None and name in graph.initializers:
        return graph.initializers[name]
    return op.initializer(onnx_ir.tensor(array.ravel(), name=name))


def _last(shape: onnx_ir.Value) -> int | None:
    """Returns the last target size of a `Reshape`, or None if a size is unknown or zero."""
    sizes, node = constant_of(shape), shape.producer()
    if node is not None and node.op_type == "Concat":  # sizes of the inputs, then constant sizes
        sizes = constant_of(node.inputs[-1])
    return int(sizes[-1]) if sizes is not None and sizes.size and np.all(sizes) else None


def _matrix(value: onnx_ir.Value) -> tuple[int | None, int | None]:
    """Returns the rank and the number of columns of a value, with None for unknown numbers."""
    if value.shape is not None:
        last = value.shape[-1] if len(value.shape) else None
        return len(value.shape), last if isinstance(last, int) else None
    node = value.producer()
    if node is None or node.inputs[0] is None:
        return None, None
    rank, columns = _matrix(node.inputs[0])
    if node.op_type == "MatMul" and node.inputs[1] is not None:
        return rank, _matrix(node.inputs[1])[1]
    # For these operators, the first input has the shape of the result.
    alike = ("Add", "Div", "Erf", "LayerNormalization", "Mul")
    return (rank, columns) if node.op_type in alike else (None, None)


def _layer_norm() -> _Rule:
    """Replaces Keras' operators (moments, batch normalization) by one `LayerNormalization`."""

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
        numbers = [constant_of(value) for value in (axes, epsilon, gamma, beta)]
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
    """Computes 0.5 x (1 + erf(x / √2))."""
    return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, root)), one)), half)


def _gelu() -> _Rule:
    """Orders the operators of GELU so that onnxruntime can fuse them."""

    def pattern(op, x):
        return op.Mul(op.Mul(0.5, x), op.Add(1.0, op.Erf(op.Mul(x, 1 / _SQRT_2))))

    def replacement(op, x):
        return _erf_gelu(op, x, *_numbers(op))

    return pattern, replacement, _always


def _lookup() -> _Rule:
    """Removes the conversion of negative indices, because `Gather` accepts them."""

    def pattern(op, table, ids, rows, zero, axis):
        negative = op.Less(op.Cast(ids), zero)
        from_end = op.Mul(op.Cast(negative), op.Add(ids, rows))
        from_start = op.Mul(ids, op.Cast(op.Not(negative)))
        return op.Gather(table, op.Add(from_end, from_start), axis=axis)

    def replacement(op, table, ids, rows, zero, axis):
        return op.Gather(table, ids, axis=axis)

    def check(context, table, ids, rows, zero, axis):
        size = constant_of(rows)
        return (
            size is not None
            and table.shape is not None
            and size.size == 1
            and int(size.item()) == table.shape[axis.as_int()]
            and not np.any(constant_of(zero))
        )

    return pattern, replacement, check


def _one_hot_product() -> _Rule:
    """Removes the two `Reshape`s around the product of one-hot vectors and a small table."""

    def pattern(op, ids, depth, values, before, table, after):
        one_hot = op.OneHot(ids, depth, values, _allow_other_attributes=True)
        return op.Reshape(op.MatMul(op.Reshape(one_hot, before), table), after)

    def replacement(op, ids, depth, values, before, table, after):
        return op.MatMul(op.OneHot(ids, depth, values, axis=-1), table)

    return pattern, replacement, _always


def _bias_before_reshape() -> _Rule:
    """Adds a dense layer's bias right after its product, so that both become one `Gemm`."""

    def pattern(op, x, kernel, shape, bias):
        return op.Add(op.Reshape(op.MatMul(x, kernel), shape), bias)

    def replacement(op, x, kernel, shape, bias):
        return op.Reshape(op.Add(op.MatMul(x, kernel), bias), shape)

    def check(context, x, kernel, shape, bias):
        numbers = constant_of(bias)
        return numbers is not None and numbers.shape == (_matrix(kernel)[1],) == (_last(shape),)

    return pattern, replacement, check


def _gelu_before_reshape() -> _Rule:
    """Moves GELU before a `Reshape`. The order does not change the result."""

    def pattern(op, x, shape):
        return _erf_gelu(op, op.Reshape(x, shape), *_NUMBERS)

    def replacement(op, x, shape):
        return op.Reshape(_erf_gelu(op, x, *_numbers(op)), shape)

    return pattern, replacement, _always


def _normalization_before_reshape() -> _Rule:
    """Moves layer normalization before a `Reshape` that keeps the size of the last axis."""

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
    """Removes the first of two `Reshape`s, unless a 0 in the second copies a size of the first."""

    def pattern(op, x, first, second):
        return op.Reshape(op.Reshape(x, first), second)

    def replacement(op, x, first, second):
        return op.Reshape(x, second)

    def check(context, x, first, second):
        return _last(second) is not None

    return pattern, replacement, check


def _reshape_to_itself() -> _Rule:
    """Removes a `Reshape` to `[-1, H]` of a matrix that has H columns already."""

    def pattern(op, x, shape):
        return op.Reshape(x, shape)

    def replacement(op, x, shape):
        return op.Identity(x)

    def check(context, x, shape):
        sizes = constant_of(shape)
        return sizes is not None and (sizes.size, sizes.tolist()) == (
            _matrix(x)[0],
            [-1, _matrix(x)[1]],
        )

    return pattern, replacement, check


def _scaled_product() -> _Rule:
    """Multiplies a dense layer's weights by the scale of its output, if no other node uses them."""

    def pattern(op, x, kernel, bias, scale):
        return op.Mul(op.Add(op.MatMul(x, kernel), bias), scale)

    def scaled(op, value, scale):
        array = constant_of(value) * constant_of(scale)
        return op.initializer(onnx_ir.tensor(array, name=f"{value.name}{DERIVED}"))

    def replacement(op, x, kernel, bias, scale):
        return op.Add(op.MatMul(x, scaled(op, kernel, scale)), scaled(op, bias, scale))

    def check(context, x, kernel, bias, scale):
        number = constant_of(scale)
        constant = kernel.const_value is not None and bias.const_value is not None
        return constant and number is not None and number.ndim == 0 and len(kernel.uses()) == 1

    return pattern, replacement, check


def _first_token() -> _Rule:
    """Takes the vector of `[CLS]` with one `Gather`."""

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
_SHARED = {"reshape twice"}  # rules whose removed nodes may have other uses
RULES = rewriter.RewriteRuleSet(
    [
        rewriter.RewriteRule(*rule(), name=name, remove_nodes=name not in _SHARED)
        for name, rule in _TABLE.items()
    ]
)
