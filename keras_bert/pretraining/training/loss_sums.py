"""What a training step does alike on every backend of Keras: losses by head, seeds of dropout."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.pretraining.objectives.objective import Head


def by_key(heads: Sequence[Head], values: Any) -> Mapping[str, Any]:
    """What a model or dataset with one head gives as it is, by key."""
    return values if isinstance(values, Mapping) else {heads[0].key: values}


def count_predictions(heads: Sequence[Head], w: Any) -> Any:
    """Of each head in a batch, `[heads]` float32; 1 for a head that is only watched."""
    weights = by_key(heads, w)
    return ops.stack([ops.sum(weights[head.key]) if head.key else ops.ones(()) for head in heads])


def loss_factors(heads: Sequence[Head], counts: Any) -> Any:
    """What the sums of losses are multiplied by in the total, `[heads]` float32.

    Args:
        heads: of the objective.
        counts: `count_predictions` of the whole batch.
    """
    weights = ops.convert_to_tensor([head.weight for head in heads], "float32")
    return weights / ops.maximum(counts, 1.0)


def sum_losses(heads: Sequence[Head], outputs: Any, y: Any, w: Any) -> Any:
    """Loss, right predictions and predictions of each head, `[heads, 3]` float32."""
    outputs, y, w = (by_key(heads, values) for values in (outputs, y, w))
    return ops.stack([head.sums(outputs, y, w) for head in heads])


def seed_states(model: keras.Model) -> list[keras.Variable]:
    """The states of all random generators in the model, in the order of its layers."""
    generators = [getattr(layer, "seed_generator", None) for layer in model._flatten_layers()]
    return [generator.state for generator in generators if generator is not None]


def with_seeds(model: keras.Model, values: Sequence[Any], seeds: Any) -> list[Any]:
    """The values of the variables that are not trained, each random generator newly seeded.

    Args:
        model: whose variables.
        values: theirs, in the order of `model.non_trainable_variables`.
        seeds: `[D, 2]`, for the D `seed_states`.
    """
    rows = {id(state): row for row, state in enumerate(seed_states(model))}
    return [
        ops.cast(seeds[rows[id(variable)]], variable.dtype) if id(variable) in rows else value
        for variable, value in zip(model.non_trainable_variables, values, strict=True)
    ]
