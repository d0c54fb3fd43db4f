"""Rematerialization: less memory in training, because activations are computed twice.

See Chen et al. 2016 (https://arxiv.org/abs/1604.06174). The forward pass keeps only the inputs of a
layer. The backward pass computes the layer's activations again.
"""

import math
from collections import Counter
from typing import Any

import keras
from keras import ops


class RematerializedByEncoder:
    """Mixin for layers and models: below `keras.RematScope`, only `Encoder` rematerializes.

    Keras 3.15 would rematerialize every layer in the scope, and again the layers inside of it. Then
    TensorFlow refuses the argument `training` (https://github.com/keras-team/keras/issues/21207),
    JAX traces it, and dropout draws other masks in the backward pass.
    """

    dtype_policy: Any
    _remat_mode: Any

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns `layer_call`, a layer's method, without rematerialization."""
        return layer_call

    def keras_layer(self, layer: type, *args: Any, **kwargs: Any) -> Any:
        """Makes a layer of Keras, by default with this layer's dtype.

        In a `keras.RematScope`, Keras rematerializes at most the layer's activation.
        """
        mode = getattr(self._remat_mode, "mode", None)
        with keras.RematScope(mode if mode == "activations" else None):
            return layer(*args, **{"dtype": self.dtype_policy, **kwargs})


def in_scope(layer: Any, x: Any) -> bool:
    """Returns whether the `keras.RematScope` that a layer was made in asks to rematerialize it.

    Args:
        layer: the layer.
        x: the layer's input, as large as its output.
    """
    scope = layer._remat_mode
    if scope is None or scope.mode != "larger_than":
        return scope is not None and (scope.mode == "full" or layer.name in scope.layer_names)
    return math.prod(size or 1 for size in x.shape) > scope.output_size_threshold


def rematerialized(layer: Any, *arguments: Any, **options: Any) -> Any:
    """Calls a layer whose activations the backward pass computes again.

    Both times, dropout draws the same masks as in an ordinary call.

    Args:
        layer: a layer that is built.
        *arguments: positional arguments of the layer: tensors, None, or tuples of both.
        **options: keyword arguments of the layer, which are not tensors.

    Returns:
        The layer's outputs.
    """
    leaves, outputs, scopes = keras.tree.flatten(arguments), list[Any](), list[_SeedScope]()
    generators = [
        part.seed_generator for part in layer._flatten_layers() if hasattr(part, "seed_generator")
    ]
    states = [generator.state for generator in generators]

    # TensorFlow needs all tensors as arguments, also the seeds. It makes each argument depend on
    # the backward pass. Otherwise, TensorFlow's graph optimizer would keep the masks of the forward
    # pass.
    def call(seeds: list[Any], tensors: list[Any]) -> list[Any]:
        values = [_from_floats(*pair) for pair in zip(seeds, states, strict=True)]
        scopes.append(_SeedScope([*zip(states, values, strict=True)]))
        rest = iter(tensors)
        given = [None if leaf is None else next(rest) for leaf in leaves]
        with scopes[-1]:
            found = layer(*keras.tree.pack_sequence_as(arguments, given), **options)
        outputs.append(found)
        return [leaf for leaf in keras.tree.flatten(found) if leaf is not None]

    seeds = [_to_floats(ops.convert_to_tensor(state)) for state in states]
    tensors = [leaf for leaf in leaves if leaf is not None]
    count = len(seeds)
    results = iter(keras.remat(lambda *x: call([*x[:count]], [*x[count:]]))(*seeds, *tensors))
    for generator in generators:
        for _ in range(scopes[0].draws[id(generator.state)]):
            generator.next()
    return keras.tree.map_structure(lambda x: None if x is None else next(results), outputs[0])


class _SeedScope(keras.StatelessScope):
    """Gives seed generators a state. All other variables keep their values.

    Args:
        states: pairs of a seed generator's variable and its value.
    """

    def __init__(self, states: list[tuple[Any, Any]]):
        super().__init__(states, initialize_variables=False)
        self.draws = Counter[int]()

    def add_update(self, update: tuple[Any, Any]) -> None:
        self.draws[id(update[0])] += 1
        super().add_update(update)

    def get_current_value(self, variable: Any) -> Any:
        value = super().get_current_value(variable)
        if value is None and self.original_scope is not None:
            return self.original_scope.get_current_value(variable)
        return value


def _to_floats(seed: Any) -> Any:
    """Returns a seed `[2]` as floats `[2, 2]`, because TensorFlow warns of integer arguments.

    The rows are the upper and the lower 16 bits, which float32 holds exactly.
    """
    return ops.cast(ops.stack([seed // 65536, seed % 65536]), "float32")


def _from_floats(halves: Any, state: Any) -> Any:
    high, low = ops.unstack(ops.cast(halves, state.dtype))
    return high * 65536 + low
