"""What encoder a run trains: a preset's, another family's of its sizes, or a given model's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras_bert.checkpoints import open_checkpoint
from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.families import FAMILIES
from keras_bert.pretraining.objectives.registry import OBJECTIVES

if TYPE_CHECKING:
    from keras_bert.pretraining.config import PretrainingConfig

DEFAULT_PRESET = "bert_mini"

SIZES = (
    "vocabulary_size",
    "embedding_size",
    "hidden_size",
    "num_layers",
    "num_heads",
    "intermediate_size",
    "max_positions",
)
"""What a preset gives to another family."""


def family_of(run: PretrainingConfig) -> str:
    """The family of a run that does not name one.

    Raises:
        InputError: if there is no such preset or model.
    """
    if run.initial:
        return str(open_checkpoint(run.initial)[1].encoder["family"])
    if _is_half_a_teacher(run):
        return next(n for n, family in FAMILIES.items() if family.OBJECTIVES[0] == "distillation")
    return EncoderConfig.preset(run.preset or DEFAULT_PRESET).family


def objective_of(run: PretrainingConfig, family: str) -> str:
    """The objective of a run that does not name one: the family's first, of what there is."""
    if run.teacher:
        return "distillation"
    pooler = not run.initial or encoder_fields(run, family).get("pooler", True)
    objectives = ((name, OBJECTIVES[name]) for name in FAMILIES[family].OBJECTIVES)
    return next(
        name
        for name, objective in objectives
        if (pooler or not objective.pairs) and not (run.initial and objective.teacher)
    )


def encoder_fields(run: PretrainingConfig, family: str) -> dict[str, Any]:
    """The fields of the `EncoderConfig`, its `vocabulary_size` not yet that of the vocabulary.

    Raises:
        InputError: if there is no such preset, or the model to start from is of another family.
    """
    if run.initial:
        values = dict(open_checkpoint(run.initial)[1].encoder)
        if values["family"] != family:
            raise InputError(
                f"The family is {family!r}, but {run.initial} is of the family "
                f"{values['family']!r}; leave the option family out."
            )
        return values | dict(run.encoder)
    if _is_half_a_teacher(run):
        config = EncoderConfig.from_dict(open_checkpoint(str(run.teacher))[1].encoder)
        config = config.replace(num_layers=max(1, config.num_layers // 2))
    else:
        config = EncoderConfig.preset(run.preset or DEFAULT_PRESET)
    values = config.to_dict()
    if config.embedding_size == config.hidden_size:
        values["embedding_size"] = 0  # also where the options name another hidden_size
    if config.family != family:
        values = {name: values[name] for name in SIZES} | FAMILIES[family].TRAITS
    return values | dict(run.encoder)


def encoder_config(run: PretrainingConfig, vocabulary_size: int) -> EncoderConfig:
    """The encoder's configuration.

    Args:
        run: the options.
        vocabulary_size: number of tokens.

    Raises:
        InputError: if it is not possible, or the sequence is longer than the positions.
    """
    objective = OBJECTIVES[run.objective]
    values = encoder_fields(run, run.family)
    if not objective.pairs and "pooler" not in run.encoder:
        values["pooler"] = False  # nothing would train it
    whose = run.initial or (run.teacher if _is_half_a_teacher(run) else None)
    if not whose and "vocabulary_size" not in run.encoder:
        multiple = run.vocabulary_size_multiple
        values["vocabulary_size"] = -(-vocabulary_size // multiple) * multiple
    config = EncoderConfig.from_dict(values)
    objective.check_encoder(run.objective, config)
    if run.sequence_length > config.max_positions:
        raise InputError(
            f"sequence_length is {run.sequence_length}, but the encoder has "
            f"{config.max_positions} positions; lower it"
            + ("." if whose else ", or raise encoder.max_positions.")
        )
    if config.vocabulary_size < vocabulary_size:
        raise InputError(
            f"{f'The encoder of {whose}' if whose else 'encoder.vocabulary_size'} has "
            f"{config.vocabulary_size} tokens, but the vocabulary has {vocabulary_size} tokens, "
            f"the mask among them; {'begin with another checkpoint' if whose else 'raise it'}."
        )
    return config


def _is_half_a_teacher(run: PretrainingConfig) -> bool:
    return bool(run.teacher) and run.preset is None
