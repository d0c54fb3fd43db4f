"""The models that are trained, new or from a checkpoint: one function for each kind.

Arguments are the encoder's configuration, the run, the preprocessor and the dtype.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras

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
from keras_bert.tasks.pretraining import PretrainingModel
from keras_bert.tasks.registry import LANGUAGE_MODELS

REST = "training.safetensors"
"""Of the checkpoints of a run: weights that are trained and are not the model's."""

logger = logging.getLogger(__name__)


def masked_language_model(
    config: EncoderConfig, run: PretrainingConfig, preprocessor: Any, dtype: Any
) -> MaskedLanguageModel:
    """Of masked tokens."""
    # Where absolute positions are not added at the input, the head has them.
    enhanced = not config.position_input
    if run.model.init_checkpoint:
        head = {"enhanced": enhanced}
        return load_initial(
            run.model.init_checkpoint, "masked_lm", config, preprocessor, dtype, head
        )
    return MaskedLanguageModel(
        Encoder(config, dtype=dtype), preprocessor=preprocessor, enhanced=enhanced
    )


def pretraining_model(
    config: EncoderConfig, run: PretrainingConfig, preprocessor: Any, dtype: Any
) -> PretrainingModel:
    """Of masked tokens and pairs of texts."""
    if run.model.init_checkpoint:
        return load_initial(run.model.init_checkpoint, "pretraining", config, preprocessor, dtype)
    return PretrainingModel(Encoder(config, dtype=dtype), preprocessor=preprocessor)


def replaced_token_model(
    config: EncoderConfig,
    run: PretrainingConfig,
    preprocessor: Any,
    dtype: Any,
    *,
    disentangled: bool,
    size: float,
    depth: float,
) -> ReplacedTokenModel:
    """Of replaced tokens; `size` and `depth` of a generator where the run does not say them."""
    size = size if run.objective.generator_size is None else run.objective.generator_size
    depth = depth if run.objective.generator_depth is None else run.objective.generator_depth
    model = ReplacedTokenModel(
        config,
        generator_config(config, size, depth),
        disentangled=disentangled,
        preprocessor=preprocessor,
        dtype=dtype,
    )
    if source := run.model.init_checkpoint:
        head = {"context": not config.position_input}
        detector = load_initial(source, "replaced_token", config, preprocessor, dtype, head)
        model.start_from(detector)
        load_rest(model, source)
    return model


def distillation_model(
    config: EncoderConfig,
    run: PretrainingConfig,
    preprocessor: Any,
    dtype: Any,
    *,
    every_token: bool,
) -> DistillationModel:
    """Of what a teacher says.

    Raises:
        InputError: if the teacher cannot teach this student.
    """
    path, length = str(run.objective.teacher), run.data.sequence_length
    _, saved = open_checkpoint(path)
    if saved.task not in LANGUAGE_MODELS:
        raise InputError(
            f"The teacher {path} is a {saved.task!r}, which does not guess masked tokens; "
            "name a masked language model."
        )
    teacher = saved.load("masked_lm", dtype=dtype)
    theirs = teacher.preprocessor
    if theirs is not None and theirs.vocabulary.tokens != preprocessor.vocabulary.tokens:
        raise InputError(
            f"The teacher {path} has another vocabulary than {run.data.vocabulary}; leave the "
            "option data.vocabulary out, and the teacher's is taken."
        )
    if teacher.config.max_positions < length:
        raise InputError(
            f"data.sequence_length is {length}, but the teacher {path} has "
            f"{teacher.config.max_positions} positions; lower it."
        )
    student = masked_language_model(config, run, preprocessor, dtype)
    model = DistillationModel(student, teacher, every_token=every_token)
    copy_from_teacher(student, teacher)
    return model


def load_initial(
    path: str,
    task: str,
    config: EncoderConfig,
    preprocessor: Any,
    dtype: Any,
    head: Mapping[str, Any] = MappingProxyType({}),
) -> keras.Model:
    """A checkpoint as the model of a task; a head that it lacks is new, which is logged.

    Args:
        path: of the checkpoint.
        task: as of `keras_bert.load`.
        config: of the encoder: the checkpoint's with changes that touch no weight, or the pooler.
        preprocessor: of the model.
        dtype: of the model.
        head: arguments of a new head.

    Raises:
        CheckpointError: if its weights do not fit the configuration.
    """
    contents = open_checkpoint(path)[1]._replace(encoder=config.to_dict())
    options = {} if contents.task == task else dict(head)
    return contents.load(task, preprocessor=preprocessor, dtype=dtype, **options)


def load_rest(model: keras.Model, path: str) -> None:
    """Sets what is trained beside the model, a generator, where the path is a run's checkpoint.

    Raises:
        CheckpointError: if it is of other sizes.
    """
    file = Path(path) / REST
    if not file.is_file():
        logger.warning("%s has no generator: it begins anew; checkpoints of a run have one.", path)
        return
    names = set(SafetensorsFiles({file: None}).names())
    variables = named_variables(model, model.trainable_variables)
    assign_tensors({name: v for name, v in variables.items() if name in names}, file)
