"""Chooses options that a recipe does not give, from the model and the training examples."""

import math
from collections.abc import Callable, Container
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_bert.families import FAMILIES, bert
from keras_bert.finetuning.examples import Examples
from keras_bert.finetuning.jobs import job_of
from keras_bert.finetuning.recipe import Recipe
from keras_bert.layers.lora import adapted_layers
from keras_bert.layers.windows import text_length
from keras_bert.tasks.registry import TASKS, task_of

_UNCUT = 2**30  # a length that cuts no text
_SHORTEST, _LENGTH_STEP = 64, 16
_LONG = 256  # tokens; a batch of longer texts has half as many examples

LEAST_UPDATES = 500
UPDATES_PER_LABEL = 10
FEWEST_EPOCHS, MOST_EPOCHS = 3, 30
HIGHEST_RATE = 1e-3
TASK_RATES = {"token_classifier": 2.0, "embedder": 0.5}
"""Factor of the learning rate for a task; 1 for the others."""
ADAPTER_FACTOR = 20
"""Factor of the learning rate if only low-rank adapters are trained.

About the ratio of LoRA's rates for RoBERTa, in LoRA's paper, to the rates of RoBERTa's own paper.
"""
MOST_FOR_BASELINE = 20_000
"""Largest number of training examples for which the baseline is measured by default."""

_POOLINGS = {
    "pooled": "the encoder's pooler",
    "first": "the vector of the first token",
    "last": "the vector of the last token",
    "mean": "mean of the tokens' vectors",
    "max": "largest values of the tokens' vectors",
    **dict.fromkeys(("weighted", "attention"), "weighted mean of the tokens' vectors"),
    "late": "mean of the tokens' vectors after a dense layer",
}


class Choice(NamedTuple):
    """Value of an option of a run, and the reason for this value."""

    name: str
    value: Any
    reason: str


class _Properties(NamedTuple):
    """Properties of the model and of the examples, for the functions in `CHOICES`."""

    model: Any
    task: str
    recipe: Recipe
    chosen: dict[str, Any]
    examples: int
    labels: int
    pairs: bool
    validation: bool
    lengths: np.ndarray


def resolve(
    recipe: Recipe,
    model: Any,
    train: Examples,
    without_effect: Container[str] = (),
    *,
    validation: bool = True,
) -> tuple[Recipe, list[Choice]]:
    """Chooses the options of a recipe that are not given, if `CHOICES` names them.

    Nothing is changed: neither the recipe nor the model.

    Args:
        recipe: options of the run. Values that are not None stay.
        model: a task; its preprocessor counts the tokens.
        train: training examples.
        without_effect: names of options that stay None, because an optimizer replaces them.
        validation: whether there are validation examples.

    Returns:
        The recipe with all values, and the reason for each value.

    Raises:
        InputError: if the model's task cannot be fine-tuned, or options contradict each other.

    Example:
        >>> recipe, choices = resolve(Recipe(epochs=2), model, train)
        >>> choices[1]
        Choice(name='batch_size', value=32, reason='as in the BERT paper')
    """
    lengths = np.zeros(0, np.int64)
    if model.preprocessor is not None:
        texts = job_of(model).texts(train)
        lengths = model.preprocessor.with_length(_UNCUT).rows(texts).lengths
    labels = len(getattr(model, "labels", ()))
    task = str(task_of(model))
    pairs = getattr(train, "pairs", None) is not None
    properties = _Properties(
        model, task, recipe, {}, len(train), labels, pairs, validation, lengths
    )
    choices = []
    for name, choose in CHOICES.items():
        if name in without_effect:
            continue
        value, reason = getattr(recipe, name), "given"
        if value is None:
            value, reason = choose(properties)
        properties.chosen[name] = value
        choices.append(Choice(name, value, reason))
    if properties.chosen["sequence_length"] is not None:
        choices[0] = choices[0]._replace(reason=f"{choices[0].reason}; {_longer_texts(properties)}")
    if hasattr(model, "pooling"):
        choices.append(Choice("pooling", model.pooling, _POOLINGS[model.pooling]))
    if getattr(model, "windows", None) is not None:
        reason = f"the {model.windows} of the vectors of at most {model.max_windows} windows"
        choices.append(Choice("windows", model.windows, reason))
    return Recipe(**dict(recipe) | properties.chosen), choices


