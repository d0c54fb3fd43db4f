"""Objectives by name: `OBJECTIVES`. An objective has an index of examples, a model and losses.

Every loss is a sum over the predictions of a batch. The number of predictions depends only on the
examples, so a batch may be divided among devices and micro-batches in any way.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import keras

from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.pretraining.data.example_index import segments_index
from keras_bert.pretraining.data.sentence_pairs import next_sentence_index, sentence_order_index
from keras_bert.pretraining.objectives import losses
from keras_bert.pretraining.objectives.losses import LossTerm, Sums
from keras_bert.pretraining.objectives.models import (
    distillation_model,
    masked_language_model,
    replaced_token_model,
    start_model,
)
from keras_bert.pretraining.objectives.replaced_tokens import ReplacedTokenModel

TEMPERATURE = 2.0
"""Temperature of the soft targets of distillation."""

LARGEST = 700.0
"""Largest loss whose exponential is finite."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """Examples, model and losses of a kind of pretraining.

    Args:
        loss_terms: the losses.
        model: function of the encoder's configuration, the run's configuration, the preprocessor
            and the dtype. Returns the model, which has an attribute `encoder`.
        index_examples: function that makes the index of an epoch's examples.
        pairs: whether an example has two texts. Segment ids distinguish them, and the pooler's
            output is used to compare them.
        replacement: ratios of the selected tokens that become `[MASK]` and random tokens.
        samples: whether the model samples tokens, and so also takes the original tokens and noise.
        teacher: whether the objective needs a teacher.
        averages: name of each mean, with the names of the measures that are averaged.
        final_model: function of the trained model. Returns the model that the run writes.
    """

    loss_terms: tuple[LossTerm, ...]
    model: Callable[..., keras.Model]
    index_examples: Callable[..., Any] = segments_index
    pairs: bool = False
    replacement: tuple[float, float] = (0.8, 0.1)
    samples: bool = False
    teacher: bool = False
    averages: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    final_model: Callable[[Any], keras.Model] = lambda model: model

    def check_encoder(self, name: str, config: EncoderConfig) -> None:
        """Checks that an encoder can be trained with this objective.

        Raises:
            InputError: if the encoder lacks segments or a pooler that the objective needs.
        """
        if self.pairs and config.num_segments < 2:
            raise InputError(
                f"The objective {name!r} has two texts in an example, but this encoder of the "
                f"family {config.family!r} cannot tell them apart: its num_segments is "
                f"{config.num_segments}. Choose another objective or family."
            )
        if self.pairs and not config.pooler:
            raise InputError(
                f"The objective {name!r} compares two texts with the pooler, but this encoder of "
                f"the family {config.family!r} has no pooler. Choose another objective or family."
            )

    def measures(self, sums: Any) -> dict[str, float]:
        """Returns the total loss, the mean loss and accuracy of each term, and the `averages`.

        Args:
            sums: `[loss_terms, 3]`: loss, number of right predictions, number of predictions.
        """
        measures = {"loss": 0.0}
        for term, (loss, right, count) in zip(self.loss_terms, sums, strict=True):
            measures[f"{term.name}_loss"] = loss / max(count, 1)
            if term.accuracy:
                measures[f"{term.name}_accuracy"] = right / max(count, 1)
            measures["loss"] += term.weight * loss / max(count, 1)
        for name, parts in self.averages.items():
            measures[name] = sum(measures[part] for part in parts) / len(parts)
        return measures

    def part_of(self, measure: str) -> str:
        """Returns the part of the model that a measure belongs to, or "" for the final model."""
        return next((h.part for h in self.loss_terms if measure.startswith(f"{h.name}_")), "")

    def perplexities(self, measures: Mapping[str, float]) -> dict[str, float]:
        """Returns the perplexity of each term whose perplexity is logged."""
        return {
            f"{term.name}_perplexity": math.exp(min(measures[f"{term.name}_loss"], LARGEST))
            for term in self.loss_terms
            if term.perplexity
        }


def _cross_entropy(key: str) -> Sums:
    return lambda outputs, y, w: losses.cross_entropy(outputs[key], y[key], w[key])


def _replaced_tokens(only: int | None = None) -> Sums:
    """Makes a function that sums over all tokens, or only over tokens with the label `only`."""

    def sums(outputs: Any, y: Any, w: Any) -> Any:
        labels, weights = outputs["replaced"], w["rtd_logits"]
        if only is not None:
            weights = weights * keras.ops.cast(keras.ops.equal(labels, only), weights.dtype)
        return losses.binary_cross_entropy(outputs["rtd_logits"], labels, weights)

    return sums


def _soft_targets(outputs: Any, y: Any, w: Any) -> Any:
    return losses.soft_targets(
        outputs["logits"], outputs["teacher_logits"], w["soft_targets"], TEMPERATURE
    )


def _cosine(outputs: Any, y: Any, w: Any) -> Any:
    return losses.cosine(outputs["states"], outputs["teacher_states"], w["cosine"])


_MASKED = LossTerm(
    name="mlm",
    sums=_cross_entropy("mlm_logits"),
    key="mlm_logits",
    labeled=True,
    weight=1.0,
    perplexity=True,
)
_NEXT = LossTerm(
    name="nsp",
    sums=_cross_entropy("nsp_logits"),
    key="nsp_logits",
    over="examples",
    labeled=True,
    weight=1.0,
)

_REPLACED = Objective(
    loss_terms=(
        dataclasses.replace(_MASKED, part="generator"),
        LossTerm(name="rtd", sums=_replaced_tokens(), key="rtd_logits", over="tokens", weight=50.0),
        LossTerm(name="rtd_replaced", sums=_replaced_tokens(only=1)),
        LossTerm(name="rtd_original", sums=_replaced_tokens(only=0)),
    ),
    averages={
        "rtd_balanced_accuracy": ("rtd_replaced_accuracy", "rtd_original_accuracy"),
    },
    # google-research/electra, pretrain_helpers.mask: 15 % of the selected tokens stay as they are.
    replacement=(0.85, 0.0),
    samples=True,
    model=partial(replaced_token_model, disentangled=False, size=0.25, depth=1.0),
    final_model=ReplacedTokenModel.final_model,
)

_DISTILLED = (
    LossTerm(
        name="soft",
        sums=_soft_targets,
        key="soft_targets",
        over="tokens",
        weight=5.0,
        accuracy=False,
    ),
    dataclasses.replace(_MASKED, weight=2.0),
    LossTerm(name="cosine", sums=_cosine, key="cosine", over="tokens", weight=1.0, accuracy=False),
)

OBJECTIVES = {
    "mlm": Objective(loss_terms=(_MASKED,), model=masked_language_model),
    "mlm+nsp": Objective(
        loss_terms=(_MASKED, _NEXT),
        model=partial(start_model, "pretraining"),
        index_examples=next_sentence_index,
        pairs=True,
    ),
    "mlm+sop": Objective(
        loss_terms=(_MASKED, dataclasses.replace(_NEXT, name="sop")),
        model=partial(start_model, "pretraining"),
        index_examples=sentence_order_index,
        pairs=True,
    ),
    "rtd": _REPLACED,
    # microsoft/DeBERTa, rtd_task.py: every token to guess is masked.
    "rtd+gdes": dataclasses.replace(
        _REPLACED,
        replacement=(1.0, 0.0),
        model=partial(replaced_token_model, disentangled=True, size=1.0, depth=0.5),
    ),
    "distillation": Objective(
        loss_terms=_DISTILLED,
        teacher=True,
        model=partial(distillation_model, every_token=True),
        final_model=lambda model: model.student,
    ),
    "distillation-masked": Objective(
        loss_terms=(dataclasses.replace(_DISTILLED[0], over="predictions"), *_DISTILLED[1:]),
        teacher=True,
        model=partial(distillation_model, every_token=False),
        final_model=lambda model: model.student,
    ),
}
"""Objectives by name.

- mlm: masked tokens (BERT, RoBERTa).
- mlm+nsp: masked tokens and the next sentence (BERT).
- mlm+sop: masked tokens and the order of two sentences (ALBERT, Lan et al. 2019,
  https://arxiv.org/abs/1909.11942).
- rtd: replaced tokens (ELECTRA).
- rtd+gdes: replaced tokens with disentangled gradients (DeBERTa-v3).
- distillation: a teacher's soft targets at every token, masked tokens and the direction of the last
  hidden states (DistilBERT).
- distillation-masked: distillation with soft targets only at masked tokens, which is much cheaper.
"""
