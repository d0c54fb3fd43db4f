"""Makes the models of the objectives, new or from a checkpoint: one function for each kind.

Each function takes the encoder's configuration, the run's configuration, the preprocessor and the
dtype.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_bert.checkpoints import open_checkpoint
from keras_bert.checkpoints.files import SafetensorsFiles, assign_tensors
from keras_bert.checkpoints.variables import named_variables
from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.objectives.distillation import DistillationModel, copy_from_teacher
from keras_bert.pretraining.objectives.replaced_tokens import ReplacedTokenModel, generator_config
from keras_bert.tasks.masked_lm import MaskedLanguageModel
from keras_bert.tasks.registry import LANGUAGE_MODELS, TASKS

REMAINING = "training.safetensors"
"""File in a checkpoint for trained weights that are not part of the final model."""

logger = logging.getLogger(__name__)


def start_model(
    task: str,
    encoder_config: EncoderConfig,
    config: PretrainingConfig,
    preprocessor: Any,
    dtype: Any,
    **head: Any,
) -> Any:
    """Makes the model of a task, with the weights of `model.init_checkpoint` if this is set.

    If the checkpoint lacks a head, the head is initialized at random, and a message is logged.

    Args:
        task: name of the task; see `keras_bert.load`.
        encoder_config: configuration of the encoder. This configuration differs from the
            checkpoint's configuration only in options without weights, or in the pooler.
        config: configuration of the run.
        preprocessor: preprocessor of the model.
        dtype: dtype of the model.
        **head: arguments of a new head.

    Raises:
        CheckpointError: if the checkpoint's weights do not fit the configuration.
    """
    source = config.model.init_checkpoint
    if not source:
        encoder = Encoder(encoder_config, dtype=dtype)
        return TASKS[task].model_class(encoder, preprocessor=preprocessor, **head)
    contents = open_checkpoint(source)[1]._replace(encoder=encoder_config.to_dict())
    options = {} if contents.task == task else head
    return contents.load(task, preprocessor=preprocessor, dtype=dtype, **options)


def masked_language_model(
    encoder_config: EncoderConfig, config: PretrainingConfig, preprocessor: Any, dtype: Any
) -> MaskedLanguageModel:
    """Makes a masked language model."""
    enhanced = encoder_config.positions_in_head
    return start_model("masked_lm", encoder_config, config, preprocessor, dtype, enhanced=enhanced)


def replaced_token_model(
    encoder_config: EncoderConfig,
    config: PretrainingConfig,
    preprocessor: Any,
    dtype: Any,
    *,
    disentangled: bool,
    size: float,
    depth: float,
) -> ReplacedTokenModel:
    """Makes a generator and a detector.

    `size` and `depth` are the generator's width and number of layers, as ratios to the detector's.
    The options `generator_size` and `generator_depth` replace them.
    """
    size = size if config.objective.generator_size is None else config.objective.generator_size
    depth = depth if config.objective.generator_depth is None else config.objective.generator_depth
    model = ReplacedTokenModel(
        encoder_config,
        generator_config(encoder_config, size, depth),
        disentangled=disentangled,
        preprocessor=preprocessor,
        dtype=dtype,
    )
    if source := config.model.init_checkpoint:
        context = encoder_config.positions_in_head
        detector = start_model(
            "replaced_token", encoder_config, config, preprocessor, dtype, context=context
        )
        model.start_from(detector)
        load_remaining(model, source)
    return model


def distillation_model(
    encoder_config: EncoderConfig,
    config: PretrainingConfig,
    preprocessor: Any,
    dtype: Any,
    *,
    every_token: bool,
) -> DistillationModel:
    """Makes a student and its teacher.

    Raises:
        InputError: if the teacher does not fit the student.
    """
    path, length = str(config.objective.teacher), config.data.sequence_length
    _, saved = open_checkpoint(path)
    if saved.task not in LANGUAGE_MODELS:
        raise InputError(
            f"The teacher {path} is a {saved.task!r}, which does not predict masked tokens; "
            "give a masked language model."
        )
    teacher = saved.load("masked_lm", dtype=dtype)
    own = teacher.preprocessor
    if own is not None and own.vocabulary.tokens != preprocessor.vocabulary.tokens:
        raise InputError(
            f"The teacher {path} has another vocabulary than {config.data.vocabulary}; leave "
            "data.vocabulary out to use the teacher's vocabulary."
        )
    if teacher.config.max_positions < length:
        raise InputError(
            f"data.sequence_length is {length}, but the teacher {path} has "
            f"{teacher.config.max_positions} positions; lower it."
        )
    student = masked_language_model(encoder_config, config, preprocessor, dtype)
    model = DistillationModel(student, teacher, every_token=every_token)
    copy_from_teacher(student, teacher)
    return model


def load_remaining(model: keras.Model, path: str) -> None:
    """Loads the generator from a run's checkpoint. Logs a warning if `path` has no generator.

    Raises:
        CheckpointError: if the generator has other sizes.
    """
    file = Path(path) / REMAINING
    if not file.is_file():
        logger.warning(
            "%s has no generator, so the generator is initialized at random. Checkpoints of a run "
            "have one.",
            path,
        )
        return
    names = set(SafetensorsFiles({file: None}).names())
    variables = named_variables(model, model.trainable_variables)
    assign_tensors({name: v for name, v in variables.items() if name in names}, file)


def seed_states(model: keras.Model) -> list[keras.Variable]:
    """Returns the states of all random generators in the model, in the order of its layers."""
    generators = [getattr(layer, "seed_generator", None) for layer in model._flatten_layers()]
    return [generator.state for generator in generators if generator is not None]


def with_seeds(model: keras.Model, values: Sequence[Any], seeds: Any) -> list[Any]:
    """Returns values for the variables that are not trained, with new seeds for random generators.

    Args:
        model: model with the variables.
        values: values in the order of `model.non_trainable_variables`.
        seeds: `[D, 2]`, seeds of the D `seed_states`.
    """
    rows = {id(state): row for row, state in enumerate(seed_states(model))}
    return [
        ops.cast(seeds[rows[id(variable)]], variable.dtype) if id(variable) in rows else value
        for variable, value in zip(model.non_trainable_variables, values, strict=True)
    ]
