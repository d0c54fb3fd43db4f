"""What is in an ONNX graph, by the names that it has in the model."""

import re
from collections import Counter
from collections.abc import Collection

import numpy as np
import onnx_ir

from keras_bert.export._onnx.rules import DERIVED, constant_of

_COUNTED = re.compile(r"(.+)_\d+")  # TensorFlow counts scopes of one name
_CONVERTED = re.compile(r"(__\d+)?(:\d+)?$")  # what tf2onnx puts after a name


def name_weights(graph: onnx_ir.Graph, weights: dict[str, np.ndarray]) -> None:
    """Gives constants that are weights of the model their names there."""
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
    """Names nodes after the layer that they belong to, and their results after them."""
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
