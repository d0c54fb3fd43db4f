"""Fills in the defaults of a run's options, and checks that the options fit together."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

from keras_bert.checkpoints import open_checkpoint
from keras_bert.config import FOLLOWING, EncoderConfig
from keras_bert.distribution.strategy import STRATEGIES
from keras_bert.errors import InputError, closest
from keras_bert.families import FAMILIES
from keras_bert.optimizers.distributed import OPTIMIZERS
from keras_bert.optimizers.schedules import LR_SCHEDULES
from keras_bert.options import flatten, set_option
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.data.masking import MASKING_UNITS
from keras_bert.pretraining.objectives.registry import OBJECTIVES

DEFAULT_PRESET = "bert_mini"

CHOICES: dict[str, Collection[str]] = {
    "data.masking": MASKING_UNITS,
    "model.family": FAMILIES,
    "objective.name": OBJECTIVES,
    "optimizer.name": OPTIMIZERS,
    "schedule.lr_schedule": LR_SCHEDULES,
    "devices.strategy": STRATEGIES,
}
"""For each option that is a name, the registry with the allowed names."""

SIZES = (
    "vocabulary_size",
    "embedding_size",
    "hidden_size",
    "num_layers",
    "num_heads",
    "intermediate_size",
    "max_positions",
)
"""Fields of a preset or a teacher that are kept if the run's family is another one."""


def resolve(config: PretrainingConfig) -> PretrainingConfig:
    """Fills in the defaults that depend on the family, the objective or a checkpoint.

    Raises:
        InputError: if options do not fit together, or a model cannot be opened.
    """
    _check_start(config)
    values = config.to_dict()

    def fill_in(name: str, value: Any) -> None:
        if flatten(PretrainingConfig, values)[name] in (None, ""):
            set_option(values, name, value)

    fill_in("data.vocabulary", config.model.init_checkpoint or config.objective.teacher)
    fill_in("model.family", _family(config))
    family = values["model"]["family"]
    _check_choices(values, ("model.family",))
    fill_in("objective.name", _objective(config, family))
    _check_choices(values, CHOICES)
    pairs, data = OBJECTIVES[values["objective"]["name"]].pairs, config.data
    refused = {"across_documents": pairs or data.packed, "packed": pairs or data.across_documents}
    for name, value in FAMILIES[family].PRETRAINING.items():
        fill_in(f"data.{name}", False if refused.get(name) else value)
    resolved = PretrainingConfig.from_dict(values)
    _check_data(resolved)
    _check_objective(resolved)
    _check_schedule(resolved)
    _check_batch(resolved)
    if resolved.devices.precision == "auto" and resolved.devices.strategy == "multi_worker":
        raise InputError(
            "devices.precision is auto, but workers could choose different precisions; name one "
            "of float32, mixed_bfloat16 and mixed_float16."
        )
    return resolved


