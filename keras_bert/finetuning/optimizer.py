"""The optimizer of a recipe."""

from typing import Any

from keras_bert.finetuning.recipe import Recipe
from keras_bert.optimizers.keras_adamw import KerasAdamW
from keras_bert.optimizers.schedules import WarmupLinearDecay


def adamw(model: Any, recipe: Recipe, updates: int) -> KerasAdamW:
    """Makes the optimizer of a recipe, with a schedule for this number of updates."""
    parts = recipe.gradient_accumulation_steps
    return KerasAdamW(
        WarmupLinearDecay(recipe.learning_rate, round(recipe.warmup * updates), updates),
        learning_rate_multipliers=learning_rate_multipliers(
            model, recipe.layer_decay, recipe.crf_rate
        ),
        weight_decay=recipe.weight_decay,
        global_clipnorm=recipe.global_clipnorm,
        gradient_accumulation_steps=parts if parts > 1 else None,
    )


def learning_rate_multipliers(
    model: Any, layer_decay: float, crf_rate: float = 1.0
) -> dict[str, float]:
    """Returns the multiplier of each weight's learning rate: `layer_decay ** layers above it`.

    The multiplier is 1 for what is above all layers, such as the head, `layer_decay` for the
    highest layer of the encoder, and smallest for the embeddings (Howard and Ruder 2018,
    https://arxiv.org/abs/1801.06146, section 3.2). The transitions of a CRF have the multiplier
    `crf_rate`, because they start at 0 and need a higher rate.

    Returns:
        The multiplier of each variable, by the variable's path.
    """
    encoder, layers = model.encoder, model.encoder.encoder_layers
    above = {variable.path: 0 for variable in model.variables}
    parts = [(encoder.variables, len(layers) + 1)]
    last = [part for part in (encoder.pooler, encoder.final_norm) if part is not None]
    parts += [(part.variables, 0) for part in last]
    parts += [(layer.variables, len(layers) - index) for index, layer in enumerate(layers)]
    for variables, number in parts:
        above.update((variable.path, number) for variable in variables)
    multipliers = {path: layer_decay**number for path, number in above.items()}
    crf = getattr(model, "crf", None)
    return multipliers | {variable.path: crf_rate for variable in (crf.variables if crf else ())}
