"""Options of a fine-tuning run: type, range, default and help of each."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

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


CHOSEN: Any = None
"""Default of an option that `resolve` chooses."""

if TYPE_CHECKING:  # other code gets the recipe after `resolve`, and sees numbers
    ChosenCount: TypeAlias = int
    ChosenNumber: TypeAlias = float
else:
    ChosenCount, ChosenNumber = OptionalCount, OptionalNumber

ClassWeights = Annotated[str | dict[str, float] | None, BeforeValidator(_to_weights)]


class Recipe(Options):
    """Options of a fine-tuning run.

    If an option is not given, `fine_tune` chooses its value from the model and the training
    examples. `resolve` returns the values and the reasons. `keras-bert finetune` has the same
    options, for example `--learning-rate` for `learning_rate`.

    Raises:
        InputError: if an option is unknown, of another type or out of its range.

    Example:
        >>> Recipe(epochs=2, learning_rate=1e-4).warmup
        0.1
    """

    epochs: ChosenCount = Field(
        default=CHOSEN,
        description="Passes through the training examples. By default, chosen by the numbers of "
        "examples and labels: the fewer examples, the more epochs.",
    )
    batch_size: ChosenCount = Field(
        default=CHOSEN,
        description="Examples per update, over all devices and micro-batches. By default, 32, "
        "or 16 for more than 256 tokens; at least one example for each micro-batch.",
    )
    learning_rate: ChosenNumber = Field(
        default=CHOSEN,
        gt=0,
        le=10,
        description="Learning rate at the end of the warm-up, usually from 1e-5 to 1e-3. Then it "
        "falls to 0. By default, chosen by the model's family and width, and by the task.",
    )
    sequence_length: OptionalCount = Field(
        default=None,
        description="Largest number of tokens in a text. By default, the preprocessor's length, if "
        "it is less than the model's number of positions. Otherwise, at least 99 % of the training "
        "texts fit.",
    )
    baseline: bool | None = Field(
        default=None,
        description="Whether to measure, for comparison, a logistic regression on the vectors of "
        "the model before training. Classifiers with validation examples only. By default, yes "
        "if there are at most 20,000 training examples.",
    )
    baseline_head: bool | None = Field(
        default=None,
        description="Whether the classifier's linear layer starts with the weights of the frozen "
        "baseline (Kumar et al. 2022, https://arxiv.org/abs/2202.10054). If no epoch is better, "
        "the model keeps these weights. By default, yes if the baseline is measured, and the "
        "layer reads the mean of the tokens' vectors of single texts.",
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
    lora_rank: OptionalCount = Field(
        default=None,
        description="Rank of LoRA adapters (Hu et al. 2021, https://arxiv.org/abs/2106.09685). "
        "Only adapters, biases, normalizations and the head are trained, by default with 20 times "
        "the learning rate. By default, all weights are trained.",
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
        if self.batch_size and self.gradient_accumulation_steps > self.batch_size:
            raise InputError(
                f"gradient_accumulation_steps is {self.gradient_accumulation_steps}, but a batch "
                f"of {self.batch_size} has only {self.batch_size} micro-batches; lower it or raise "
                "batch_size."
            )
        return self
