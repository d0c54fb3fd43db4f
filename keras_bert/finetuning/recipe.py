"""Options of a fine-tuning run: type, range, default and help of each."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from keras_bert.errors import InputError
from keras_bert.options import Count, Number, OptionalCount, OptionalNumber, Options


def _to_weights(value: Any) -> Any:
    """Converts texts such as ("good=2", "bad=1") or ("balanced",), and checks the weights."""
    if isinstance(value, (list, tuple)):
        balanced = tuple(value) == ("balanced",)
        value = "balanced" if balanced else dict(map(_to_weight, value)) or None
    if isinstance(value, Mapping):
        for label, weight in value.items():
            if not (isinstance(weight, Real) and 0 <= float(weight) < math.inf):
                raise InputError(
                    f"class_weights has {weight!r} for {label!r}, but needs a number, 0 or more."
                )
        return {str(label): float(weight) for label, weight in value.items()}
    if value not in (None, "balanced"):
        raise InputError(
            f"class_weights is {value!r}, but must be 'balanced' or a weight for each label."
        )
    return value


def _to_weight(text: str) -> tuple[str, float]:
    label, _, weight = text.rpartition("=")
    try:
        number = float(weight)
    except ValueError:
        label = ""
    if not label:
        raise InputError(
            f"The class weight is {text!r}, but must be LABEL=NUMBER or the word balanced."
        )
    return label, number


ClassWeights = Annotated[str | dict[str, float] | None, BeforeValidator(_to_weights)]


class Recipe(Options):
    """Options of a fine-tuning run; the defaults are in the ranges of the BERT paper (section A.3).

    `keras-bert finetune` has the same options, for example `--learning-rate` for `learning_rate`.

    Raises:
        InputError: if an option is unknown, of another type or out of its range.

    Example:
        >>> Recipe(epochs=2, learning_rate=1e-4).batch_size
        32
    """

    epochs: Count = Field(default=3, description="Passes through the training examples.")
    batch_size: Count = Field(
        default=32, description="Examples per update, over all devices and micro-batches."
    )
    learning_rate: Number = Field(
        default=5e-5,
        gt=0,
        le=10,
        description="Learning rate at the end of the warm-up, usually from 1e-5 to 1e-3. Then it "
        "falls to 0.",
    )
    warmup: Number = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Ratio of the updates during which the learning rate rises.",
    )
    weight_decay: Number = Field(
        default=0.01,
        ge=0,
        le=10,
        description="Decoupled weight decay, not applied to biases and layer normalizations.",
    )
    global_clipnorm: OptionalNumber = Field(
        default=1.0,
        gt=0,
        description="Largest norm of the gradient of all weights together. A larger gradient is "
        "scaled down to it.",
    )
    layer_decay: Number = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Ratio of a layer's learning rate to the rate of the layer above. 1 means the "
        "same rate everywhere (Howard and Ruder 2018, https://arxiv.org/abs/1801.06146).",
    )
    crf_rate: Number = Field(
        default=100.0,
        ge=0,
        description="Learning rate of a CRF's transitions, as a multiple of the learning rate.",
    )
    frozen_layers: int = Field(
        default=0,
        ge=-1,
        description="Number of layers to freeze, from the lowest on, together with the "
        "embeddings. 0 freezes nothing, -1 only the embeddings.",
    )
    gradient_accumulation_steps: Count = Field(
        default=1,
        description="Number of micro-batches into which a batch is divided, to save memory.",
    )
    patience: OptionalCount = Field(
        default=None,
        description="Number of epochs without a better metric after which training stops. By "
        "default, all epochs run.",
    )
    metric: str | None = Field(
        default=None,
        description="Metric that chooses the best epoch; by default the task's first metric.",
    )
    label_smoothing: Number = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Ratio of each target that is spread over all labels. Classifiers only.",
    )
    class_weights: ClassWeights = Field(
        default=None,
        description="Weight of each label in the loss, such as LABEL=2 on the command line. "
        "Other labels have weight 1. 'balanced' makes all labels count the same: the weight is "
        "examples / (labels * examples with the label). Classifiers only.",
    )
    r_drop: Number = Field(
        default=0.0,
        ge=0,
        description="Weight of the divergence between two passes with different dropout (Liang et "
        "al. 2021, https://arxiv.org/abs/2106.14448). 0 makes only one pass.",
    )
    length_buckets: bool = Field(
        default=True, description="Whether texts of similar length share a batch."
    )
    seed: int = Field(
        default=0, ge=0, le=2**31 - 1, description="Seed of the examples' order and of dropout."
    )

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self.gradient_accumulation_steps > self.batch_size:
            raise InputError(
                f"gradient_accumulation_steps is {self.gradient_accumulation_steps}, but a batch "
                f"of {self.batch_size} has only {self.batch_size} micro-batches; lower it or raise "
                "batch_size."
            )
        return self
