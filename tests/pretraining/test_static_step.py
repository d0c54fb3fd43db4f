"""Steps for TPUs: all shapes are static, and no operation needs a string or the host."""

import pytest
import tensorflow as tf

from benchmarks.tpu.cases import CASES
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.training.throughput import training_flops
from tests.marks import others_swept
from tests.pretraining import small
from tests.pretraining.models import BATCH, LENGTH, MAX_PREDICTIONS, batches

ON_THE_HOST = ("PyFunc", "Print", "Table", "Iterator", "Dataset", "Regex", "Unique", "Where")
"""In the names of kinds of operations that TPUs have not or whose result has any size."""


def operations(graph):
    """Returns the operations of a graph and of the functions that it calls."""
    yield from graph.get_operations()
    for function in graph._functions.values():
        yield from operations(function.graph)


def check_static(graph):
    for operation in operations(graph):
        assert not any(part in operation.type for part in ON_THE_HOST), operation
        for tensor in [*operation.inputs, *operation.outputs]:
            assert tensor.dtype not in (tf.string, tf.variant), tensor
            assert tensor.shape.is_fully_defined(), tensor


def flops(operation):
    """Returns the floating-point operations of a matrix product."""
    transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
    result, first = operation.outputs[0].shape, operation.inputs[0].shape
    return 2 * result.num_elements() * first[-2 if transposed else -1]


def graph_of_step(objective):
    step = small.make_step(tf.distribute.get_strategy(), dropout=0.1, objective=objective)
    batch = tf.nest.map_structure(tf.constant, next(batches(1, objective=objective)))
    function = tf.function(lambda batch: step.strategy.run(step._step, args=(batch,)))
    return step.model, function.get_concrete_function(batch).graph


@pytest.mark.parametrize("objective", others_swept(OBJECTIVES, quick=2))
def test_step_is_static_and_needs_no_host(objective):
    model, graph = graph_of_step(objective)
    check_static(graph)
    products = [o for o in operations(graph) if o.type in ("MatMul", "BatchMatMulV2")]
    counted = sum(map(flops, products))
    assert counted == pytest.approx(training_flops(model, BATCH, LENGTH, MAX_PREDICTIONS), rel=0.03)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: tf.print(x),
        lambda x: tf.strings.as_string(x),
        lambda x: tf.numpy_function(abs, [x], tf.int32),
        lambda x: tf.boolean_mask(x, x > 0),
    ],
)
def test_what_is_not_static_is_found(wrong):
    inner = tf.function(lambda x: (wrong(x), x)[1])
    outer = tf.function(lambda x: inner(x))
    with pytest.raises(AssertionError):
        check_static(outer.get_concrete_function(tf.range(3)).graph)


def test_every_objective_is_compiled_for_a_tpu_by_make_tpu_check():
    assert {case.objective for case in CASES.values() if not case.size} == set(OBJECTIVES)