def encoder_config(config: PretrainingConfig, vocabulary_size: int) -> EncoderConfig:
    """Returns the encoder's configuration.

    Args:
        config: the resolved options.
        vocabulary_size: number of tokens.

    Raises:
        InputError: if the options do not fit together, or the sequence is longer than the
            encoder's number of positions.
    """
    objective, options = OBJECTIVES[config.objective.name], config.model.encoder
    values = encoder_fields(config, config.model.family)
    if not objective.pairs and "pooler" not in options:
        values["pooler"] = False  # no loss would train the pooler
    source = config.model.init_checkpoint
    source = source or (config.objective.teacher if _has_teacher_sizes(config) else None)
    if not source and "vocabulary_size" not in options:
        multiple = config.model.vocabulary_size_multiple
        values["vocabulary_size"] = -(-vocabulary_size // multiple) * multiple
    encoder = EncoderConfig.from_dict(values)
    objective.check_encoder(config.objective.name, encoder)
    if config.data.sequence_length > encoder.max_positions:
        is_trained = source and not encoder.rotary_base  # rotary positions have no weights
        raise InputError(
            f"data.sequence_length is {config.data.sequence_length}, but the encoder has "
            f"{encoder.max_positions} positions; lower it"
            + ("." if is_trained else ", or raise model.encoder.max_positions.")
        )
    if encoder.vocabulary_size < vocabulary_size:
        raise InputError(
            f"{f'The encoder of {source}' if source else 'model.encoder.vocabulary_size'} has "
            f"{encoder.vocabulary_size} tokens, but the vocabulary has {vocabulary_size} tokens, "
            f"with the mask; {'start from another checkpoint' if source else 'raise it'}."
        )
    return encoder


def encoder_fields(config: PretrainingConfig, family: str) -> dict[str, Any]:
    """Returns the fields of the `EncoderConfig`, except the vocabulary's size.

    Raises:
        InputError: if there is no such preset, or the model to start from is of another family.
    """
    options = _with_numbers(config.model.encoder)
    if source := config.model.init_checkpoint:
        values = dict(open_checkpoint(source)[1].encoder)
        if values["family"] != family:
            raise InputError(
                f"The family is {family!r}, but {source} is of the family "
                f"{values['family']!r}; leave the option model.family out."
            )
        return values | options
    if _has_teacher_sizes(config):
        encoder = EncoderConfig.from_dict(open_checkpoint(str(config.objective.teacher))[1].encoder)
        encoder = encoder.replace(num_layers=max(1, encoder.num_layers // 2))
    else:
        encoder = EncoderConfig.preset(config.model.preset or DEFAULT_PRESET)
    values = encoder.to_dict()
    for name, followed in FOLLOWING.items():
        if values.get(name) == values[followed]:
            values[name] = (
                None  # the same as the other field, even if options change the other field
            )
    if encoder.family != family:
        values = {name: values[name] for name in SIZES} | FAMILIES[family].TRAITS
    return values | options


def _family(config: PretrainingConfig) -> str:
    """Returns the family of the model to start from, of a student, or of the preset."""
    if config.model.family:
        return config.model.family
    if config.model.init_checkpoint:
        return str(open_checkpoint(config.model.init_checkpoint)[1].encoder["family"])
    if _has_teacher_sizes(config):
        return next(n for n, family in FAMILIES.items() if family.OBJECTIVES[0] == "distillation")
    return EncoderConfig.preset(config.model.preset or DEFAULT_PRESET).family


def _objective(config: PretrainingConfig, family: str) -> str:
    """Returns the objective: by default, the family's first one that the model supports."""
    if config.objective.name:
        return config.objective.name
    if config.objective.teacher:
        return "distillation"
    source = config.model.init_checkpoint
    pooler = not source or encoder_fields(config, family).get("pooler", True)
    objectives = ((name, OBJECTIVES[name]) for name in FAMILIES[family].OBJECTIVES)
    return next(
        name
        for name, objective in objectives
        if (pooler or not objective.pairs) and not (source and objective.teacher)
    )


def _has_teacher_sizes(config: PretrainingConfig) -> bool:
    return bool(config.objective.teacher) and config.model.preset is None


def _with_numbers(options: Mapping[str, Any]) -> dict[str, Any]:
    """Converts strings to numbers. PyYAML reads 1e-4 as a string, because it has no point."""
    kinds = {field.name: str(field.type) for field in dataclasses.fields(EncoderConfig)}
    values = dict(options)
    for name, value in options.items():
        if isinstance(value, str) and "float" in kinds.get(name, ""):
            try:
                values[name] = float(value)
            except ValueError:
                raise InputError(
                    f"model.encoder.{name} is {value!r}, but must be a number."
                ) from None
    return values


def _check_choices(values: Mapping[str, Any], names: Collection[str]) -> None:
    flat = flatten(PretrainingConfig, values)
    for name in names:
        value, choices = flat[name], CHOICES[name]
        if value is not None and value not in choices:
            raise InputError(
                f"{name} is {value!r}.{closest(value, choices)} Choose one of {', '.join(choices)}."
            )


def _check_start(config: PretrainingConfig) -> None:
    source, teacher = config.model.init_checkpoint, config.objective.teacher
    if "family" in config.model.encoder:
        raise InputError(
            "model.encoder.family is not enough to make an encoder of that family; set "
            "model.family instead."
        )
    if source == "":
        raise InputError(
            "model.init_checkpoint is empty. Set it to the model to start from; a second phase "
            "starts from the model of the first phase, RUN/model."
        )
    if source and (config.model.preset or teacher):
        other = "model.preset" if config.model.preset else "objective.teacher"
        raise InputError(
            f"{source} has its sizes and weights already; set {other} to null, or leave "
            "model.init_checkpoint out."
        )
    if not (config.data.vocabulary or source or teacher is not None):
        raise InputError("These options are needed: data.vocabulary.")


def _check_data(config: PretrainingConfig) -> None:
    data, objective = config.data, OBJECTIVES[config.objective.name]
    if data.weights and data.temperature:
        raise InputError("Give either data.weights or data.temperature, not both.")
    if data.weights and (len(data.weights) != len(data.corpus) or min(data.weights) <= 0):
        raise InputError(
            f"data.weights is {list(data.weights)}, but must have a number above 0 for each of the "
            f"{len(data.corpus)} names in data.corpus."
        )
    if (data.weights or data.temperature) and config.schedule.epochs:
        raise InputError(
            "A mixture of corpora has no epochs, because each is read again when it ends; give "
            "schedule.steps in place of schedule.epochs."
        )
    if objective.pairs and data.across_documents:
        raise InputError(
            f"The objective {config.objective.name!r} compares two texts, so its sequences cannot "
            "cross documents; set data.across_documents to false."
        )
    if objective.pairs and data.packed:
        raise InputError(
            f"The objective {config.objective.name!r} has two texts in a sequence, which cannot be "
            "packed with others; set data.packed to false, or choose another objective."
        )
    if data.packed and data.across_documents:
        raise InputError(
            "data.packed separates the documents in a sequence, but data.across_documents joins "
            "them; set one of the two to false."
        )


def _check_objective(config: PretrainingConfig) -> None:
    name, objective = config.objective.name, OBJECTIVES[config.objective.name]
    if objective.teacher and not config.objective.teacher:
        raise InputError(
            f"The objective {name!r} needs a teacher; set objective.teacher to the directory of a "
            "model, or choose the objective 'mlm'."
        )
    if config.objective.teacher and not objective.teacher:
        raise InputError(
            f"The objective {name!r} does not use a teacher; leave objective.teacher out, or "
            "choose 'distillation'."
        )
    for option in ("generator_size", "generator_depth"):
        if getattr(config.objective, option) is not None and not objective.samples:
            raise InputError(
                f"The objective {name!r} has no generator; leave objective.{option} out, or choose "
                "'rtd'."
            )


def _check_schedule(config: PretrainingConfig) -> None:
    schedule = config.schedule
    if (schedule.steps is None) == (schedule.epochs is None):
        raise InputError("Give either schedule.steps or schedule.epochs, the length of the run.")
    if schedule.warmup_steps and schedule.warmup_ratio is not None:
        raise InputError("Give either schedule.warmup_steps or schedule.warmup_ratio, not both.")
    if schedule.decay_ratio is not None and schedule.lr_schedule == "constant":
        raise InputError(
            f"schedule.decay_ratio is {schedule.decay_ratio}, but a constant schedule.lr_schedule "
            "never falls; leave it out, or choose one_minus_sqrt, linear or cosine."
        )
    warmup = schedule.warmup_ratio or schedule.warmup_steps / (schedule.steps or math.inf)
    if schedule.decay_ratio and warmup + schedule.decay_ratio > 1 + 1e-9:
        raise InputError(
            f"The warm-up takes {warmup:.3g} of the steps and schedule.decay_ratio is "
            f"{schedule.decay_ratio}, but their sum must be at most 1; lower one of them."
        )
    final = schedule.final_learning_rate
    if final > config.optimizer.learning_rate:
        raise InputError(
            f"schedule.final_learning_rate is {final}, but must be at most "
            f"optimizer.learning_rate, which is {config.optimizer.learning_rate}."
        )
    if final and schedule.lr_schedule == "constant":
        raise InputError(
            f"schedule.final_learning_rate is {final}, but a constant schedule.lr_schedule never "
            "reaches it; set it to 0, or choose linear, cosine or one_minus_sqrt."
        )


def _check_batch(config: PretrainingConfig) -> None:
    schedule, parts = config.schedule, config.devices.gradient_accumulation_steps
    if (schedule.first_batch_size is None) != (schedule.batch_ramp_steps is None):
        raise InputError(
            "schedule.first_batch_size and schedule.batch_ramp_steps belong together: give both "
            "if the batch size should grow, otherwise neither."
        )
    first = schedule.first_batch_size or schedule.batch_size
    factor, rest = divmod(schedule.batch_size, first)
    if rest or factor & (factor - 1):  # not a power of two
        raise InputError(
            f"schedule.first_batch_size is {first}, but doubling it never gives "
            f"schedule.batch_size, which is {schedule.batch_size}; choose the batch size divided "
            "by 2, 4, 8 or another power of two."
        )
    if first % parts:  # later batch sizes are multiples of the first
        name = "first_batch_size" if schedule.first_batch_size else "batch_size"
        raise InputError(
            f"schedule.{name} is {first}, which cannot be divided into {parts} micro-batches "
            "(devices.gradient_accumulation_steps); choose a multiple."
        )
