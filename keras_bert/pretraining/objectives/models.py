"""The models that are trained, new or from a checkpoint: one function for each kind.

Arguments are the encoder's configuration, the run, the preprocessor and the dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras_bert.checkpoints import open_checkpoint
from keras_bert.checkpoints.tasks import LANGUAGE_MODELS
from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.pretraining.objectives.distillation import DistillationModel, copy_from_teacher
from keras_bert.pretraining.objectives.init_checkpoint import load_initial, load_rest
from keras_bert.pretraining.objectives.replaced_tokens import ReplacedTokenModel, generator_config
from keras_bert.tasks.masked_lm import MaskedLanguageModel
from keras_bert.tasks.pretraining_model import PretrainingModel

if TYPE_CHECKING:
    from keras_bert.pretraining.config import PretrainingConfig


def masked_language_model(
    config: EncoderConfig, run: PretrainingConfig, preprocessor: Any, dtype: Any
) -> MaskedLanguageModel:
    """Of masked tokens."""
    # Where absolute positions are not added at the input, the head has them.
    enhanced = not config.position_input
    if run.initial:
        head = {"enhanced": enhanced}
        return load_initial(run.initial, "masked_lm", config, preprocessor, dtype, head)
    return MaskedLanguageModel(
        Encoder(config, dtype=dtype), preprocessor=preprocessor, enhanced=enhanced
    )


def pretraining_model(
    config: EncoderConfig, run: PretrainingConfig, preprocessor: Any, dtype: Any
) -> PretrainingModel:
    """Of masked tokens and pairs of texts."""
    if run.initial:
        return load_initial(run.initial, "pretraining", config, preprocessor, dtype)
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
    size = size if run.generator_size is None else run.generator_size
    depth = depth if run.generator_depth is None else run.generator_depth
    model = ReplacedTokenModel(
        config,
        generator_config(config, size, depth),
        disentangled=disentangled,
        preprocessor=preprocessor,
        dtype=dtype,
    )
    if run.initial:
        head = {"context": not config.position_input}
        detector = load_initial(run.initial, "replaced_token", config, preprocessor, dtype, head)
        model.start_from(detector)
        load_rest(model, run.initial)
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
    _, saved = open_checkpoint(str(run.teacher))
    if saved.task not in LANGUAGE_MODELS:
        raise InputError(
            f"The teacher {run.teacher} is a {saved.task!r}, which does not guess masked tokens; "
            "name a masked language model."
        )
    teacher = saved.load("masked_lm", dtype=dtype)
    theirs = teacher.preprocessor
    if theirs is not None and theirs.vocabulary.tokens != preprocessor.vocabulary.tokens:
        raise InputError(
            f"The teacher {run.teacher} has another vocabulary than {run.vocabulary}; leave the "
            "option vocabulary out, and the teacher's is taken."
        )
    if teacher.config.max_positions < run.sequence_length:
        raise InputError(
            f"sequence_length is {run.sequence_length}, but the teacher {run.teacher} has "
            f"{teacher.config.max_positions} positions; lower it."
        )
    student = masked_language_model(config, run, preprocessor, dtype)
    model = DistillationModel(student, teacher, every_token=every_token)
    copy_from_teacher(student, teacher)
    return model
