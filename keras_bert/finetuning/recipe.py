"""How to fine-tune."""

import dataclasses
import math
from collections.abc import Mapping
from numbers import Integral, Real

from keras_bert.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to fine-tune; the defaults are within the ranges of the BERT paper (section A.3).

    Args:
        epochs: passes through the training examples.
        batch_size: examples per update, over all replicas and micro-batches.
        learning_rate: at the end of the warm-up, from where it falls to 0.
        warmup: share of the updates in which the learning rate rises.
        weight_decay: decoupled, not on biases and layer normalizations.
        global_clipnorm: largest norm of the gradient, or None.
        layer_decay: the rate of each layer as a share of the next higher one's (Howard and Ruder
            2018, https://arxiv.org/abs/1801.06146, section 3.2); 1 for the same rate everywhere.
        crf_rate: the rate of a CRF's transitions, as a multiple of the others'.
        frozen_layers: the embeddings and so many layers above them keep their weights; -1 freezes
            the embeddings alone.
        gradient_accumulation_steps: number of parts in which a batch is computed, to save memory.
        patience: stop after so many epochs without a better one; None never stops early.
        metric: what chooses the best epoch; by default the first metric of the task.
        label_smoothing: share of each target that is spread over all labels; classifiers only.
        class_weights: label to weight in the loss (1 where it is left out), or "balanced": the
            rarer, the heavier (N / labels / count); classifiers only.
        r_drop: weight of the divergence between two passes with different dropout (Liang et al.
            2021, https://arxiv.org/abs/2106.14448); 0 makes one pass.
        length_buckets: whether texts of like length share a batch, so that little is padding.
        seed: of the order of the examples and of dropout.

    Raises:
        InputError: if a value is out of its range.
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    global_clipnorm: float | None = 1.0
    layer_decay: float = 1.0
    crf_rate: float = 100.0
    frozen_layers: int = 0
    gradient_accumulation_steps: int = 1
    patience: int | None = None
    metric: str | None = None
    label_smoothing: float = 0.0
    class_weights: str | Mapping[str, float] | None = None
    r_drop: float = 0.0
    length_buckets: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high, expected) in _RANGES.items():
            value = getattr(self, name)
            kind, article = (Integral, "a whole number, ") if name in _WHOLE else (Real, "")
            if value is None and name in _OPTIONAL:
                continue
            if not (isinstance(value, kind) and low <= float(value) <= high):
                raise InputError(f"{name} is {value!r}, but must be {article}{expected}.")
        if self.gradient_accumulation_steps > self.batch_size:
            raise InputError(
                f"gradient_accumulation_steps is {self.gradient_accumulation_steps}, but a batch "
                f"of {self.batch_size} has only {self.batch_size} micro-batches; lower it or raise "
                "batch_size."
            )
        if isinstance(self.class_weights, Mapping):
            for label, weight in self.class_weights.items():
                if not (isinstance(weight, Real) and 0 <= float(weight) < math.inf):
                    raise InputError(
                        f"class_weights has {weight!r} for {label!r}, but must have numbers, 0 or "
                        "more."
                    )
        if isinstance(self.class_weights, str) and self.class_weights != "balanced":
            raise InputError(
                f"class_weights is {self.class_weights!r}, but must be 'balanced' or a weight for "
                "each label."
            )


_WHOLE = (
    "epochs",
    "batch_size",
    "frozen_layers",
    "gradient_accumulation_steps",
    "patience",
    "seed",
)
_OPTIONAL = ("global_clipnorm", "patience")
_RANGES: dict[str, tuple[float, float, str]] = {
    "epochs": (1, 1e6, "1 or more"),
    "batch_size": (1, 1e6, "1 or more"),
    "learning_rate": (1e-12, 10, "positive, and usually from 1e-5 to 1e-3"),
    "warmup": (0, 1, "from 0 to 1"),
    "weight_decay": (0, 10, "from 0 to 10"),
    "global_clipnorm": (1e-12, 1e12, "positive, or None"),
    "layer_decay": (1e-6, 1, "above 0 and at most 1"),
    "crf_rate": (0, 1e6, "0 or more"),
    "frozen_layers": (-1, 1e6, "-1 or more"),
    "gradient_accumulation_steps": (1, 1e6, "1 or more"),
    "patience": (1, 1e6, "1 or more, or None"),
    "label_smoothing": (0, 0.999999, "from 0 to below 1"),
    "r_drop": (0, 1e6, "0 or more"),
    "seed": (0, 2**31 - 1, "from 0 to 2147483647"),
}
