"""Quantizes weights and activations to int8, with ranges measured on representative texts.

Jacob et al. 2017, https://arxiv.org/abs/1712.05877.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_bert.errors import InputError
from keras_bert.export.artifact_checks import require
from keras_bert.export.quantization import kept_float
from keras_bert.export.signatures import ids_of
from keras_bert.layers.encoder import Encoder

MASK_VALUE = -100.0
"""Value for masked attention logits. A lower value would need too much of the range of int8.

The mask and the logits share one int8 scale.
"""

Rows = list[dict[str, np.ndarray]]


def representative_rows(
    model: Any, representative: Any, shape: tuple[int, int] | None = None
) -> Rows:
    """Makes the model inputs for measuring the ranges of values.

    Args:
        model: the model.
        representative: texts; a tuple of two lists of texts for pairs; or ids `[N, T]` by name.
        shape: (batch size, number of tokens) of the file if they are fixed, else None.

    Returns:
        The model's three inputs for each batch, int32 of the given shape, or `[1, T]`.

    Raises:
        InputError: if there are no texts, or the model cannot read texts.
    """
    if representative is None:
        raise InputError(
            'quantize="int8" measures ranges of values while it converts; give it some hundred '
            'typical texts: representative=["...", ...].'
        )
    batch, length = shape or (1, None)
    arrays = ids_of(model, representative, length)
    count = len(arrays["token_ids"])
    # The first rows fill up the last batch.
    order = np.resize(np.arange(count), -(-count // batch) * batch).reshape(-1, batch)
    return [{name: array[rows] for name, array in arrays.items()} for rows in order]


def with_mask_value(model: Any, value: float = MASK_VALUE) -> Any:
    """Copies a model and its weights, and changes the value for masked attention logits."""
    name = getattr(model, "encoder", model).name
    encoder = Encoder(model.config.replace(mask_value=value), name=name)
    if isinstance(model, Encoder):
        copy = encoder
    else:
        others = ("encoder", "preprocessor", "trainable", "dtype")
        arguments = {k: v for k, v in model.get_config().items() if k not in others}
        copy = type(model)(encoder, preprocessor=model.preprocessor, **arguments)
    copy.set_weights(model.get_weights())
    return copy


def quantized(converter: Any, rows: Rows, keep_float: Sequence[str] = ()) -> bytes:
    """Returns the content of a TFLite file with int8 weights and activations.

    Args:
        converter: a `tf.lite.TFLiteConverter` of a function of ids.
        rows: inputs of the function to measure ranges on.
        keep_float: layers that stay float32, in the form that `tflite` accepts.

    Raises:
        InputError: if there is no such layer.
    """

    def data() -> Iterator[dict[str, np.ndarray]]:
        yield from tqdm(rows, "Measuring ranges", disable=None)

    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = data
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated")
        if not keep_float:
            return converter.convert()
        debugger = tf.lite.experimental.QuantizationDebugger(
            converter=converter, debug_dataset=data
        )
        nodes = kept_float(keep_float, _places(debugger.calibrated_model))
        debugger.options = tf.lite.experimental.QuantizationDebugOptions(denylisted_nodes=nodes)
        return debugger.get_nondebug_quantized_model()


def _places(content: bytes) -> dict[str, list[str]]:
    """Maps the name of each operator's result to the names of the operations it replaced.

    The converter names a result after the TensorFlow operations that the operator replaced. The
    name of a signature's output does not show these operations, so the names of the operator's
    weights are used instead.
    """
    schema = require("ai_edge_litert.schema_py_generated", "tflite")
    model = schema.Model.GetRootAsModel(content, 0)
    places = {}
    for index in range(model.SubgraphsLength()):
        graph = model.Subgraphs(index)
        made = {
            output
            for number in range(graph.OperatorsLength())
            for output in graph.Operators(number).OutputsAsNumpy()
        }
        for number in range(graph.OperatorsLength()):
            operator = graph.Operators(number)
            weights = [i for i in operator.InputsAsNumpy() if i >= 0 and i not in made]
            for output in operator.OutputsAsNumpy():
                name, *others = (graph.Tensors(i).Name().decode() for i in (output, *weights))
                names = [name] if "/" in name else others
                places[name] = [place for name in names for place in name.split(";") if place]
    return places