def _sequence_length(properties: _Properties) -> tuple[int | None, str]:
    if not len(properties.lengths):
        return None, "the model has no preprocessor"
    most, count = properties.model.preprocessor.sequence_length, len(properties.lengths)
    if most < properties.model.config.max_positions:
        return most, "the preprocessor's length"
    usual = math.ceil(np.percentile(properties.lengths, 99, method="inverted_cdf"))
    length = max(_SHORTEST, -(-usual // _LENGTH_STEP) * _LENGTH_STEP)
    if length >= most:
        return most, "the model has no more positions"
    return length, f"99 % of {count:,} texts have at most {usual} tokens"


def _longer_texts(properties: _Properties) -> str:
    length, model = properties.chosen["sequence_length"], properties.model
    longer = int((properties.lengths > length).sum())
    if not longer:
        return "no text is longer"
    sentence = f"{longer:,} of {len(properties.lengths):,} are longer and are"
    if TASKS[properties.task].windows:
        return f"{sentence} read in windows"
    if getattr(model, "windows", None) is None:
        return f"{sentence} cut"
    cut = int((properties.lengths > _longest_uncut(model, length)).sum())
    rest = f", {cut:,} of them cut to {model.max_windows} windows" if cut else ""
    return f"{sentence} read in windows{rest}"


def _batch_size(properties: _Properties) -> tuple[int, str]:
    devices = properties.model.distribute_strategy.num_replicas_in_sync
    least = devices * properties.recipe.gradient_accumulation_steps
    size, reason = 32, "as in the BERT paper"
    if _usual_length(properties) > _LONG:
        size, reason = 16, f"as in the BERT paper, for more than {_LONG} tokens"
    if size < least:
        return least, "one example for each micro-batch of each device"
    return size, reason


def _usual_length(properties: _Properties) -> int:
    """Returns the number of tokens that decides the batch size.

    Without windows, this is `sequence_length`. With windows, 99 % of the texts are not longer.
    """
    length = properties.chosen["sequence_length"] or 0
    if getattr(properties.model, "windows", None) is None or not length:
        return length
    usual = int(np.percentile(properties.lengths, 99, method="inverted_cdf"))
    return max(length, min(usual, _longest_uncut(properties.model, length)))


def _longest_uncut(model: Any, window_length: int) -> int:
    """Returns the number of tokens of the longest text that a model with windows does not cut."""
    return text_length(window_length, model.max_windows, model.preprocessor.separator_at_end)


def _epochs(properties: _Properties) -> tuple[int, str]:
    each = -(-properties.examples // properties.chosen["batch_size"])
    least = LEAST_UPDATES + UPDATES_PER_LABEL * properties.labels
    epochs = max(FEWEST_EPOCHS, -(-least // each))
    if epochs > MOST_EPOCHS:
        return MOST_EPOCHS, f"{each:,} updates each; no more epochs than that"
    if epochs > FEWEST_EPOCHS:
        return epochs, f"{each:,} updates each, at least {least:,} together"
    return epochs, f"{each:,} updates each"


def _learning_rate(properties: _Properties) -> tuple[float, str]:
    config = properties.model.config
    factor = TASK_RATES.get(properties.task, 1.0)
    rates = getattr(FAMILIES[config.family], "FINE_TUNING_RATES", bert.FINE_TUNING_RATES)
    rate = min(factor * rate_of(rates, config.hidden_size), HIGHEST_RATE)
    reason = f"for the family {config.family} and {config.hidden_size} units"
    if properties.recipe.lora_rank or adapted_layers(properties.model):
        rate, reason = ADAPTER_FACTOR * rate, f"{reason}, times {ADAPTER_FACTOR} for adapters"
    return float(f"{rate:.1e}"), reason


def rate_of(rates: dict[int, float], hidden_size: int) -> float:
    """Returns the learning rate of a hidden size, given the rates of some hidden sizes.

    Takes the listed size with the nearest ratio to `hidden_size`, and multiplies its rate by
    listed size / hidden_size.
    """
    nearest = min(rates, key=lambda size: abs(math.log(size / hidden_size)))
    return rates[nearest] * nearest / hidden_size


def _baseline(properties: _Properties) -> tuple[bool, str]:
    if not has_baseline(properties.model):
        return False, "only for classifiers that choose labels"
    if not properties.validation:
        return False, "there are no validation examples"
    if properties.examples > MOST_FOR_BASELINE:
        return False, f"more than {MOST_FOR_BASELINE:,} examples"
    return True, f"cheap for {properties.examples:,} examples"


def has_baseline(model: Any) -> bool:
    """Returns whether a model has a frozen baseline: whether it chooses labels for texts."""
    return task_of(model) == "classifier" and model.problem_type != "regression"


def _baseline_head(properties: _Properties) -> tuple[bool, str]:
    if not properties.chosen["baseline"]:
        return False, "there is no baseline"
    if not reads_baseline_vectors(properties.model, properties.pairs):
        return False, "the classifier's layer does not read the baseline's vectors"
    if np.any(ops.convert_to_numpy(properties.model.head.logits.bias)):
        return False, "the classifier's layer was trained before"
    return True, "starts as good as the baseline"


def reads_baseline_vectors(model: Any, pairs: bool) -> bool:
    """Returns whether a classifier is a linear layer on the vectors of the frozen baseline."""
    return (
        has_baseline(model) and model.pooling == "mean" and model.head.hidden is None and not pairs
    )


CHOICES: dict[str, Callable[[_Properties], tuple[Any, str]]] = {
    "sequence_length": _sequence_length,
    "batch_size": _batch_size,
    "epochs": _epochs,
    "learning_rate": _learning_rate,
    "baseline": _baseline,
    "baseline_head": _baseline_head,
}
"""Functions that choose values, by option. A function may use the values chosen before it."""
