"""What a training step does alike on every backend of Keras: losses by term, seeds of dropout."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.pretraining.objectives.losses import LossTerm


def by_key(loss_terms: Sequence[LossTerm], values: Any) -> Mapping[str, Any]:
    """What a model or dataset with one term gives as it is, by key."""
    return values if isinstance(values, Mapping) else {loss_terms[0].key: values}


def count_predictions(loss_terms: Sequence[LossTerm], w: Any) -> Any:
    """Of each term in a batch, `[loss_terms]` float32; 1 for a term that is only watched."""
    weights = by_key(loss_terms, w)
    return ops.stack(
        [ops.sum(weights[term.key]) if term.key else ops.ones(()) for term in loss_terms]
    )


def loss_factors(loss_terms: Sequence[LossTerm], counts: Any) -> Any:
    """What the sums of losses are multiplied by in the total, `[loss_terms]` float32.

    Args:
        loss_terms: of the objective.
        counts: `count_predictions` of the whole batch.
    """
    weights = ops.convert_to_tensor([term.weight for term in loss_terms], "float32")
    return weights / ops.maximum(counts, 1.0)


def sum_losses(loss_terms: Sequence[LossTerm], outputs: Any, y: Any, w: Any) -> Any:
    """Loss, right predictions and predictions of each term, `[loss_terms, 3]` float32."""
    outputs, y, w = (by_key(loss_terms, values) for values in (outputs, y, w))
    return ops.stack([term.sums(outputs, y, w) for term in loss_terms])


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
