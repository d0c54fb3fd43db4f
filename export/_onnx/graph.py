"""From the graph that tf2onnx writes to a short one, with names that a reader knows."""

import numpy as np
import onnx
import onnx_ir
from onnx_ir.passes import common

from keras_bert.export._onnx.names import name_rest, name_weights
from keras_bert.export._onnx.rules import RULES
from keras_bert.export._onnx.shapes import fix_shapes, with_shapes


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
    model = onnx_ir.from_proto(with_shapes(proto))
    name_weights(model.graph, weights)
    fix_shapes(model.graph)
    common.RemoveUnusedNodesPass()(model)
    while RULES.apply_to_model(model):  # one makes room for another
        pass
    _deduplicate(model)
    name_rest(model.graph, weights)
    return model


def tidy(model: onnx_ir.Model) -> None:
    """Removes what is not used any more, and puts the rest in order."""
    common.RemoveUnusedNodesPass()(model)
    common.RemoveUnusedOpsetsPass()(model)
    common.TopologicalSortPass()(model)


def _eliminate_identities(model: onnx_ir.Model) -> None:
    """Removes them all but those between two outputs, of which the pass would lose one."""
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
    """Removes what is there twice, and notes about what was rewritten."""
    _eliminate_identities(model)
    for step in (
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
