"""The objectives by name."""

import dataclasses
from functools import partial
from typing import Any

import keras

from keras_bert.pretraining.data.example_index import next_sentence_index, sentence_order_index
from keras_bert.pretraining.objectives import losses
from keras_bert.pretraining.objectives.models import (
    distillation_model,
    masked_language_model,
    pretraining_model,
    replaced_token_model,
)
from keras_bert.pretraining.objectives.objective import LossTerm, Objective, Sums
from keras_bert.pretraining.objectives.replaced_tokens import ReplacedTokenModel


def _cross_entropy(key: str) -> Sums:
    return lambda outputs, y, w: losses.cross_entropy(outputs[key], y[key], w[key])


def _replaced_tokens(only: int | None = None) -> Sums:
    """Of all tokens, or of those whose label is `only`."""

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


TEMPERATURE = 2.0

_MASKED = LossTerm(
    name="mlm",
    sums=_cross_entropy("mlm_logits"),
    key="mlm_logits",
    labelled=True,
    weight=1.0,
    perplexity=True,
)
_NEXT = LossTerm(
    name="nsp",
    sums=_cross_entropy("nsp_logits"),
    key="nsp_logits",
    over="examples",
    labelled=True,
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
    # google-research/electra, pretrain_helpers.mask: 15 % stay as they are.
    masked=(0.85, 0.0),
    samples=True,
    model=partial(replaced_token_model, disentangled=False, size=0.25, depth=1.0),
    kept=ReplacedTokenModel.kept,
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
        model=pretraining_model,
        index_examples=next_sentence_index,
        pairs=True,
    ),
    "mlm+sop": Objective(
        loss_terms=(_MASKED, dataclasses.replace(_NEXT, name="sop")),
        model=pretraining_model,
        index_examples=sentence_order_index,
        pairs=True,
    ),
    "rtd": _REPLACED,
    # microsoft/DeBERTa, rtd_task.py: every token to guess is masked.
    "rtd+gdes": dataclasses.replace(
        _REPLACED,
        masked=(1.0, 0.0),
        model=partial(replaced_token_model, disentangled=True, size=1.0, depth=0.5),
    ),
    "distillation": Objective(
        loss_terms=_DISTILLED,
        teacher=True,
        model=partial(distillation_model, every_token=True),
        kept=lambda model: model.student,
    ),
    "distillation-masked": Objective(
        loss_terms=(dataclasses.replace(_DISTILLED[0], over="predictions"), *_DISTILLED[1:]),
        teacher=True,
        model=partial(distillation_model, every_token=False),
        kept=lambda model: model.student,
    ),
}
"""Name to objective.

mlm: masked tokens (BERT, RoBERTa). mlm+nsp: and the next sentence (BERT). mlm+sop: and the order of
two (ALBERT, Lan et al. 2019, https://arxiv.org/abs/1909.11942). rtd: replaced tokens (ELECTRA).
rtd+gdes: the same with disentangled gradients (DeBERTa-v3). distillation: a teacher's soft targets
at every token, masked tokens and the direction of the last hidden states (DistilBERT);
distillation-masked: soft targets at masked tokens only, which is much cheaper.
"""
